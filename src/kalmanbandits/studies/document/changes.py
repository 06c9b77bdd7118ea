"""What the command line changes in a study."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from kalmanbandits.errors import instance, mapping, one_of, truth, whole
from kalmanbandits.simulation.simulate import KEEP
from kalmanbandits.studies.document.lines import Source, StudyError, Table

QUICK_ROUNDS, QUICK_RUNS, QUICK_POINTS = 10_000, 10, 17


@dataclass(frozen=True)
class Changes:
    """What the command line changes in a study: part of its identity, and kept next to its text.

    Attributes
    ----------
    runs, seed, first_run
        Instead of the study's.
    quick
        At most 10 000 rounds and 10 runs, and the grids of each system thinned to at most 17 cells, their
        ends among them. `runs` wins over it.
    keep
        "runs" or "moments", instead of the study's.
    counts
        The `count` of the grids of that name, instead of the study's.
    """

    runs: int | None = None
    seed: int | None = None
    quick: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    first_run: int | None = None
    keep: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("runs", 1), ("seed", 0), ("first_run", 0)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least)
        truth("quick", self.quick)
        if self.keep is not None:
            one_of("keep", self.keep, KEEP)
        for name, count in mapping("counts", self.counts, "such as {'theta': 9}").items():
            whole(f"the count of {name}", count, 1)

    def to_dict(self) -> Table:
        """Write the changes as plain values.

        Returns
        -------
        dict
            Those that differ from the defaults.
        """
        return {
            name: item for name, item in vars(self).items() if item is not None and item not in (False, {})
        }

    def apply(self, source: Source) -> Table:
        """Change a study's document.

        Parameters
        ----------
        source : Source
            The document as it was read; not changed.

        Returns
        -------
        dict
            The document to play.
        """
        data = copy.deepcopy(instance("source", source, Source).data)
        for name, count in self.counts.items():
            self._set_count(source, data, name, count)
        if self.quick:
            for key, limit in (("rounds", QUICK_ROUNDS), ("runs", QUICK_RUNS)):
                size = data.get(key)
                if isinstance(size, int):
                    data[key] = min(size, limit)
            points, rounds = data.get("checkpoints"), data.get("rounds")
            if (
                isinstance(points, list)
                and isinstance(rounds, int)
                and all(isinstance(n, int) for n in points)
            ):
                data["checkpoints"] = [point for point in points if point < rounds] + [rounds]
        given = {"runs": self.runs, "first_run": self.first_run, "seed": self.seed, "keep": self.keep}
        return data | {key: item for key, item in given.items() if item is not None}

    @staticmethod
    def _set_count(source: Source, data: Table, name: str, count: int) -> None:
        systems = data.get("systems")
        tables = [table for table in systems if isinstance(table, dict)] if isinstance(systems, list) else []
        grids = [
            table[name] for table in tables if isinstance(table.get(name), dict) and "count" in table[name]
        ]
        if not grids:
            raise StudyError(
                f"{source.name} has no grid {name} = {{from, to, count}} whose count could be {count}"
            )
        for grid in grids:
            grid["count"] = count
