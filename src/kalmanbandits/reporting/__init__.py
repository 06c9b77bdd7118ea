"""From results to something to look at: a figure, a table, and one page that holds everything.

The modules here make any figure and any page: style, drawing, HTML, charts, tables, files. `study` makes the
report of a study with them and `paper` what that of the paper has besides; `backtesting` makes its own.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kalmanbandits.reporting.paper.data import PaperData
    from kalmanbandits.reporting.study.summary import Summary
    from kalmanbandits.studies import Results

__all__ = ["write_report"]

FILES = ("figure.png", "figure.svg", "report.html", "summary.csv")


def write_report(results: Results, folder: str | PathLike[str]) -> list[Path]:
    """Write the figure, the page and the table of a study into a folder.

    A study whose TOML says `[report] figure = "paper"` gets the paper's figure and verdict, any other one
    regret against its parameters and over time. The report of an unfinished study covers what is there, and
    says how much that is. Reads one cell at a time. All files are written or, on a full disk, none.

    Parameters
    ----------
    results
        What `run_study` returned or `Results.open` found.
    folder
        Where to. If a file of one of these names is there that no report has written, the call is refused.

    Returns
    -------
    list of Path
        `figure.png`, `figure.svg`, `report.html` and `summary.csv` there.
    """
    from kalmanbandits.errors import file_path, instance, one_of
    from kalmanbandits.reporting import drawing
    from kalmanbandits.reporting.files import written_together
    from kalmanbandits.reporting.paper.figure import paper_figure
    from kalmanbandits.reporting.paper.section import figure_note, verdict_section
    from kalmanbandits.reporting.study.overview import overview_figure
    from kalmanbandits.reporting.study.page import write_page
    from kalmanbandits.reporting.study.summary import TABLE_MARK, summarise, write_csv
    from kalmanbandits.studies import Results

    instance("results", results, Results, "Results.open(folder) makes one")
    place = file_path("folder", folder)
    kind = results.study.report.get("figure", "overview")
    one_of("[report] figure", kind, ("overview", "paper"))
    summary = summarise(results)
    data = _paper(summary) if kind == "paper" else None
    with drawing.usual_settings(), written_together(place, FILES, TABLE_MARK) as aside:
        png, _ = overview_figure(summary, aside) if data is None else paper_figure(data, aside)
        extra = () if data is None else (verdict_section(data), figure_note(data))
        write_page(summary, results.manifest, png, aside / "report.html", *extra)
        write_csv(summary, aside / "summary.csv")
    return [place / name for name in FILES]


def _paper(summary: Summary) -> PaperData | None:
    """What the paper's figure is made of; None where the study has not come so far yet."""
    from kalmanbandits.errors import InvalidArgument
    from kalmanbandits.reporting.paper.data import paper_data

    try:
        return paper_data(summary)
    except InvalidArgument:
        if summary.share == 1:
            raise
        return None
