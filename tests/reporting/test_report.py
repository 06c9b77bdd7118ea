"""The files of a report: complete, reproducible, and in agreement with the store."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from report_worlds import fine_study, made_up, many_study, small_paper_study, sweep_study

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.reporting import drawing, write_report
from kalmanbandits.reporting.paper.data import paper_data
from kalmanbandits.reporting.paper.figure import paper_figure
from kalmanbandits.reporting.study.grids import main_axes, varied
from kalmanbandits.reporting.study.overview import overview_figure
from kalmanbandits.reporting.study.summary import summarise
from kalmanbandits.reporting.style import MARKERS, STROKES, looks
from kalmanbandits.statistics.intervals import mean, ranks
from kalmanbandits.studies import Results, library_study, load_study, parse_study, run_study

FILES = ["figure.png", "figure.svg", "report.html", "summary.csv"]


@pytest.mark.parametrize("report", ["paper_report", "sweep_report"])
def test_the_files_are_there(report: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(report)
    for name in FILES:
        assert (folder / name).stat().st_size > 1000
    assert imread(folder / "figure.png").shape[1] >= 1400


def test_the_same_results_give_the_same_files_in_folders_that_are_made(
    sweep_report: Path, tmp_path: Path
) -> None:
    paths = write_report(Results.open(sweep_report), tmp_path / "new" / "folder")
    assert paths == [tmp_path / "new" / "folder" / name for name in FILES]
    for path in paths:
        assert path.read_bytes() == (sweep_report / path.name).read_bytes()


def test_the_table_agrees_with_the_store(sweep_report: Path) -> None:
    results = Results.open(sweep_report)
    with (sweep_report / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 4 + 4 * 3
    for row in rows:
        regret = results.measure("regret", int(row["cell"])).isel(checkpoint=-1)
        place = [str(name) for name in regret.coords["policy"].values].index(row["policy"])
        final = regret.values / 300
        interval = mean(final[place])
        shown = [float(row[name]) for name in ("regret_per_round", "low_95", "high_95")]
        np.testing.assert_allclose(shown, [interval.value, interval.low, interval.high], rtol=1e-8)
        assert (int(row["rank"]), int(row["runs"])) == (ranks(final)[place], 6)
        cell = results.cells[int(row["cell"])]
        for name, value in cell.parameters.items():
            assert float(row[name]) == pytest.approx(value)
    assert {row["noise_variance"] for row in rows if row["group"] == "turning"} == {""}


def test_grids_are_recognised(sweep_report: Path) -> None:
    groups = summarise(Results.open(sweep_report)).groups
    (theta,) = varied(groups["turning"])
    assert (theta.label, theta.numbers, theta.texts) == ("θ", (1.0, 2.0, 3.0), ("1", "2", "3"))
    assert [theta.place(cell) for cell in groups["turning"]] == [2, 0, 1]
    assert varied(groups["turning"][:1]) == []
    axes = varied(groups["noisy kinds"])
    assert [axis.name for axis in axes] == ["theta", "noise_variance"]
    assert main_axes(axes) == (0, 1)
    assert main_axes(varied(groups["turning"])) == (0, -1)


def test_one_run_is_enough_for_a_report(tmp_path: Path) -> None:
    paths = write_report(run_study(sweep_study(runs=1), tmp_path / "sweep"), tmp_path / "sweep")
    assert all(path.stat().st_size for path in paths)
    paths = write_report(run_study(small_paper_study(runs=1), tmp_path / "paper"), tmp_path / "paper")
    assert all(path.stat().st_size for path in paths)


def test_a_study_without_regret_has_no_report(tmp_path: Path) -> None:
    text = """
rounds = 20
runs = 2
measures = ["reward"]
[[systems]]
family = "rotation"
theta = 1.0
[[policies]]
policy = "Random"
"""
    results = run_study(parse_study(text), tmp_path)
    with pytest.raises(InvalidArgument, match=r"measures must hold 'regret' .* got \['reward'\]"):
        write_report(results, tmp_path)


def test_an_unknown_figure_is_refused(tmp_path: Path, sweep_report: Path) -> None:
    study = parse_study('rounds = 9\nruns = 1\n[report]\nfigure = "papr"\n' + _tables())
    results = run_study(study, tmp_path / "store")
    with pytest.raises(InvalidArgument, match="figure must be one of 'overview', 'paper', got 'papr'"):
        write_report(results, tmp_path)


def _tables() -> str:
    return "[[systems]]\nfamily = 'rotation'\ntheta = 1.0\n[[policies]]\npolicy = 'Random'\n"


def texts(figure: Figure) -> dict[str, Any]:
    """The boxes of everything written on a figure outside the curves."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # places what was last placed for another file
    renderer = canvas.get_renderer()
    found = {text.get_text(): text.get_window_extent(renderer) for text in figure.texts}
    found |= {f"legend {i}": each.get_window_extent(renderer) for i, each in enumerate(figure.legends)}
    for i, axes in enumerate(figure.axes):
        parts = {"title": axes.title, "left": axes._left_title, "x": axes.xaxis.label, "y": axes.yaxis.label}  # type: ignore[attr-defined]
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        parts |= {f"tick {j}": tick.label1 for j, tick in enumerate(ticks)}
        for name, text in parts.items():
            if text.get_text() and text.get_visible():
                found[f"{i} {name} {text.get_text()}"] = text.get_window_extent(renderer)
        legends = [a for a in axes.get_children() if type(a).__name__ == "Legend"]
        for j, legend in enumerate(legends):
            found[f"{i} legend {j}"] = legend.get_window_extent(renderer)
    return found


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is saved."""
    figures: list[Figure] = []
    save = drawing.save

    def keep(figure: Figure, folder: Path) -> list[Path]:
        figures.append(figure)
        return save(figure, folder)

    monkeypatch.setattr(drawing, "save", keep)
    return figures


@pytest.mark.parametrize("kind", ["paper", "made up", "sweep", "many", "fine"])
def test_nothing_written_overlaps_or_is_cut_off(
    kind: str, kept: list[Figure], tmp_path: Path, paper_report: Path, sweep_report: Path
) -> None:
    if kind == "sweep":
        overview_figure(summarise(Results.open(sweep_report)), tmp_path)
    elif kind in ("many", "fine"):
        study = many_study() if kind == "many" else fine_study()
        overview_figure(summarise(run_study(study, tmp_path / "store")), tmp_path)
    elif kind == "paper":
        paper_figure(paper_data(summarise(Results.open(paper_report))), tmp_path)
    else:
        paper_figure(made_up(lambda policy, theta: 120.0 if policy.startswith("L") else 10 + theta), tmp_path)
    (figure,) = kept
    boxes = list(texts(figure).items())
    page = figure.bbox
    for i, (name, box) in enumerate(boxes):
        assert page.x0 <= box.x0, f"{name} is cut off"
        assert box.x1 <= page.x1, f"{name} is cut off"
        assert page.y0 <= box.y0, f"{name} is cut off"
        assert box.y1 <= page.y1, f"{name} is cut off"
        for other, second in boxes[:i]:
            assert not box.overlaps(second), f"{name} and {other}"


def test_the_legend_tells_policies_apart_whose_labels_begin_alike(kept: list[Figure], tmp_path: Path) -> None:
    """Labels were cut to 40 characters, and of those that were then the same one was left."""
    study = fine_study()
    overview_figure(summarise(run_study(study, tmp_path / "store")), tmp_path)
    assert [text.get_text() for text in kept[0].legends[0].get_texts()] == study.labels


def test_numbers_in_a_map_are_short_or_left_out(kept: list[Figure], tmp_path: Path) -> None:
    """Regrets beyond 100 were written as 1.2e+02, across the neighbours."""
    overview_figure(summarise(run_study(fine_study(), tmp_path / "store")), tmp_path)
    canvas = FigureCanvasAgg(kept[0])
    canvas.draw()
    maps = [axes for axes in kept[0].axes if axes.get_title(loc="left") == "its regret per round"]
    assert len(maps) == 2
    for axes in maps:
        (picture,) = axes.images
        cell = axes.get_window_extent().width / picture.get_array().shape[1]
        assert axes.texts
        assert all(text.get_window_extent(canvas.get_renderer()).width < cell for text in axes.texts)


def test_panels_that_share_an_axis_share_its_scale(kept: list[Figure], tmp_path: Path) -> None:
    """Regrets of one value of the second parameter span much, those of the next little."""
    study = parse_study(
        "rounds = 60\nruns = 2\n[[systems]]\nfamily = 'rotation'\ntheta = [2.0, 2.1, 2.2]\n"
        "noise_variance = [1.0, 1e6]\n"
        "[[policies]]\npolicy = 'KalmanGreedy'\n[[policies]]\npolicy = 'Random'\n"
    )
    overview_figure(summarise(run_study(study, tmp_path / "store")), tmp_path)
    panels = [axes for axes in kept[0].axes if axes.get_title(loc="left").startswith("noise variance = ")]
    assert [panel.get_yscale() for panel in panels] == ["log", "log"]


def test_looks_are_told_apart() -> None:
    names = [f"policy {i}" for i in range(20)] + ["UCB", "Random", "UBSS s=1"]
    found = looks(names)
    assert list(found) == names
    assert len({(look.colour, look.line) for look in found.values()}) == len(names)
    assert all(look.line in STROKES and look.marker in MARKERS for look in found.values())
    assert len(set(looks([f"policy {i}" for i in range(99)]).values())) == 99
    paper = load_study(library_study("paper")).cells[0].policies
    for twenty in ([f"policy {i}" for i in range(20)], list(paper), [*list(paper)[:4], *"abcdefghijklmnop"]):
        each = looks(twenty).values()
        assert len({look.colour for look in each}) == len({look.marker for look in each}) == len(twenty)


def test_drawing_leaves_no_global_state(tmp_path: Path) -> None:
    code = """
import sys, matplotlib
keys = [key for key in matplotlib.rcParams if key != "backend"]  # asking for the backend loads pyplot
before = [repr(matplotlib.rcParams[key]) for key in keys]
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from report_worlds import made_up
from kalmanbandits.reporting.paper.figure import paper_figure
paper_figure(made_up(lambda policy, theta: 90.0, angles=5), Path(sys.argv[2]))
assert [repr(matplotlib.rcParams[key]) for key in keys] == before
print("matplotlib.pyplot" in sys.modules)
"""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-W", "error", "-c", code, here, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_reporting_is_not_loaded_by_the_library() -> None:
    loaded = "[m for m in ('matplotlib', 'plotly') if m in sys.modules]"
    code = f"import sys, kalmanbandits.reporting; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_study_of_the_readme_is_one() -> None:
    readme = Path(__file__).resolve().parents[2] / "README.md"
    (text,) = re.findall(
        r"^```toml\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(text.splitlines()) == 10
    study = parse_study(text)
    assert (len(study.cells), len(study.cells[0].policies)) == (9, 4)


def test_the_figure_of_the_documents_is_small_enough_to_keep() -> None:
    figure = Path(__file__).resolve().parents[2] / "docs" / "images" / "figure.png"
    assert imread(figure).shape[:2] == (1320, 1540)
    assert figure.stat().st_size < 400_000
