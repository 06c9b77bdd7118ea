"""How well anyone can do: a bracket around the best obtainable regret, and where a policy stands to it.

    floor  ≤  inf over causal policies of regret per round  ≤  min over known-system policies

Nobody who sees one arm per round loses less than the filter that sees every arm (`regret_floor`); and whoever
knows the system can play each of `KalmanGreedy`, `KalmanUCB` and `KalmanLookahead`, so the best obtainable is
no worse than the best of them. This answers the paper's question of best obtainable performance, and the gap
between greedy and look-ahead its question of what acting for information is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kalmanbandits.errors import Array, InvalidType, has, shown, whole
from kalmanbandits.policies import KalmanGreedy, KalmanLookahead, KalmanUCB
from kalmanbandits.simulation import FullInformation, simulate
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.theory.bound import Bound
from kalmanbandits.theory.limits import regret_floor

if TYPE_CHECKING:
    import xarray

KNOWING = {"KalmanGreedy": KalmanGreedy, "KalmanUCB": KalmanUCB, "KalmanLookahead": KalmanLookahead}


@dataclass(frozen=True)
class Bracket:
    """Regret per round: no causal policy loses less than `floor`; `best` knows the system, loses `ceiling`.

    `lookahead_gain` is what one step of look-ahead saves against greedy play (positive: acting for
    information pays), as a mean of paired runs; `lookahead_error` is its standard error.
    """

    rounds: int
    runs: int
    floor: Bound
    ceiling: Bound
    best: str
    lookahead_gain: float
    lookahead_error: float

    def __str__(self) -> str:
        return (
            f"best obtainable regret per round over {self.rounds:,} rounds: "
            f"from {self.floor.value:.4g} (the filter that sees every arm) "
            f"to {self.ceiling.value:.4g} ± {self.ceiling.error:.1g} ({self.best}, {self.runs} runs); "
            f"one step of look-ahead saves {self.lookahead_gain:.3g} ± {self.lookahead_error:.1g}"
        )

    def times_ceiling(self, result: xarray.Dataset) -> dict[str, float]:
        """Each policy's mean regret in a simulation as a multiple of the ceiling; 1 is as good as knowing.

        Parameters
        ----------
        result : xarray.Dataset
            What `simulate` returned.

        Returns
        -------
        dict of str to float
            A multiple for each policy.

        Examples
        --------
        >>> from kalmanbandits import Random, simulate
        >>> from kalmanbandits.systems import rotation
        >>> system = rotation(theta=2.0)
        >>> bracket = best_obtainable(system, rounds=500, runs=4)
        >>> result = simulate(system, {"Random": Random(arms=2)}, rounds=500, runs=4)
        >>> bracket.times_ceiling(result)["Random"] > 20
        True
        """
        if not has(result, "regret"):
            raise InvalidType(f"result must be what simulate returned, got {shown(result)}")
        last = result.regret.isel(checkpoint=-1)
        per_round = last.mean("run") / float(last.checkpoint)
        return {
            str(policy): float(per_round.sel(policy=policy)) / self.ceiling.value
            for policy in result.policy.values
        }


def best_obtainable(
    system: LinearGaussianSystem, rounds: int = 10_000, runs: int = 20, seed: int = 0
) -> Bracket:
    """Bracket the best obtainable regret per round over `rounds` rounds.

    From below exactly, for a system that starts in its stationary distribution; where it starts elsewhere, by
    simulating the filter that sees every arm. From above by simulation, with its standard error.

    Parameters
    ----------
    system : LinearGaussianSystem
    rounds : int
        Rounds per run.
    runs : int
        Runs that are simulated, at least 2.
    seed : int
        The seed of the random numbers, from 0.

    Returns
    -------
    Bracket
        The floor, the ceiling, and what look-ahead saves.
    """
    check_system(system)
    rounds = whole("rounds", rounds, 1)
    runs = whole("runs", runs, 2, "an error needs two")
    policies = {name: policy(system) for name, policy in KNOWING.items()}
    everyone = {**policies, "FullInformation": FullInformation(system)}
    result = simulate(system, everyone, rounds=rounds, runs=runs, seed=seed, checkpoints=1)
    regret = {name: result.regret.sel(policy=name).values[:, 0] / rounds for name in everyone}

    def error(samples: Array) -> float:
        return float(samples.std(ddof=1) / np.sqrt(runs))

    floor = _floor(system, rounds)
    if floor is None:
        seen = regret["FullInformation"]
        why = "no causal policy sees more than every arm; by simulation, since the start is not stationary"
        floor = Bound(seen.mean(), "floor", valid=True, why=why, side="lower", error=error(seen))
    best = min(policies, key=lambda name: float(regret[name].mean()))
    why = f"{best} is a policy, for whoever knows the system"
    ceiling = Bound(regret[best].mean(), "ceiling", valid=True, why=why, error=error(regret[best]))
    saved = regret["KalmanGreedy"] - regret["KalmanLookahead"]
    return Bracket(rounds, runs, floor, ceiling, best, float(saved.mean()), error(saved))


def _floor(system: LinearGaussianSystem, rounds: int) -> Bound | None:
    if not system.is_stationary:
        return None
    total = regret_floor(system, rounds)
    if not total.valid:
        return None
    return Bound(total.value / rounds, "floor", True, total.why, side="lower", error=total.error / rounds)
