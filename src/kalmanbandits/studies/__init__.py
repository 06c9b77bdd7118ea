"""Studies: systems, policies and sizes in a TOML file, run into a store that survives a kill at any moment.

study = load_study("study.toml")
results = run_study(study, "results/study")
results.measure("regret", 0)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kalmanbandits.errors import StoreRefused
from kalmanbandits.studies.document.cells import Cell
from kalmanbandits.studies.document.changes import Changes
from kalmanbandits.studies.document.lines import StudyError
from kalmanbandits.studies.document.spec import Study, library_study, load_study, parse_study

if TYPE_CHECKING:
    from kalmanbandits.studies.plan import Plan, plan_study
    from kalmanbandits.studies.run import Shard, run_study
    from kalmanbandits.studies.store.merging import merge_stores
    from kalmanbandits.studies.store.results import Results

__all__ = [
    "Cell", "Changes", "Plan", "Results", "Shard", "StoreRefused", "Study", "StudyError", "library_study",
    "load_study", "merge_stores", "parse_study", "plan_study", "run_study",
]  # fmt: skip

# Reading a document needs no Zarr, which takes half a second to import.
_LATER = {
    "Plan": "plan",
    "plan_study": "plan",
    "Shard": "run",
    "run_study": "run",
    "merge_stores": "store.merging",
    "Results": "store.results",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
