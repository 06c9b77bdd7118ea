"""What the numbers of a study depend on, as plain values and as fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.versions import fingerprint
from kalmanbandits.studies.document.cells import Cell
from kalmanbandits.studies.document.lines import Table
from kalmanbandits.systems import LinearGaussianSystem

if TYPE_CHECKING:
    from kalmanbandits.studies.document.spec import Study

FRAME = ("rounds", "seed", "checkpoints", "measures")  # the same for every run of every policy


def identity(study: Study) -> Table:
    """Everything the numbers depend on: not the name, the title or the report."""
    return frame(study) | {
        "runs": [study.run_numbers.start, study.run_numbers.stop],
        "cells": [_cell(cell) for cell in study.cells],
    }


def frame(study: Study) -> Table:
    """What every single number depends on, whichever system, policy and run it is of."""
    kept = {"keep": study.keep} if study.keep != "runs" else {}  # or every earlier store would have changed
    return {key: getattr(study, key) for key in FRAME} | kept


def system_key(system: LinearGaussianSystem) -> str:
    """A fingerprint of a system."""
    return fingerprint(system.to_dict())


def policy_key(spec: Spec) -> str:
    """A fingerprint of a policy, its system apart: that is the cell's."""
    return fingerprint(_plain(spec))


def _plain(spec: Spec) -> Table:
    return {key: item for key, item in spec.to_dict().items() if key != "system"}


def _cell(cell: Cell) -> Table:
    return {
        "group": cell.group,
        "parameters": cell.parameters,
        "system": cell.system.to_dict(),
        "policies": [[label, _plain(spec)] for label, spec in cell.policies.items()],
    }
