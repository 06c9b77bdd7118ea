"""What a study will cost, from playing each of its policies for about a second."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kalmanbandits.errors import instance, whole
from kalmanbandits.policies import Random
from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.cpu import available_cores
from kalmanbandits.simulation.simulate import simulate
from kalmanbandits.studies.document.cells import Cell
from kalmanbandits.studies.document.spec import Study

SECONDS = 1.0  # of calibration for each policy
FIRST_ROUNDS = 500  # of a calibration; more and more until it takes long enough


@dataclass(frozen=True)
class Cost:
    """What one policy costs: the rounds it plays in the whole study, and seconds of one core for them."""

    label: str
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a study will cost.

    Attributes
    ----------
    costs
        Each policy, the dearest first.
    trajectories
        Seconds of one core for drawing the systems' trajectories, which all policies share.
    cores
        The number of cores it is to run on.
    size
        Bytes of the numbers before compression.
    """

    costs: tuple[Cost, ...]
    trajectories: float
    cores: int
    size: int

    @property
    def core_seconds(self) -> float:
        """Seconds of one core, everything together."""
        return self.trajectories + sum(cost.seconds for cost in self.costs)

    @property
    def seconds(self) -> float:
        """Seconds on all the cores."""
        return self.core_seconds / self.cores

    def share(self, cost: Cost) -> float:
        """Share of the total time that one policy takes.

        Parameters
        ----------
        cost : Cost
            One of `costs`.

        Returns
        -------
        float
            From 0 to 1.
        """
        return cost.seconds / self.core_seconds if self.core_seconds else 0.0


def plan_study(study: Study, cores: int | None = None) -> Plan:
    """What a study will cost on this machine's cores.

    Every policy is played on one core for about a second on the first system of each group in which it plays
    (kernels are compiled before); policies of one kind and size are taken to cost the same everywhere.

    Parameters
    ----------
    study
        What is to be played.
    cores
        On how many cores (default: all).

    Returns
    -------
    Plan
        The dearest policy first.
    """
    instance("study", study, Study, "load_study reads one from a file")
    cores = available_cores() if cores is None else whole("cores", cores, 1)
    measured: dict[object, float] = {}
    costs: dict[str, Cost] = {}
    trajectories = 0.0
    cells: dict[object, list[Cell]] = {}
    for cell in study.cells:
        cells.setdefault((cell.group, cell.system.arms, cell.system.dimension), []).append(cell)
    for members in cells.values():
        cell = members[0]
        rounds = study.rounds * study.runs * len(members)
        size = (cell.system.arms, cell.system.dimension)
        if size not in measured:
            measured[size] = _trajectory(cell, study)
        trajectories += measured[size] * rounds
        for label, spec in cell.policies.items():
            kind = (*size, type(spec), spec.memory().dtype.itemsize)
            if kind not in measured:
                measured[kind] = max(0.0, _per_round(cell, {label: spec}, study) - measured[size])
            before = costs.get(label, Cost(label, 0, 0.0))
            costs[label] = Cost(label, before.rounds + rounds, before.seconds + measured[kind] * rounds)
    ordered = sorted(costs.values(), key=lambda cost: -cost.seconds)
    return Plan(tuple(ordered), trajectories, cores, stored_bytes(study))


def stored_bytes(study: Study) -> int:
    """The bytes of a study's numbers before compression."""
    from kalmanbandits.studies.store.layout import blocks, layouts  # Zarr takes half a second to import

    total = 0
    for layout in layouts(study, blocks(study, "cpu")).values():
        length = study.runs if study.keep == "runs" else layout.blocks
        shapes = (layout.shape(variable, len(layout.cells), length) for variable in layout.variables)
        total += sum(map(math.prod, shapes))
    return 8 * total


def _trajectory(cell: Cell, study: Study) -> float:
    """Seconds per round for a trajectory: what one player costs with it, less what a second one adds."""
    one: dict[str, Spec] = {"one": Random(arms=cell.system.arms)}
    two: dict[str, Spec] = {**one, "two": Random(arms=cell.system.arms)}
    return max(0.0, 2 * _per_round(cell, one, study) - _per_round(cell, two, study))


def _per_round(cell: Cell, policies: Mapping[str, Spec], study: Study) -> float:
    """Seconds of one core per round, kernels compiled."""

    def play(rounds: int, runs: int) -> float:
        began = time.process_time()  # other programs on the machine do not count
        simulate(cell.system, policies, rounds=rounds, runs=runs, seed=study.seed, checkpoints=1, threads=1)
        return time.process_time() - began

    rounds = min(study.rounds, FIRST_ROUNDS)
    play(rounds, 1)  # compiles
    while (seconds := play(rounds, 1)) < SECONDS / 8 and rounds < study.rounds:
        rounds = min(study.rounds, 4 * rounds)
    # As long as the study's runs if there is time: a policy that learns may cost more in late rounds.
    affordable = rounds * SECONDS / 2 / max(seconds, 1e-6)
    rounds = max(rounds, int(min(study.rounds, affordable)))
    runs = max(1, min(1000, int(affordable / rounds)))
    return play(rounds, runs) / (rounds * runs)
