"""The page of a backtest in a browser, as an example makes it: drawn, switched, quiet, and alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_page import Visit, browser, in_browser, quiet_visit  # noqa: F401 - the fixture is used by its name

from fresh_processes import FreshProcesses
from kalmanbandits.backtesting import backtest
from kalmanbandits.backtesting.report import write_backtest
from kalmanbandits.policies import UCB
from kalmanbandits.systems import Replay

EXAMPLE = Path(__file__).parents[2] / "examples" / "backtest_airports.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fresh: FreshProcesses) -> Path:
    made = tmp_path_factory.mktemp("airports")
    done = fresh.run("-W", "error", EXAMPLE, made, cwd=made)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "assert" in EXAMPLE.read_text()
    return made / "temperatures"


@pytest.fixture
def visit(browser: Any, folder: Path) -> Iterator[Visit]:  # noqa: F811
    with quiet_visit(browser, folder / "report.html") as visit:
        yield visit


@in_browser
def test_the_chart_is_drawn_and_policies_are_switched(visit: Visit) -> None:
    names = visit.curves("time")
    assert {"UBSS", "UCB", "Random"} <= set(names)
    box = visit.page.locator("#time svg").bounding_box()
    assert box["width"] > 600
    assert box["height"] > 200
    visit.chip("UCB").uncheck()
    assert visit.curves("time") == [name for name in names if name != "UCB"]
    visit.page.click("#none")
    assert visit.curves("time") == []
    visit.page.click("#all")
    assert sorted(visit.curves("time")) == sorted(names)


@in_browser
def test_the_recommendation_stands_at_the_top(visit: Visit) -> None:
    assert visit.page.inner_text("#advice .mark").startswith("Use UBSS: it earns")
    rows = visit.page.locator("#policies tbody tr")
    assert rows.count() == len(visit.curves("time"))
    assert rows.nth(0).locator("td").nth(0).inner_text() == "UBSS"
    assert visit.page.locator("#arms tbody tr").count() == 3


@in_browser
def test_choices_and_predictions_are_drawn(visit: Visit) -> None:
    assert visit.curves("series") == ["EWR", "JFK", "LGA"]
    strip = visit.page.locator("#strip rect.heat")
    assert strip.count() == 3 * 200

    def dark() -> list[str]:
        return strip.evaluate_all("cells => cells.map(cell => cell.getAttribute('fill'))")

    before = dark()
    assert visit.page.locator("#who").input_value() == "UBSS"
    visit.page.select_option("#who", "Random")
    assert dark() != before
    assert visit.page.locator("#scatter circle").count() > 100


@in_browser
def test_it_fits_a_phone(browser: Any, folder: Path) -> None:  # noqa: F811
    small = Visit(browser, folder / "report.html", width=390, height=844)
    assert small.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert small.complaints == []
    small.page.close()


def test_the_page_holds_its_parts_and_asks_for_nothing(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    for part in ("advice", "figure", "explore", "choices", "predictions", "policies", "arms", "method"):
        assert f'<section id="{part}">' in text
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", own)
    assert "Šidák" in own
    assert "Did not play: KalmanGreedy (needs a system" in own
    assert "from the rows before it alone" in own


@in_browser
def test_a_gap_breaks_the_line(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    table = np.random.default_rng(0).standard_normal((60, 2))
    table[20:40, 1] = np.nan
    result = backtest(Replay(table), {"UCB": UCB(arms=2)}, runs=1)
    write_backtest(result, tmp_path / "out", "Gaps")
    with quiet_visit(browser, tmp_path / "out" / "report.html") as visit:
        lines = [line.get_attribute("d") for line in visit.page.locator("#series path.line").all()]
    assert [line.count("M") for line in lines] == [1, 2]
