"""From results to something to look at: a figure, a table, and one page that holds everything."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kalmanbandits.studies import Results

__all__ = ["write_report"]


def write_report(results: Results, folder: str | PathLike[str]) -> list[Path]:
    """Write `figure.png`, `figure.svg`, `report.html` and `summary.csv` into a folder; returns their paths.

    A study whose TOML says `[report] figure = "paper"` gets the paper's figure and verdict, any other one
    regret against its parameter and over time. Reads one cell at a time.
    """
    from kalmanbandits.errors import one_of
    from kalmanbandits.reporting.overview import overview_figure
    from kalmanbandits.reporting.page import write_page
    from kalmanbandits.reporting.paper.data import paper_data
    from kalmanbandits.reporting.paper.figure import paper_figure
    from kalmanbandits.reporting.summary import summarise, write_csv

    kind = one_of("[report] figure", results.study.report.get("figure", "overview"), ("overview", "paper"))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    summary = summarise(results)
    data = paper_data(summary) if kind == "paper" else None
    png, svg = overview_figure(summary, folder) if data is None else paper_figure(data, folder)
    page = write_page(summary, results.manifest, data, png, folder / "report.html")
    return [png, svg, page, write_csv(summary, folder / "summary.csv")]
