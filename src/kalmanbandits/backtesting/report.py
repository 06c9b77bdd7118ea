"""The report of a backtest: picture, page, the numbers as a table, and the agent it leads to."""

from __future__ import annotations

from pathlib import Path

from kalmanbandits.backtesting.deployment import AGENT, Origin, agent_files, is_edited
from kalmanbandits.backtesting.following import follow_policy
from kalmanbandits.backtesting.recommendation import recommend
from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.durability import beginning, refuse_file
from kalmanbandits.errors import StoreRefused
from kalmanbandits.reporting.files import in_digits, write_table, written_together

FIGURES, NUMBERS, PAGE = ("figure.png", "figure.svg"), "backtest.csv", "report.html"
TABLE_MARK = "low_of_all"  # stands in the first line of the numbers, of policies or of rules
COLUMNS = (
    "policy", "runs", "missing", "reward", "reward_low_95", "reward_high_95", "lead_over_fixed",
    "lead_low_95", "lead_high_95", "lead_low_of_all", "lead_high_of_all", "shown",
    "regret_to_clairvoyant", "share",
    "share_low_95", "share_high_95",
)  # fmt: skip


def write_backtest(result: Backtest, folder: Path, title: str, origin: Origin | None = None) -> list[Path]:
    """Write the report of a backtest into a folder.

    Parameters
    ----------
    result : Backtest
        What `backtest` found.
    folder : Path
        A new or empty folder, or that of an earlier backtest.
    title : str
        Of picture and page.
    origin : Origin, optional
        Where the table came from; with it there is also `agent.py`, which runs the policy that is named (and
        `system.toml`, where that knows its system).

    Returns
    -------
    list of Path
        `figure.png`, `figure.svg`, `report.html`, `backtest.csv`, and those of the agent.
    """
    # Matplotlib takes most of a second to import: not before a backtest has begun.
    from kalmanbandits.backtesting.figure import backtest_figure
    from kalmanbandits.backtesting.page import backtest_page
    from kalmanbandits.reporting import drawing

    check_report_folder(folder)
    said = recommend(result)
    followed = follow_policy(result, said.policy)
    texts = {} if origin is None else agent_files(result, said, origin)
    names = [*FIGURES, PAGE, NUMBERS, *texts]
    with drawing.usual_settings(), written_together(folder, names, table=TABLE_MARK) as aside:
        png, _ = drawing.save(backtest_figure(result, title, said, followed), aside)
        backtest_page(result, title, said, followed, png, aside / PAGE)
        write_numbers(result, aside / NUMBERS)
        for name, text in texts.items():
            (aside / name).write_text(text, encoding="utf-8")
    return [folder / name for name in names]


def check_report_folder(folder: Path) -> None:
    """Whether a report may be written there: a new folder, an empty one, or that of an earlier backtest."""
    refuse_file(folder)
    if folder.exists() and any(folder.iterdir()) and not _is_ours(folder / NUMBERS):
        names = sorted(path.name for path in folder.iterdir())
        raise StoreRefused(
            f"{folder} holds {names[0]} and is not the folder of a backtest (give an empty or new one)"
        )

    if is_edited(folder / AGENT):
        raise StoreRefused(
            f"{folder / AGENT} was changed since a backtest wrote it (move it away, or give another folder)"
        )


def _is_ours(numbers: Path) -> bool:
    """Whether a table is one that a backtest wrote."""
    return numbers.is_file() and beginning(numbers, 16).startswith((b"policy,", b"rule,"))


def write_numbers(result: Backtest, path: Path) -> None:
    """One row for each policy, everything per round as rewards: the best first."""
    rows = [
        [result.names[p], result.runs[p], f"{result.missing[p]:g}",
         *in_digits(result.reward[p]), *in_digits(result.lead[p]), *in_digits(result.lead_of_all[p])[1:],
         result.shown(p), in_digits(result.behind[p])[0], *in_digits(result.share[p])]
        for p in result.order
    ]  # fmt: skip
    write_table(path, COLUMNS, rows)
