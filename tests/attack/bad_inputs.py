"""Give every argument of every public callable bad values of forty kinds, one at a time.

    python bad_inputs.py FIRST FOLDER

The callables are found by looking; what is added to a room later is tried too. A case is one bad value for
one argument, the others being good. The answer must be clear: an error of this package, or the system's with
the name of a file. Some bad values are good ones elsewhere (a negative reward, an empty list of rewards), so
a call may also succeed, unless it was given something that is no number for a number.
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from child import MEMORY, is_clear, notebook

sys.path.insert(0, str(Path(__file__).parents[1] / "repository"))
from surface import parameters, public_callables

import kalmanbandits as kb
from kalmanbandits.backtesting import backtest, read_log
from kalmanbandits.filtering import ModifiedFilter
from kalmanbandits.integrations.gymnasium import (
    LinearGaussianBandit,
    LinearGaussianBanditVector,
    ReplayBandit,
)
from kalmanbandits.policies.verbs import never
from kalmanbandits.studies import Shard, parse_study, run_study
from kalmanbandits.systems import Replay

SECONDS = 20  # of work for one call; one that waits without end is noticed by whoever watches this process


class Foreign:
    """An object of somebody else."""


class Raising:
    """An object whose own code fails whatever it is taken for."""

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no array")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no list")

    def __fspath__(self) -> str:
        raise RuntimeError("no path")


class RaisingFloat(float):
    """A number that cannot be converted to one."""

    def __float__(self) -> float:
        raise RuntimeError("no number")


class RaisingInt(int):
    """The same for integers."""

    def __int__(self) -> int:
        raise RuntimeError("no number")

    __float__ = RaisingFloat.__float__


class RaisingAttributes:
    """An object in which nothing can be looked up."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attribute")


class RaisingText(str):
    """A text that does not say itself."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unprintable:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


itself: list[Any] = []
itself.append(itself)
BAD: dict[str, Any] = {
    "wrong type": "x",
    "NaN": math.nan,
    "infinite": math.inf,
    "negative": -1,
    "empty": [],
    "huge": 10**400,
    "wrong shape": np.zeros((2, 3, 4)),
    "foreign object": Foreign(),
    # Those above are the least that every argument gets.
    "nothing": None,
    "a truth": True,
    "complex": 1 + 2j,
    "a time": np.datetime64("2024-01-01"),
    "bytes": b"\xff",
    "surrogate": "\ud800",
    "zero byte": "a\0b",
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "objects": np.array([Foreign(), None], object),
    "texts": ["1", "x"],
    "NaN among": [1.0, math.nan],
    "huge among": [1, 10**400],
    "dictionary": {"x": 1},
    "set": {1, 2},
    "deep": nested(5000),
    "text of a number": "1",
    "negative zero": -0.0,
    "beyond 64 bits": 2**64,
    "large": 2**62,
    "1e308": 1e308,
    "tiny": 5e-324,
    "unprintable": Unprintable(),
    "no dimensions": np.array(1.0),
    "text without dimensions": np.array("x"),
    "a span of time": np.timedelta64(1, "D"),
    "masked constant": np.ma.masked,
    "raising": Raising(),
    "raising float": RaisingFloat(1.0),
    "raising integer": RaisingInt(1),
    "raising within": [Raising(), Raising()],
    "raising attributes": RaisingAttributes(),
    "raising text": RaisingText("x"),
    "no end": itertools.repeat(1.0),
    "itself": itself,
}
STUDY = 'rounds=10\nruns=1\n[[systems]]\nfamily="rotation"\ntheta=1\n[[policies]]\npolicy="UCB"'


@cache
def good() -> dict[str, Any]:
    """A value for each name that arguments have; where a name means two things, see `SPECIAL`."""
    system = kb.systems.rotation(theta=1.0)
    table = np.random.default_rng(0).standard_normal((40, 2))
    policies = {"UCB": kb.UCB(arms=2)}
    places = {
        "path": "agent",
        "where": "local:1",
        "folder": "folder",
        "source": "arms = 2\nfamily = 'random_walk'",
        "name": "name",
    }
    counts = {
        "arms": 2,
        "window": 2,
        "rounds": 10,
        "runs": 2,
        "seed": 0,
        "first_run": 0,
        "run": 0,
        "visits": 10,
    }
    counts |= {"arm": 0, "best": 0, "dimension": 2, "steps": 2, "dimensions": 2, "times": 1, "pieces": 8}
    counts |= {
        "batch": 10,
        "lags": 2,
        "max_open": 10,
        "at_least": 0,
        "p": 0,
        "points": 5,
        "cell": 0,
        "number": 0,
    }
    numbers = dict.fromkeys(("theta", "delta", "delta_e", "delta_b", "gamma", "discount", "variation"), 0.5)
    numbers |= dict.fromkeys(("B_c", "B_R", "B_G", "lambda_", "mean_norm", "largest_square", "sd_beta"), 1.0)
    numbers |= {"noise_variance": 1.0, "reward": 0.5, "deltas": 0.1, "value": 1.0, "level": 0.5}
    arrays = {"gram": np.eye(2), "rewards": [1.0, 2.0], "covariance": np.eye(2), "smaller": 0.5 * np.eye(2)}
    arrays |= {
        "code": (0, 1),
        "actions": [0, 1],
        "estimate": np.zeros(4),
        "vector": np.ones(4),
        "periods": [7.0],
    }
    arrays |= {
        "exploration": [1.0, 1.0],
        "widths": [1.0, 1.0],
        "spreads": [1.0, 1.0],
        "coefficients": [[0.5]],
    }
    arrays |= {"table": table, "shape": (2,), "choices": ("a", "b"), "transition": 0.5 * np.eye(2)}
    replay = Replay(table)
    made = {"system": system, "replay": replay, "policies": policies, "modified": ModifiedFilter(system)}
    made |= {"policy": kb.UCB(arms=2), "document": {"family": "random_walk", "arms": 2}, "text": STUDY}
    made |= {"env": LinearGaussianBandit(system), "agent": kb.Agent(kb.UCB(arms=2))}
    arrays |= {"action": 0, "actions": [0]}
    made |= {"study": parse_study(STUDY), "values": {"policy": "UCB", "arms": 2}, "ticket": 0, "kind": int}
    return {**places, **counts, **numbers, **arrays, **made}


@cache
def special() -> dict[str, dict[str, Any]]:
    """Good values where the name of an argument alone does not say what it is."""
    agent = kb.Agent(kb.UCB(arms=2), history=True)
    agent.update(agent.select(), 1.0)
    made, judged = good(), instance("backtesting.Backtest")
    simulated = kb.simulate(made["system"], made["policies"], rounds=10, runs=2)
    log = read_log({"arm": ["a", "b"] * 9, "reward": [1.0, 2.0] * 9, "propensity": [0.5] * 18})
    return {
        "LinearGaussianSystem": {"actions": np.eye(2), "process_noise": np.eye(2)},
        "systems.Replay.less": {"level": 1.0},
        "systems.Replay.rows": {"first": 0},
        "simulate": {"rounds": 10},
        "register_kernel": dict.fromkeys(("score", "update", "skip"), never),
        "studies.library_study": {"name": "paper"},
        "studies.merge_stores": {"folders": ["results", "results too"]},
        "studies.Results": {"store": instance("studies.Results")._store},
        "studies.Shard": {"part": 1, "of": 2},
        "studies.Shard.parse": {"text": "1/2"},
        "studies.Shard.chunks": {"store": instance("studies.Results")._store},
        "reporting.write_report": {"results": instance("studies.Results")},
        "Agent.save": {"target": "saved"},
        "errors.nearest": {"names": ["a", "b"]},
        "errors.listed": {"items": ["a", "b"]},
        "Agent.tell_many": {"rewards": []},
        "agent.History": {"rows": agent.history.rows, "names": None},
        "backtesting.evaluate": {"log": log},
        "backtesting.recommend": {"result": judged},
        "plot.backtest": {"result": judged},
        "plot.choices": {"source": {"arm": [0, 1]}},
        "plot.regret": {"result": simulated},
        "theory.Bracket.times_ceiling": {"result": simulated},
        "theory.expected_maximum_gap": {"larger": np.eye(2)},
        **{
            f"{name}.{check}": {"memory": kind(**sound(name, kind)).memory()}
            for name, kind in policies().items()
            for check in ("check_layout", "check_memory")
        },
    }


@cache
def surface() -> dict[str, Callable[..., Any]]:
    """Every public callable by its label."""
    return public_callables()


@cache
def policies() -> dict[str, Any]:
    """Everything that has a memory and can be made."""
    return {
        name: kind
        for name, kind in surface().items()
        if isinstance(kind, type) and issubclass(kind, kb.policies.Spec) and name not in NOT_MADE
    }


# Arguments for which every object will do.
ANYTHING = {"name", "header"}
# Hooks that the library calls, with memories of its own.
HOOKS = {"attend", "background_work", "start", "grow"}
# Classes that nobody makes an object of: bases of policies, and what functions return.
NOT_MADE = {"PlainPolicy", "Policy", "policies.Spec", "simulation.Oracle", "simulation.Progress"}
NOT_MADE |= {"backtesting.Log", "studies.Plan"}


def begun(env: Any) -> Any:
    """An environment with an episode under way."""
    env.reset(seed=0)
    return env


@cache
def instance(label: str) -> Any:
    """An object whose methods are tried."""
    made: dict[str, Callable[[], Any]] = {
        "LinearGaussianSystem": lambda: good()["system"],
        "Agent": lambda: kb.Agent(kb.UCB(arms=2), seed=0),
        "systems.Replay": lambda: good()["replay"],
        "filtering.KalmanFilter": lambda: kb.filtering.KalmanFilter(good()["system"]),
        "filtering.ModifiedFilter": lambda: good()["modified"],
        "filtering.WindowPredictor": lambda: kb.filtering.optimal_window(good()["system"], 0, (0, 1)),
        "theory.Bracket": lambda: kb.theory.best_obtainable(good()["system"], rounds=10, runs=2),
        "systems.AssumptionReport": lambda: good()["system"].check(),
        "studies.Study": lambda: good()["study"],
        "studies.Results": lambda: run_study(good()["study"], "results", jobs=1),
        "studies.Shard": lambda: Shard(1, 2),
        "integrations.gymnasium.LinearGaussianBandit": lambda: begun(LinearGaussianBandit(good()["system"])),
        "integrations.gymnasium.LinearGaussianBanditVector": lambda: begun(LinearGaussianBanditVector()),
        "integrations.gymnasium.ReplayBandit": lambda: begun(ReplayBandit(good()["replay"])),
        "backtesting.Backtest": lambda: backtest(good()["replay"], good()["policies"], runs=1),
    }
    if label in made:
        return made[label]()
    kind = surface()[label]
    return kind(**sound(label, kind))


def sound(label: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Good values for the arguments that need one."""
    own = {} if label in policies() else special().get(label, {})
    values = good() | own
    needed = [
        p
        for p in parameters(function)
        if p.name in own or (p.default is p.empty and p.kind is not p.VAR_POSITIONAL)
    ]
    return {p.name: values[p.name] for p in needed}


class Case(NamedTuple):
    """One bad value for one argument of one callable."""

    label: str
    argument: inspect.Parameter
    kind: str

    @property
    def name(self) -> str:
        return f"{self.label}({self.argument.name}: {self.kind})"


def is_record(value: Callable[..., Any]) -> bool:
    """A class that only holds what a function returned: nobody makes one by hand, and it checks nothing."""
    if not isinstance(value, type) or value is kb.theory.Bound:
        return isinstance(value, type)
    generated = getattr(value.__init__, "__code__", None)
    checks = hasattr(value, "__post_init__")
    return not checks and (generated is None or generated.co_filename == "<string>")


def cases() -> Iterator[Case]:
    """All of them, in an order that does not change."""
    for label, function in surface().items():
        if is_record(function) or label.startswith("errors.") or label.rpartition(".")[0] in NOT_MADE:
            continue
        if label in NOT_MADE or label.rpartition(".")[2] in HOOKS:
            continue
        for parameter in parameters(function):
            for kind in BAD:
                yield Case(label, parameter, kind)


@cache
def bound(label: str) -> Callable[..., Any]:
    """The callable, of an instance where it is a method."""
    owner, _, method = label.rpartition(".")
    if isinstance(surface().get(owner), type) and not inspect.ismethod(surface()[label]):
        return getattr(instance(owner), method)
    return surface()[label]


def fault(case: Case) -> str:
    """What is wrong with the answer to a case; nothing if it is clear."""
    function = bound(case.label)
    arguments = sound(case.label, function)
    bad, name = BAD[case.kind], case.argument.name
    try:
        if case.argument.kind is case.argument.VAR_POSITIONAL:
            result = function(bad)
        else:
            arguments[name] = bad
            result = function(**arguments)
    except Exception as error:
        return "" if is_clear(error) else f"{type(error).__name__}: {str(error)[:120]}"
    hints = str(case.argument.annotation)
    number = any(word in hints for word in ("int", "float", "ArrayLike", "Array")) and "str" not in hints
    if number and case.kind in ("wrong type", "NaN", "foreign object") and name not in ANYTHING:
        return "taken for a number"
    if (
        case.kind == "foreign object"
        and name not in ANYTHING
        and "Any" not in hints
        and "object" not in hints
    ):
        return "taken, whatever it is"
    if isinstance(result, (float, np.floating)) and math.isnan(result):
        return "answered NaN"
    return ""


def main(first: int, folder: Path) -> None:
    """Play the cases from number `first` on."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("error")
    os.chdir(folder)
    note = notebook(folder)

    def late(*_: object) -> None:
        raise TimeoutError(f"worked for more than {SECONDS} seconds")

    signal.signal(signal.SIGPROF, late)
    for case in islice(cases(), first, None):
        note(case=case.name)
        bound(case.label)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        wrong = fault(case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if wrong:
            note(fault=wrong)
    note(done=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
