"""The commands for tables of rewards: `kalmanbandits backtest` and `kalmanbandits fit`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kalmanbandits.cli.commands import EXIT_CODES, commands, importing, load_own

F = TypeVar("F", bound=Callable[..., Any])


def reading(command: F) -> F:
    """The options of the commands that read a table."""
    for option in (
        click.option(
            "--delimiter", metavar="C", help="What separates cells (default: , ; or tab, as found)."
        ),
        click.option("--columns", metavar="A,B,…", help="Only these columns, by name (default: all)."),
    ):
        command = option(command)
    return command


@commands.command(short_help="Every policy on a table of past rewards.", epilog=EXIT_CODES)
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: results/backtest-TABLE."
)
@click.option("--policies", metavar="A,B,…", help="Only these policies (default: all; see `list`).")
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="Where chance matters.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of policies and bootstrap."
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads (default: all cores).")
@click.option(
    "--fit",
    is_flag=True,
    help="Fit a system to the first half of the table, and let the policies that know a system play too.",
)
@reading
@importing
def backtest(
    table: Path,
    out: Path | None,
    policies: str | None,
    runs: int,
    seed: int,
    jobs: int | None,
    fit: bool,
    columns: str | None,
    delimiter: str | None,
    imports: tuple[Path, ...],
) -> None:
    """Let every policy play TABLE (CSV or Parquet), and say which one to use, and how sure that is.

    A row is a round, a column an arm, an empty cell a reward that never came. One line for each policy, with
    95 % intervals; picture, page and numbers go to a folder.

    \b
    Examples:
      kalmanbandits backtest rewards.csv
      kalmanbandits backtest rewards.csv --policies UBSS,UCB --columns north,south --out results/two
      kalmanbandits backtest rewards.csv --import my_policy.py
    """
    from kalmanbandits.backtesting import backtest as play
    from kalmanbandits.backtesting import line_up, recommend
    from kalmanbandits.backtesting.recommendation import lines
    from kalmanbandits.cli.progress import Reporter

    load_own(imports)
    replay = read(table, columns, delimiter)
    click.echo(
        f"{table}: {replay.rounds} rows, {replay.arms} columns, {replay.missing} cells missing", err=True
    )
    system = None
    if fit:
        from kalmanbandits.learning.table_fit import fit_table
        from kalmanbandits.systems import Replay

        half = fit_table(Replay(replay.table[: max(2, replay.rounds // 2)]))
        click.echo(f"fitted to the first half: dimension {half.deviations.dimension}", err=True)
        system = half.system
    found = line_up(replay, split(policies), system)
    for name, why in found.left_out.items():
        click.echo(f"left out: {name} {why}", err=True)
    with Reporter(sys.stderr) as reporter:
        result = play(
            replay,
            found.policies,
            runs=runs,
            seed=seed,
            threads=jobs,
            progress=reporter.tell,
            left_out=found.left_out,
        )
    click.echo("\n".join(lines(result)))
    said = recommend(result)
    note = ""
    if fit and said.policy.startswith("Kalman"):
        later = float(result.lead_from(replay.rounds // 2)[result.names.index(said.policy)])
        note = (
            f"Its system was fitted to the first half; on the second half alone it earns {abs(later):.3g} a "
            f"round {'more' if later >= 0 else 'less'} than always choosing {result.best_arm!r}."
        )
    click.echo(f"\n{said} {note}".rstrip())
    from kalmanbandits.backtesting.report import write_backtest

    folder = out or Path("results") / f"backtest-{table.stem}"
    write_backtest(result, folder, f"Backtest of {table.name}", note)
    click.echo(f"Report written to {folder}", err=True)


@commands.command(short_help="The system behind a table of past rewards.", epilog=EXIT_CODES)
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: TABLE with .toml.")
@click.option("--dimensions", type=click.IntRange(1), default=8, show_default=True, help="At most so many.")
@click.option(
    "--without-levels",
    is_flag=True,
    help="Write the deviations from the columns' levels only: a system with a stationary law.",
)
@reading
def fit(
    table: Path,
    out: Path | None,
    dimensions: int,
    without_levels: bool,
    columns: str | None,
    delimiter: str | None,
) -> None:
    """Identify the linear Gaussian system behind TABLE, and write it for `check` and `run`.

    Prints its dimension, how long it remembers and how it swings, how much of each column is known one
    round ahead, and how much seeing one column tells about another. The levels of the columns become a
    state that is always 1, so the system has no stationary law: `check` says so.

    \b
    Examples:
      kalmanbandits fit rewards.csv
      kalmanbandits fit rewards.csv --out system.toml --dimensions 4 --without-levels
    """
    from kalmanbandits.learning.table_fit import fit_table
    from kalmanbandits.learning.table_words import describe

    replay = read(table, columns, delimiter)
    found = fit_table(replay, dimensions)
    click.echo("\n".join(describe(found, replay.names)))
    path = out or table.with_suffix(".toml")
    system = found.deviations if without_levels else found.system
    path.write_text(f"# Fitted to {table.name}, {found.rows} rows.\n{system.to_toml()}", encoding="utf-8")
    click.echo(f"System written to {path}", err=True)


def read(table: Path, columns: str | None, delimiter: str | None) -> Any:
    """The table in a file, as options describe it."""
    from kalmanbandits.systems import Replay

    return Replay(table, columns=split(columns), delimiter={"\\t": "\t"}.get(delimiter or "", delimiter))


def split(names: str | None) -> list[str] | None:
    """`a, b` as a list; None for all."""
    return None if names is None else [name.strip() for name in names.split(",")]
