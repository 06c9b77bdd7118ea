"""From the verdict to an agent: a Python file that runs the policy, begun with what the table knows."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from kalmanbandits import __version__
from kalmanbandits.backtesting.recommendation import WINS, Recommendation
from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.durability import beginning
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.spec import Policy, is_ours

AGENT, SYSTEM = "agent.py", "system.toml"
LONGEST = 2**24  # bytes of an agent.py, of which each column takes its name
SEAL = "# As written by kalmanbandits: "


class Origin(NamedTuple):
    """Where a table came from: its file, the options it was read with, and whether it is in long form."""

    path: Path
    options: dict[str, Any]
    log: bool = False


def agent_files(result: Backtest, said: Recommendation, origin: Origin) -> dict[str, str]:
    """The texts of `agent.py` and, for a policy that knows its system, of `system.toml`, by name."""
    policy = result.policies[said.policy]
    files = {AGENT: _sealed(_script(result, said, policy, origin))}
    if isinstance(policy, KnownSystemPolicy):
        files[SYSTEM] = (
            f"# The system of the policy in {AGENT}; written by kalmanbandits.\n{policy.system.to_toml()}"
        )
    return files


def _sealed(text: str) -> str:
    """The text with its checksum in the last line, by which a later backtest sees whether it was edited."""
    return f"{text}\n{SEAL}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def is_edited(path: Path) -> bool:
    """Whether a file is there that is not as `agent_files` wrote it."""
    if not os.path.lexists(path):
        return False
    if not path.is_file():
        return True
    content = beginning(path, LONGEST)
    text, _, _ = content.decode("utf-8", "replace").rpartition(f"\n{SEAL}")
    return content != _sealed(text).encode()


def _script(result: Backtest, said: Recommendation, policy: Policy, origin: Origin) -> str:
    replay = result.table
    options = {name: value for name, value in origin.options.items() if value is not None}
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    table = f"read_log(TABLE{given}).table()" if origin.log else f"kb.systems.Replay(TABLE{given})"
    beside = ["arms=ARMS"] + (["minimize=True"] if replay.minimize else [])
    what = "cost" if replay.minimize else "reward"
    reader = "from kalmanbandits.backtesting import read_log\n" if origin.log else ""
    own = _own_module(policy)
    imports = "import importlib.util\nimport sys\n" if own else ""
    return f'''"""{_heading(said)}

{_expectations(said)}

Made by kalmanbandits {__version__} from {_plain(origin.path.name)}.
Run it to begin, or import `open_agent` from it:

    with open_agent() as agent:
        ticket = agent.ask()                # ticket.arm is the arm to use
        agent.tell(ticket, {what})          # whenever it is known; agent.expire(ticket) if it never will be
"""

{imports}from pathlib import Path

import kalmanbandits as kb
{reader}
HERE = Path(__file__).resolve().parent
FOLDER = HERE / "agent"  # where the agent keeps its journal: every choice and every {what}
TABLE = Path({str(origin.path.resolve())!r})
ARMS = {list(replay.names)!r}
{_policy(policy, own)}

def open_agent() -> kb.Agent:
    """The agent as it was left; in a new folder one that has played the table first."""
    agent = kb.Agent.open(FOLDER, POLICY, seed={result.seed}, {", ".join(beside)})
    if agent.rounds == 0:
        agent.warm_start({table}, once=True)  # by one process, if several begin
    return agent


if __name__ == "__main__":
    with open_agent() as agent:
        print(f"{{agent.rounds}} rounds played; next: {{agent.explain().choice!r}}")
        print(agent.explain())
'''


def _heading(said: Recommendation) -> str:
    name = _plain(said.policy)
    if said.verdict == WINS:
        return f"An agent that plays {name}, as the backtest recommends."
    return f"An agent that plays {name}, which the backtest does not recommend: read on before you use it."


def _expectations(said: Recommendation) -> str:
    if said.verdict == WINS:
        like = "What to expect, if the future is like the table and the choices do not change it: "
        text = like + str(said).removeprefix(f"Use {said.policy}: ")
    else:
        text = f"What the backtest says: {said}"
    return fill(_plain(text), 108, break_long_words=False)


def _plain(text: str) -> str:
    """A text that cannot end the string it stands in."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)  # no surrogates either
    return shown.replace("\\", "/").replace('"""', "'''")


def _policy(policy: Policy, own: Path | None) -> str:
    """The line that makes the policy, with the settings that are not its standard ones."""
    name = type(policy).__name__
    if isinstance(policy, KnownSystemPolicy):
        system = f"kb.LinearGaussianSystem.from_toml(HERE / {SYSTEM!r})"
        return f"POLICY = kb.{name}({', '.join([system, *_settings(policy, 'system')])})\n"
    call = f"{name}({', '.join(_settings(policy))})"
    if own is None:
        return f"POLICY = kb.{call}\n"
    return f"""_spec = importlib.util.spec_from_file_location("own_policies", {str(own)!r})
_own = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _own
_spec.loader.exec_module(_own)
POLICY = _own.{call}
"""


def _settings(policy: Any, *known: str) -> list[str]:
    return [
        f"{field.name}={getattr(policy, field.name)!r}"
        for field in dataclasses.fields(policy)
        if field.name not in known and getattr(policy, field.name) != field.default
    ]


def _own_module(policy: Policy) -> Path | None:
    """The file of a policy that is not the library's."""
    if is_ours(type(policy)):
        return None
    return Path(inspect.getfile(type(policy))).resolve()
