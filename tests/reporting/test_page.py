"""The page in a browser: charts are drawn, policies can be switched, nothing is fetched or goes wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from report_worlds import fine_study

from kalmanbandits.reporting import write_report
from kalmanbandits.studies import parse_study, run_study
from patience import PATIENCE

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
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=ARGUMENTS, timeout=1000 * PATIENCE
        )
        yield browser
        browser.close()


class Visit:
    """A page that was opened, and everything it complained about or asked for."""

    def __init__(self, browser: Any, file: Path, width: int = 1200, height: int = 900) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.page.set_default_timeout(1000 * PATIENCE)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]")

    def curves(self, chart: str) -> list[str]:
        """The names of the curves that a chart shows: what is drawn, not what was asked for."""
        drawn: list[str] = self.page.evaluate(
            """chart => {
                 const own = [...document.querySelectorAll(`#${chart} .curve`)];
                 if (own.length) return own.map(node => node.dataset.name);
                 return [...document.querySelectorAll(`#${chart} .scatterlayer .trace`)]
                   .map(node => node.__data__[0].trace)
                   .filter(trace => trace.meta === "line").map(trace => trace.name);
               }""",
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
        box = paper.page.locator(f"#{chart} .curve").first.bounding_box()
        assert box["width"] > 600
        assert paper.page.locator(f"#{chart} svg").bounding_box()["height"] > 200
        assert paper.page.locator(f"#{chart} .curve path").count() > 50  # markers
    ticks = paper.page.locator("#sweep .xtick").all_text_contents()
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
    ticks = paper.page.locator("#sweep .ytick")
    assert "0" in ticks.all_text_contents()  # which a log scale has not
    paper.page.check("#log")
    assert "0" not in ticks.all_text_contents()
    rows = paper.page.locator("#cell-rows tr")
    assert rows.count() == len(paper.curves("sweep"))
    first = rows.nth(0).locator("td").all_inner_texts()
    assert first[0] == "Sees every arm"
    assert first[3:] == ["1", "6"]  # rank, runs


@in_browser
def test_it_fits_a_phone(browser: Any, paper_report: Path) -> None:
    visit = Visit(browser, paper_report / "report.html", width=390, height=844)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.page.locator("#sweep .curve").first.bounding_box()["width"] > 200
    wide = visit.page.evaluate(
        """() => [...document.querySelectorAll("table, select, svg")]
             .filter(node => node.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert wide == 0  # no table has to be pushed sideways
    assert visit.page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(t => t.scrollWidth <= t.clientWidth)"
    )
    assert visit.complaints == []
    visit.page.close()


@in_browser
def test_long_labels_and_many_digits_fit_a_phone(browser: Any, tmp_path: Path) -> None:
    """A list of policies reached beyond the edge; of the numbers of a map the shortest alone were written."""
    write_report(run_study(fine_study(), tmp_path), tmp_path)
    visit = Visit(browser, tmp_path / "report.html", width=390, height=844)
    edges = visit.page.evaluate(
        "[...document.querySelectorAll('select')].map(each => each.getBoundingClientRect().right)"
    )
    body = visit.page.evaluate("document.querySelector('.controls').getBoundingClientRect().right")
    assert max(edges) <= body
    for system in visit.page.locator("#group option").all_inner_texts():
        visit.page.select_option("#group", label=system)
        cells = visit.page.locator("#ratio rect.heat").count()
        texts = visit.page.locator("#ratio rect.heat + text").count()
        assert texts in (0, cells), f"{texts} of {cells}"
    visit.page.close()


@in_browser
def test_a_study_of_ones_own(browser: Any, sweep_report: Path) -> None:
    visit = Visit(browser, sweep_report / "report.html")
    assert set(visit.curves("sweep")) == {"UBSS s=1", "UBSS s=2", "UCB", "Clairvoyant"}
    assert not visit.page.locator("#heat").is_visible()
    assert not visit.page.locator("#axes").is_visible()
    visit.page.select_option("#group", label="noisy kinds")
    assert visit.page.locator("#sweep h4").all_inner_texts() == ["noise variance = 1", "noise variance = 100"]
    assert visit.curves("sweep") == 2 * ["UBSS s=1", "UBSS s=2", "UCB"]
    assert visit.page.locator("#best rect.heat").count() == 4
    assert visit.page.locator("#ratio rect.heat").count() == 4
    visit.page.select_option("#x", label="noise variance")  # the other one goes to the panels
    assert visit.page.locator("#sweep h4").all_inner_texts() == ["θ = 0.5", "θ = 1.5"]
    visit.page.select_option("#by", value="-1")
    assert visit.curves("sweep") == ["UBSS s=1", "UBSS s=2", "UCB"]
    assert not visit.page.locator("#heat").is_visible()
    visit.page.select_option("#by", label="θ")
    visit.page.locator("#best rect.heat").first.click()
    assert visit.page.inner_text("#time-title") == "Regret over time, θ = 0.5, noise variance = 1"
    assert visit.complaints == []
    assert visit.page.locator("#verdict").count() == 0
    visit.page.close()


EVIL = [
    "<script>document.title = 'ran'</script>",
    "<!--<script>",
    "</script><script>document.title = 'ran'</script>",
    "<img src=x onerror=\"document.title = 'ran'\">",
    "\" onmouseover=\"document.title = 'ran'",
    "costs $x^2_{$ & $y$",
    "${title} $data",
    "_hidden",
]


@pytest.fixture(scope="module")
def evil_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose title and labels try to be a script, a comment, an attribute, mathematics, a template."""
    folder = tmp_path_factory.mktemp("evil")
    policies = [
        {"policy": "SlidingWindowUCB", "label": label.replace("{", "(").replace("}", ")"), "window": 10 + i}
        for i, label in enumerate(EVIL)
    ]
    document = {
        "title": EVIL[2] + EVIL[5],
        "name": EVIL[0],
        "rounds": 20,
        "runs": 2,
        "systems": [{"family": "rotation", "theta": [1.0, 2.0], "noise_variance": [1.0, 2.0]}],
        "policies": policies,
    }
    write_report(run_study(parse_study(tomli_w.dumps(document)), folder), folder)
    return folder


@in_browser
def test_nothing_in_a_label_or_title_runs_or_breaks_the_page(browser: Any, evil_report: Path) -> None:
    with quiet_visit(browser, evil_report / "report.html") as visit:
        labels = [label.replace("{", "(").replace("}", ")") for label in EVIL]
        assert visit.page.title() == EVIL[2] + EVIL[5]
        assert set(visit.curves("time")) == set(labels)
        assert visit.page.locator(".chip").all_inner_texts() == labels
        names = visit.page.locator("#cell-rows td:first-child").all_inner_texts()
        assert sorted(names) == sorted(labels)
        visit.page.locator("#sweep svg").first.hover()
        assert visit.page.title() == EVIL[2] + EVIL[5]
        # Whatever else came into the page would not run either.
        visit.page.evaluate(
            """() => {
                 const script = document.createElement("script");
                 script.textContent = "document.title = 'ran'";
                 document.body.append(script);
               }"""
        )
        assert visit.page.title() != "ran"
        assert any("Content Security Policy" in complaint for complaint in visit.complaints)
        visit.complaints.clear()


def test_what_is_not_the_pages_own_is_escaped(evil_report: Path) -> None:
    text = (evil_report / "report.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 2  # the charts and what draws them
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]
    outside = re.sub(r"<script.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    assert "<script" not in outside
    assert "<!--" not in outside
    assert "<img src=x" not in outside


def test_the_page_of_the_papers_study_is_small(paper_report: Path) -> None:
    """Nine angles here, 65 there: what the charts are drawn from grows with them."""
    text = (paper_report / "report.html").read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert len(text) - len(found[1]) + len(found[1]) * 71 / 15 < 2_000_000


def test_the_page_holds_its_parts(paper_report: Path) -> None:
    text = (paper_report / "report.html").read_text(encoding="utf-8")
    for part in ("verdict", "figure", "explore", "ranks", "assumptions", "manifest"):
        assert f'<section id="{part}">' in text
    assert text.count('class="mark ') == 2 * 9  # a verdict on nine claims, for two kinds of constants
    for word in ("B_c B_R/δ", "SW-UCB, window 10", "Lemma 1", "numpy", "rotation"):
        assert word in text
    found = re.search(r": begun, \d+ runs?, (\d+) systems, (\d+) policies</td>", text)
    assert found is not None
    assert found[0].endswith(f"{text.count('data-policy=')} policies</td>")


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
    assert groups[0]["parameters"][0]["numbers"] == [1.0, 2.0, 3.0]  # rising, though the study is not
    assert [cell["at"] for cell in groups[0]["cells"]] == [[0], [1], [2]]
    rows = (sweep_report / "summary.csv").read_text(encoding="utf-8").splitlines()
    (row,) = [row.split(",") for row in rows if row.startswith("1,turning") and ",UCB," in row]
    place = [p["name"] for p in json.loads(found[1])["policies"]].index("UCB")
    cell = groups[0]["cells"][0]
    assert cell["loss"][groups[0]["policies"].index(place)] == pytest.approx(float(row[-4]), rel=1e-4)
