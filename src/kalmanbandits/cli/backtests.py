"""The commands for tables of rewards: `kalmanbandits backtest` and `kalmanbandits fit`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kalmanbandits.cli.commands import EXIT_CODES, commands, importing, load_own

F = TypeVar("F", bound=Callable[..., Any])
FITTED = "# Fitted to "  # how a file of `fit` begins


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
    from kalmanbandits.backtesting.report import check_folder, write_backtest
    from kalmanbandits.cli.progress import Reporter
    from kalmanbandits.errors import InvalidArgument

    folder = out or Path("results") / f"backtest-{table.stem}"
    check_folder(folder)  # now rather than after all the playing
    load_own(imports)
    replay = read(table, columns, delimiter)
    click.echo(
        f"{table}: {replay.rounds} rows, {replay.arms} columns, {replay.missing} cells missing", err=True
    )
    system, fitted = None, 0
    if fit:
        import numpy as np

        from kalmanbandits.identification.table_fit import fit_table
        from kalmanbandits.systems import Replay

        first = replay.table[: max(3, replay.rounds // 2)]
        unseen = np.isnan(first).all(axis=0)
        if unseen.any():
            raise InvalidArgument(
                f"--fit needs rewards of every column among the first {len(first)} rows, got none in "
                f"{replay.names[int(unseen.argmax())]!r} (leave it out by --columns)"
            )
        half, fitted = fit_table(Replay(first)), len(first)
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
            fitted=fitted,
        )
    click.echo("\n".join(lines(result)))
    click.echo(f"\n{recommend(result)}")
    write_backtest(result, folder, f"Backtest of {table.name}")
    click.echo(f"Report written to {folder}", err=True)


@commands.command(short_help="The system behind a table of past rewards.", epilog=EXIT_CODES)
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: TABLE with .toml.")
@click.option("--dimensions", type=click.IntRange(1), default=8, show_default=True, help="At most so many.")
@click.option(
    "--without-levels",
    is_flag=True,
    help="Write the deviations from the columns' levels only.",
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
    state that is always 1; `check` tells it apart from what moves.

    \b
    Examples:
      kalmanbandits fit rewards.csv
      kalmanbandits fit rewards.csv --out system.toml --dimensions 4 --without-levels
    """
    from kalmanbandits.durability import write_atomically
    from kalmanbandits.errors import InvalidArgument
    from kalmanbandits.identification.table_fit import fit_table
    from kalmanbandits.identification.table_words import describe

    path = out or table.with_suffix(".toml")
    if path.exists() and not path.read_bytes().startswith(FITTED.encode()):
        raise InvalidArgument(
            f"{path} is there already and `fit` has not written it (give another name by --out, or remove it)"
        )
    replay = read(table, columns, delimiter)
    found = fit_table(replay, dimensions)
    click.echo("\n".join(describe(found, replay.names)))
    system = found.deviations if without_levels else found.system
    write_atomically(path, f"{FITTED}{table.name}, {found.rows} rows.\n{system.to_toml()}".encode())
    click.echo(f"System written to {path}", err=True)


def read(table: Path, columns: str | None, delimiter: str | None) -> Any:
    """The table in a file, as options describe it."""
    from kalmanbandits.systems import Replay

    return Replay(table, columns=split(columns), delimiter={"\\t": "\t"}.get(delimiter or "", delimiter))


def split(names: str | None) -> list[str] | None:
    """`a, b` as a list, with "quotes" around a name that holds a comma; None for all."""
    if names is None:
        return None
    return [name.strip() for row in csv.reader([names], skipinitialspace=True) for name in row]
