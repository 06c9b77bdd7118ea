"""What the paper's figure is made of: gains over the angle, and the white, blue and grey regions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalmanbandits.errors import Array, InvalidArgument, Mask
from kalmanbandits.policies import UBSS
from kalmanbandits.policies.spec import Spec
from kalmanbandits.reporting.study.losses import Losses, summed_gain
from kalmanbandits.reporting.study.summary import CellSummary, Summary, in_common
from kalmanbandits.statistics.intervals import Interval, stack
from kalmanbandits.theory import regret_floor

WHITE, GREY, BLUE, MIXED = "white", "grey", "blue", "mixed"

MEANING = {
    WHITE: "every comparator is better than UBSS",
    GREY: "UBSS is better than every comparator",
    BLUE: "nobody is better than Random",
    MIXED: "none of these: better than some only",
}


class Constants(NamedTuple):
    """Those of the paper's bonus, and its width B_c B_R/δ."""

    B_c: float
    B_R: float
    delta_b: float

    @property
    def width(self) -> float:
        """B_c B_R/δ_b."""
        return self.B_c * self.B_R / self.delta_b


def constants(spec: Spec) -> Constants:
    """The constants of a UBSS with the paper's bonus."""
    if not isinstance(spec, UBSS):
        raise InvalidArgument(f"[report] must name policies UBSS for the paper's figure, got {spec!r}")
    return Constants(float(spec.B_c), float(spec.B_R), float(spec.delta_b))


@dataclass(frozen=True)
class PaperData:
    """The paper's study in its own terms: which policy plays which part, over which angles."""

    summary: Summary
    literal: tuple[str, ...]
    corrected: tuple[str, ...]
    comparators: tuple[str, ...]
    known: tuple[str, ...]
    sweep: tuple[CellSummary, ...]
    windows: CellSummary
    scan: CellSummary
    ends: tuple[CellSummary, ...]

    @cached_property
    def theta(self) -> Array:
        """The angles, rising."""
        return np.array([_angle(cell) for cell in self.sweep])

    @cached_property
    def observability(self) -> Array:
        """The smallest eigenvalue of each action's observability Gramian, shape (angles, arms)."""
        return np.stack([cell.cell.system.observability for cell in self.sweep])

    @cached_property
    def real_parts(self) -> Array:
        """The real parts of the eigenvalues of Γ, rising, shape (angles, d)."""
        return np.stack([np.sort(np.linalg.eigvals(cell.cell.system.transition).real) for cell in self.sweep])

    @cached_property
    def floor(self) -> Array:
        """What no causal policy can lose less than per round, at each angle."""
        n = self.summary.study.rounds
        return np.array([float(regret_floor(cell.cell.system, n)) / n for cell in self.sweep])

    @property
    def random(self) -> str:
        """The comparator that plays at random: the last one."""
        return self.comparators[-1]

    def place(self, policy: str) -> int:
        """Where a policy stands at every angle."""
        return self.sweep[0].place(policy)

    def losses(self, where: Mask) -> list[Losses]:
        """Regret per round of all policies at the angles `where`."""
        return [cell.losses for cell, chosen in zip(self.sweep, where, strict=True) if chosen]

    def loss(self, policy: str) -> Interval:
        """Regret per round of a policy at each angle."""
        return stack([cell.loss[self.place(policy)] for cell in self.sweep])

    def gain(self, policy: str, other: str) -> Interval:
        """Percent by which `policy` loses less than `other`, at each angle."""
        return stack([cell.gain(policy, other) for cell in self.sweep])

    def pooled_gain(self, policy: str, other: str, where: Mask) -> Interval:
        """The same for the regret of all angles `where` taken together.

        A run has the same noise at every angle, so angles are added up within a run before runs are compared.
        """
        return summed_gain(self.losses(where), self.place(policy), self.place(other))

    @cached_property
    def scanned(self) -> list[tuple[float, Interval]]:
        """B_c B_R/δ_b of each policy of the scan, rising, and its gain over the first comparator."""
        found = []
        for name, spec in self.scan.cell.policies.items():
            if name != self.comparators[0]:
                width = constants(spec).width
                found.append((width, self.scan.gain(name, self.comparators[0])))
        return sorted(found, key=lambda point: point[0])

    def regions(self, policy: str) -> NDArray[np.str_]:
        """The region of each angle when `policy` is the paper's UBSS, shape (angles,) of names.

        With G(a, b) the 95 % interval of the percentage by which a loses less than b:

        * white: G(UBSS, c) lies below 0 for every comparator c;
        * grey: G(UBSS, c) lies above 0 for every comparator c;
        * blue: G(a, Random) lies above 0 for no a among UBSS and the other comparators;
        * mixed: none of these.
        """
        gains = [self.gain(policy, other) for other in self.comparators]
        learners = [policy, *self.comparators[:-1]]
        someone = np.any([self.gain(name, self.random).above(0) for name in learners], axis=0)
        region = np.where(someone, MIXED, BLUE)
        region = np.where(np.all([gain.above(0) for gain in gains], axis=0), GREY, region)
        return np.where(np.all([gain.below(0) for gain in gains], axis=0), WHITE, region)


def paper_data(summary: Summary) -> PaperData:
    """Find the parts that the study's [report] table names."""
    data = PaperData(
        summary=summary,
        literal=_names(summary, "literal"),
        corrected=_names(summary, "corrected"),
        comparators=_names(summary, "comparators"),
        known=_names(summary, "known"),
        sweep=tuple(in_common(sorted(_cells(summary, "angles"), key=_angle))),
        windows=_one(summary, "windows"),
        scan=_one(summary, "scan"),
        ends=tuple(sorted(_cells(summary, "ends"), key=_angle)),
    )
    _check(data.sweep, [data.literal[0], *data.corrected, *data.comparators, *data.known])
    _check([data.windows], [*data.literal, *data.corrected, *data.comparators])
    _check([data.scan], data.comparators[:1])
    _check(data.ends, [data.literal[0], data.corrected[0]])
    return data


def _role(summary: Summary, key: str) -> object:
    if key not in summary.study.report:
        raise InvalidArgument(f"[report] of a study with figure = 'paper' must have {key!r}")
    return summary.study.report[key]


def _names(summary: Summary, key: str) -> tuple[str, ...]:
    names = _role(summary, key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"[report] {key} must be a list of labels of policies, got {names!r}")
    return tuple(names)


def _cells(summary: Summary, key: str) -> tuple[CellSummary, ...]:
    cells = summary.group(str(_role(summary, key)))
    if not all("theta" in cell.cell.parameters for cell in cells) and key in ("angles", "ends"):
        raise InvalidArgument(f"[report] {key} must name systems with a grid of theta")
    return cells


def _one(summary: Summary, key: str) -> CellSummary:
    cells = _cells(summary, key)
    if len(cells) != 1:
        raise InvalidArgument(f"[report] {key} must name one system, got a grid of {len(cells)}")
    return cells[0]


def spans(theta: Array) -> Array:
    """The edges between neighbouring angles, shape (angles + 1,): each angle's region reaches half-way."""
    middle = (theta[1:] + theta[:-1]) / 2
    return np.concatenate([theta[:1], middle, theta[-1:]])


def runs_of(region: Iterable[str]) -> list[tuple[str, int, int]]:
    """Neighbouring angles of one region taken together: name, first and last place.

    >>> runs_of(["blue", "blue", "grey"])
    [('blue', 0, 1), ('grey', 2, 2)]
    """
    groups = (
        (str(name), [place for place, _ in group])
        for name, group in groupby(enumerate(region), itemgetter(1))
    )
    return [(name, places[0], places[-1]) for name, places in groups]


def _angle(cell: CellSummary) -> float:
    theta = cell.cell.parameters["theta"]
    if not isinstance(theta, (int, float)):
        raise InvalidArgument(f"[report] must name systems whose theta is a number, got {theta!r}")
    return float(theta)


def _check(cells: Sequence[CellSummary], names: Sequence[str]) -> None:
    for cell in cells:
        for name in names:
            if name not in cell.policies:
                raise InvalidArgument(
                    f"[report] must name policies of the group {cell.cell.group!r}, got {name!r} "
                    f"(known: {', '.join(map(repr, cell.policies))})"
                )


def is_end(theta: Array) -> Mask:
    """Whether an angle is 0 or 2π, within π/64."""
    return np.minimum(np.abs(theta), np.abs(2 * math.pi - theta)) < math.pi / 64


def is_middle(theta: Array) -> Mask:
    """Whether π/2 ≤ θ ≤ 3π/2: where the real parts of the eigenvalues of Γ are not positive."""
    return np.abs(theta - math.pi) <= math.pi / 2 + 1e-9
