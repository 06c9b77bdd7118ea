"""Give every argument of every public callable eight bad values, one at a time.

    python bad_inputs.py FIRST FOLDER

The callables are found by looking; what is added to a room later is tried too. A case is one bad value for
one argument, the others being good. The answer must be clear: an error of this package, or a TypeError or
ValueError that names the argument. Some bad values are good ones elsewhere (a negative reward, an empty list
of rewards), so a call may also succeed, unless it was given something that is no number for a number.
"""

from __future__ import annotations

import inspect
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
from kalmanbandits.backtesting import backtest
from kalmanbandits.filtering import ModifiedFilter
from kalmanbandits.studies import parse_study, run_study
from kalmanbandits.systems import Replay

SECONDS = 20  # of one call


class Foreign:
    """An object of somebody else."""


BAD: dict[str, Any] = {
    "wrong type": "x",
    "NaN": math.nan,
    "infinite": math.inf,
    "negative": -1,
    "empty": [],
    "huge": 10**400,
    "wrong shape": np.zeros((2, 3, 4)),
    "foreign object": Foreign(),
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
    made |= {"study": parse_study(STUDY), "values": {"policy": "UCB", "arms": 2}, "ticket": 0, "kind": int}
    return {**places, **counts, **numbers, **arrays, **made}


SPECIAL: dict[str, dict[str, Any]] = {
    "LinearGaussianSystem": {"actions": np.eye(2), "process_noise": np.eye(2)},
    "systems.Replay.less": {"level": 1.0},
    "studies.library_study": {"name": "paper"},
    "Agent.tell_many": {"rewards": []},
}
# Arguments for which every object will do, and hooks that only the library calls, with memories of its own.
ANYTHING = {"name", "progress", "trace", "fsync", "resume", "header"}
INTERNAL = {"memory", "larger", "score", "update", "skip", "peek", "due"}
# Classes that nobody makes an object of: bases of policies, and what functions return.
NOT_MADE = {"PlainPolicy", "Policy", "policies.Spec", "simulation.Progress"}
NOT_MADE |= {"backtesting.Log", "studies.Plan", "studies.Shard"}


def instance(label: str, kind: type) -> Any:
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
        "backtesting.Backtest": lambda: backtest(good()["replay"], good()["policies"], runs=1),
    }
    if label in made:
        return made[label]()
    arguments = sound(label, kind)
    return None if arguments is None else kind(**arguments)


def sound(label: str, function: Callable[..., Any]) -> dict[str, Any] | None:
    """Good values for the arguments that need one; None if one has a name that is not known here."""
    values = good() | SPECIAL.get(label, {})
    needed = [p for p in parameters(function) if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if any(p.name not in values for p in needed):
        return None
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
    for label, function in public_callables().items():
        if is_record(function) or label.startswith("errors.") or label.rpartition(".")[0] in NOT_MADE:
            continue
        if label in NOT_MADE:
            continue
        for parameter in parameters(function):
            if not INTERNAL & {p.name for p in parameters(function)}:
                for kind in BAD:
                    yield Case(label, parameter, kind)


@cache
def bound(label: str) -> Callable[..., Any]:
    """The callable, of an instance where it is a method."""
    surface = public_callables()
    owner, _, method = label.rpartition(".")
    if isinstance(surface.get(owner), type) and not inspect.ismethod(surface[label]):
        return getattr(instance(owner, surface[owner]), method)
    return surface[label]


def room(label: str) -> str:
    """Where the callable is defined: a room, or `replay`, which lives in one with others."""
    module = public_callables()[label].__module__.split(".")
    return "replay" if module[-1] in ("replay", "tables") else module[1]


def fault(case: Case) -> str:
    """What is wrong with the answer to a case; nothing if it is clear."""
    function = bound(case.label)
    arguments = sound(case.label, function)
    if arguments is None:  # nothing is known of it: nothing good can be given
        arguments = {p.name: Foreign() for p in parameters(function) if p.default is p.empty}
    bad, name = BAD[case.kind], case.argument.name
    try:
        if case.argument.kind is case.argument.VAR_POSITIONAL:
            result = function(bad)
        else:
            arguments[name] = bad
            result = function(**arguments)
    except (TypeError, ValueError) as error:
        if is_clear(error) or name.rstrip("_") in str(error):
            return ""
        return f"{type(error).__name__} without the argument's name: {str(error)[:120]}"
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
        raise TimeoutError(f"took more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, late)
    for case in islice(cases(), first, None):
        note(case=case.name, room=room(case.label))
        bound(case.label)
        signal.alarm(SECONDS)
        wrong = fault(case)
        signal.alarm(0)
        if wrong:
            note(fault=wrong)
    note(done=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
