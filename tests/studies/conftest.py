"""What tests of studies share."""

from __future__ import annotations

import pytest

from kalmanbandits.studies.store import layout


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the study of `study_worlds` into blocks of three runs."""
    monkeypatch.setattr(layout, "BLOCK_SECONDS", 3.5 * 200 * 2 * layout.ROUND_SECONDS)
