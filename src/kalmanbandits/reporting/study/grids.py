"""The grids of a study as axes to draw along: which parameters vary, and which of them goes where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kalmanbandits.errors import Array
from kalmanbandits.policies.spec import Policy
from kalmanbandits.reporting.study.summary import CellSummary
from kalmanbandits.reporting.style import parameter_label, parameter_text

WIDE = 100  # an axis whose largest number is so many times its smallest has a log scale


@dataclass(frozen=True)
class Axis:
    """A parameter in which the cells of a group differ.

    Attributes
    ----------
    name, label
        The parameter, and how it is written.
    texts
        Its values as they are written, numbers in rising order, others in the order of the study.
    numbers
        The same as numbers; None where some are not.
    """

    name: str
    label: str
    texts: tuple[str, ...]
    numbers: tuple[float, ...] | None
    keys: tuple[str, ...]

    def place(self, cell: CellSummary) -> int:
        """Where a cell stands along this axis."""
        return self.keys.index(repr(cell.cell.parameters[self.name]))

    @property
    def log(self) -> bool:
        """Whether its numbers span so much that a log scale serves better."""
        numbers = self.numbers or (0.0,)
        return min(numbers) > 0 and max(numbers) > WIDE * min(numbers)


def varied(cells: Sequence[CellSummary]) -> list[Axis]:
    """The parameters in which the cells of a group differ."""
    return [axis for name in cells[0].cell.parameters if len((axis := _axis(name, cells)).keys) > 1]


def _axis(name: str, cells: Sequence[CellSummary]) -> Axis:
    values = {repr(value): value for value in (cell.cell.parameters[name] for cell in cells)}
    real = {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    numeric = len(real) == len(values)
    keys = sorted(values, key=real.__getitem__) if numeric else list(values)
    return Axis(
        name,
        parameter_label(name),
        tuple(parameter_text(values[key]) for key in keys),
        tuple(real[key] for key in keys) if numeric else None,
        tuple(keys),
    )


def main_axes(axes: Sequence[Axis]) -> tuple[int, int]:
    """Which of the axes runs along the picture, and which one from panel to panel; -1 for none.

    The longest numeric one, and the longest of the others.
    """
    order = sorted(range(len(axes)), key=lambda k: (axes[k].numbers is None, -len(axes[k].keys), k))
    return (order[0] if order else -1), (order[1] if len(order) > 1 else -1)


def along(cells: Sequence[CellSummary], axes: Sequence[Axis], free: Sequence[int]) -> list[CellSummary]:
    """The cells that differ from the middle one in the axes `free` alone."""
    middle = cells[len(cells) // 2]
    return [
        cell
        for cell in cells
        if all(k in free or axis.place(cell) == axis.place(middle) for k, axis in enumerate(axes))
    ]


def knows_system(cell: CellSummary, policy: str) -> bool:
    """Whether a policy is given the system it plays on (and is no oracle, which sees more)."""
    spec = cell.cell.policies[policy]
    return isinstance(spec, Policy) and hasattr(spec, "system")


def is_oracle(cell: CellSummary, policy: str) -> bool:
    """Whether it sees what no policy can."""
    return not isinstance(cell.cell.policies[policy], Policy)


def learners(cell: CellSummary) -> list[int]:
    """The places of the policies that must learn; where there are none, of all but the oracles, or of all."""
    players = [p for p, name in enumerate(cell.policies) if not is_oracle(cell, name)]
    learning = [p for p in players if not knows_system(cell, cell.policies[p])]
    return learning or players or list(range(len(cell.policies)))


def reference(cell: CellSummary) -> tuple[str, float]:
    """What regrets are compared with: that of the best policy that knows the system, or of the best one."""
    known = [p for p, name in enumerate(cell.policies) if knows_system(cell, name)]
    loss: Array = cell.loss.value
    if known:
        return "the best policy that knows the system", float(loss[known].min())
    return "the best policy", float(loss[learners(cell)].min())
