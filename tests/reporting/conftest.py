"""Reports that several tests look at: each is played and written once."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_worlds import small_paper_study, sweep_study

from kalmanbandits.reporting import write_report
from kalmanbandits.studies import run_study


@pytest.fixture(scope="session")
def paper_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small paper study with its report."""
    folder = tmp_path_factory.mktemp("paper")
    write_report(run_study(small_paper_study(), folder), folder)
    return folder


@pytest.fixture(scope="session")
def sweep_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of one's own with its report."""
    folder = tmp_path_factory.mktemp("sweep")
    write_report(run_study(sweep_study(), folder), folder)
    return folder
