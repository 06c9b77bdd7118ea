"""What the paper's figure is made of: gains over the angle, and the white, blue and grey regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.reporting.summary import CellSummary, Summary
from kalmanbandits.statistics.intervals import Interval, percent_gain
from kalmanbandits.theory import regret_floor

WHITE, GREY, BLUE, MIXED = "white", "grey", "blue", "mixed"

MEANING = {
    WHITE: "every comparator is better than UBSS",
    GREY: "UBSS is better than every comparator",
    BLUE: "nobody is better than Random",
    MIXED: "none of these: better than some only",
}


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

    def losses(self, policy: str, where: Any = slice(None)) -> Array:
        """Regret per round of a policy at the angles `where`, shape (angles, runs)."""
        return np.asarray(np.stack([cell.of(policy) for cell in self.sweep])[where])

    def gain(self, policy: str, other: str) -> Interval:
        """Percent by which `policy` loses less than `other`, at each angle."""
        return percent_gain(self.losses(policy), self.losses(other))

    def pooled_gain(self, policy: str, other: str, where: Any) -> Interval:
        """The same for the regret of all angles `where` taken together.

        A run has the same noise at every angle, so angles are added up within a run before runs are compared.
        """
        return percent_gain(self.losses(policy, where).sum(axis=0), self.losses(other, where).sum(axis=0))

    @cached_property
    def scanned(self) -> list[tuple[float, Interval]]:
        """B_c B_R/δ_b of each policy of the scan, rising, and its gain over the first comparator."""
        found = []
        for name, spec in self.scan.cell.policies.items():
            if name != self.comparators[0]:
                constants: Any = spec
                width = constants.B_c * constants.B_R / constants.delta_b
                found.append((width, percent_gain(self.scan.of(name), self.scan.of(self.comparators[0]))))
        return sorted(found, key=lambda point: point[0])

    def regions(self, policy: str) -> Any:
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
    roles = summary.study.report
    try:
        sweep = sorted(summary.group(roles["angles"]), key=_angle)
        (windows,) = summary.group(roles["windows"])
        (scan,) = summary.group(roles["scan"])
        data = PaperData(
            summary=summary,
            literal=tuple(roles["literal"]),
            corrected=tuple(roles["corrected"]),
            comparators=tuple(roles["comparators"]),
            known=tuple(roles["known"]),
            sweep=tuple(sweep),
            windows=windows,
            scan=scan,
            ends=tuple(sorted(summary.group(roles["ends"]), key=_angle)),
        )
    except KeyError as error:
        raise InvalidArgument(f"[report] of a study with figure = 'paper' must have {error}") from None
    _check(data.sweep, [data.literal[0], *data.corrected, *data.comparators, *data.known])
    _check([data.windows], [*data.literal, *data.corrected, *data.comparators])
    _check([data.scan], data.comparators[:1])
    _check(data.ends, [data.literal[0], data.corrected[0]])
    return data


def spans(theta: Array) -> Array:
    """The edges between neighbouring angles, shape (angles + 1,): each angle's region reaches half-way."""
    middle = (theta[1:] + theta[:-1]) / 2
    return np.concatenate([theta[:1], middle, theta[-1:]])


def runs_of(region: Any) -> list[tuple[str, int, int]]:
    """Neighbouring angles of one region taken together: name, first and last place.

    >>> runs_of(["blue", "blue", "grey"])
    [('blue', 0, 1), ('grey', 2, 2)]
    """
    found: list[tuple[str, int, int]] = []
    for place, name in enumerate(region):
        if found and found[-1][0] == name:
            found[-1] = (found[-1][0], found[-1][1], place)
        else:
            found.append((str(name), place, place))
    return found


def _angle(cell: CellSummary) -> float:
    return float(cell.cell.parameters["theta"])


def _check(cells: Sequence[CellSummary], names: Sequence[str]) -> None:
    for cell in cells:
        for name in names:
            if name not in cell.policies:
                raise InvalidArgument(
                    f"[report] must name policies of the group {cell.cell.group!r}, got {name!r} "
                    f"(known: {', '.join(map(repr, cell.policies))})"
                )


def is_end(theta: Array) -> Any:
    """Whether an angle is 0 or 2π, within π/64."""
    return np.minimum(np.abs(theta), np.abs(2 * math.pi - theta)) < math.pi / 64


def is_middle(theta: Array) -> Any:
    """Whether π/2 ≤ θ ≤ 3π/2: where the real parts of the eigenvalues of Γ are not positive."""
    return np.abs(theta - math.pi) <= math.pi / 2 + 1e-9
