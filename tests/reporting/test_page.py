"""The page in a browser: charts are drawn, policies can be switched, nothing is fetched or goes wrong."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(
        None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
    ),
    None,
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
in_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt install chromium)"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


class Visit:
    """A page that was opened, and everything it complained about or asked for."""

    def __init__(self, browser: Any, file: Path, width: int = 1200, height: int = 900) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]", timeout=30_000)

    def curves(self, chart: str) -> list[str]:
        """The names of the curves that a chart shows: what is drawn, not what was asked for."""
        drawn: list[str] = self.page.evaluate(
            """chart => [...document.querySelectorAll(`#${chart} .scatterlayer .trace`)]
                 .map(node => node.__data__[0].trace)
                 .filter(trace => trace.meta === "line").map(trace => trace.name)""",
            chart,
        )
        return drawn

    def chip(self, name: str) -> Any:
        return self.page.locator(f'.chip input[value="{name}"]')


@contextmanager
def quiet_visit(browser: Any, file: Path) -> Iterator[Visit]:
    """A visit during which the page complains of nothing and asks for nothing but itself."""
    visit = Visit(browser, file)
    yield visit
    assert visit.complaints == []
    assert len(visit.requests) == 1, visit.requests  # the file itself
    visit.page.close()


@pytest.fixture
def paper(browser: Any, paper_report: Path) -> Iterator[Visit]:
    with quiet_visit(browser, paper_report / "report.html") as visit:
        yield visit


@in_browser
def test_the_charts_are_drawn(paper: Visit) -> None:
    for chart in ("sweep", "time"):
        names = paper.curves(chart)
        assert {"UBSS s=1, literal", "UBSS s=3", "UCB", "SW-UCB", "Random", "Kalman greedy"} <= set(names)
        box = paper.page.locator(f"#{chart} .scatterlayer").bounding_box()
        assert box["width"] > 600
        assert box["height"] > 200
    ticks = paper.page.locator("#sweep .xtick text").all_text_contents()
    assert "π/2" in ticks


@in_browser
def test_a_policy_is_switched_off_and_on_in_both_charts(paper: Visit) -> None:
    before = {chart: paper.curves(chart) for chart in ("sweep", "time")}
    paper.chip("UCB").uncheck()
    for chart, names in before.items():
        assert paper.curves(chart) == [name for name in names if name != "UCB"]
    paper.chip("UCB").check()
    assert {chart: sorted(paper.curves(chart)) for chart in before} == {
        c: sorted(n) for c, n in before.items()
    }


@in_browser
def test_all_and_none(paper: Visit) -> None:
    everyone = sorted(paper.curves("sweep"))
    paper.page.click("#none")
    assert paper.curves("sweep") == paper.curves("time") == []
    paper.page.click("#all")
    assert sorted(paper.curves("sweep")) == everyone


@in_browser
def test_a_choice_outlives_a_change_of_system(paper: Visit) -> None:
    paper.chip("Random").uncheck()
    paper.page.select_option("#cell", label="θ = π/4")
    assert "Random" not in paper.curves("time")
    assert paper.page.inner_text("#time-title") == "Regret over time, θ = π/4"
    paper.page.select_option("#group", label="ends")
    assert "Random" not in paper.curves("sweep")
    assert "SW-UCB, window 10" in paper.curves("sweep")
    assert paper.page.locator(".chip:visible", has_text="Kalman greedy").count() == 0


@in_browser
def test_the_scale_and_the_table_follow(paper: Visit) -> None:
    paper.page.uncheck("#log")
    assert paper.page.evaluate("document.getElementById('sweep').layout.yaxis.type") == "linear"
    rows = paper.page.locator("#cell-rows tr")
    assert rows.count() == len(paper.curves("sweep"))
    first = rows.nth(0).locator("td").all_inner_texts()
    assert first[0] == "Sees every arm"
    assert first[3:] == ["1", "6"]  # rank, runs


@in_browser
def test_it_fits_a_phone(browser: Any, paper_report: Path) -> None:
    visit = Visit(browser, paper_report / "report.html", width=390, height=844)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.page.locator("#sweep .scatterlayer").bounding_box()["width"] > 200
    assert visit.complaints == []
    visit.page.close()


@in_browser
def test_a_study_of_ones_own(browser: Any, sweep_report: Path) -> None:
    visit = Visit(browser, sweep_report / "report.html")
    assert set(visit.curves("sweep")) == {"UBSS s=1", "UBSS s=2", "UCB", "Clairvoyant"}
    visit.page.select_option("#group", label="noisy kinds")
    assert visit.curves("sweep") == ["UBSS s=1", "UBSS s=2", "UCB"]
    assert visit.complaints == []
    assert visit.page.locator("#verdict").count() == 0
    visit.page.close()


def test_the_page_holds_its_parts(paper_report: Path) -> None:
    text = (paper_report / "report.html").read_text(encoding="utf-8")
    for part in ("verdict", "figure", "explore", "ranks", "assumptions", "manifest"):
        assert f'<section id="{part}">' in text
    assert text.count('class="mark ') == 2 * 9  # a verdict on nine claims, for two kinds of constants
    for word in ("B_c B_R/δ", "SW-UCB, window 10", "Lemma 1", "numpy", "rotation"):
        assert word in text


def test_the_page_asks_for_nothing(paper_report: Path) -> None:
    text = (paper_report / "report.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", own)
    assert "default-src 'none'" in own


def test_the_numbers_of_the_page_are_those_of_the_table(sweep_report: Path) -> None:
    text = (sweep_report / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    groups = json.loads(found[1])["groups"]
    assert groups[0]["x"] == [1.0, 2.0, 3.0]  # in rising order, though the study says otherwise
    rows = (sweep_report / "summary.csv").read_text(encoding="utf-8").splitlines()
    (row,) = [row.split(",") for row in rows if row.startswith("1,turning") and ",UCB," in row]
    place = [p["name"] for p in json.loads(found[1])["policies"]].index("UCB")
    cell = groups[0]["cells"][0]
    assert cell["loss"][groups[0]["policies"].index(place)] == pytest.approx(float(row[-4]), rel=1e-4)
