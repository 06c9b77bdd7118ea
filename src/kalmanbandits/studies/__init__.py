"""Studies: systems, policies and sizes in a TOML file, played into a store that survives anything.

study = load_study("study.toml")
results = run_study(study, "results/study")
results.measure("regret", 0)
"""

from kalmanbandits.studies.cells import Cell
from kalmanbandits.studies.changes import Changes
from kalmanbandits.studies.files import StoreRefused
from kalmanbandits.studies.lines import StudyError
from kalmanbandits.studies.results import Results
from kalmanbandits.studies.run import run_study
from kalmanbandits.studies.spec import Study, library_study, load_study, parse_study

__all__ = [
    "Cell",
    "Changes",
    "Results",
    "StoreRefused",
    "Study",
    "StudyError",
    "library_study",
    "load_study",
    "parse_study",
    "run_study",
]
