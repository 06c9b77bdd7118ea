"""`import kalmanbandits` stays light, whatever is installed."""

from __future__ import annotations

import subprocess
import sys

import kalmanbandits as kb

HEAVY = ("matplotlib", "xarray", "plotly", "numba.cuda", "pandas", "zarr", "rich", "gymnasium", "distributed")


def fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = fresh(f"import sys, kalmanbandits; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_listing_the_public_names_loads_nothing_heavy() -> None:
    loaded = fresh(
        f"import sys, kalmanbandits as kb; dir(kb); print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert loaded.strip() == "[]"


def test_the_check_sees_a_heavy_import() -> None:
    loaded = fresh(f"import sys, kalmanbandits, xarray; print([m for m in {HEAVY} if m in sys.modules])")
    assert "xarray" in loaded


def test_every_public_name_is_there() -> None:
    assert set(kb.__all__) <= set(dir(kb))
    for name in kb.__all__:
        assert getattr(kb, name) is not None
