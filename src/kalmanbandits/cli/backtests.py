"""The commands for tables of rewards: `kalmanbandits backtest` and `kalmanbandits fit`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kalmanbandits.cli.commands import EXIT_CODES, PLACE, client_of, commands, importing, load_own, on_cluster
from kalmanbandits.cli.terminal import say

F = TypeVar("F", bound=Callable[..., Any])
FITTED = "# Fitted to "  # how a file of `fit` begins


def reading(command: F) -> F:
    """The options of the commands that read a table."""
    for option in (
        click.option(
            "--delimiter",
            metavar="C",
            help="Separator of cells (default: comma, semicolon or tab, as found).",
        ),
        click.option(
            "--index", metavar="NAME", help="The column of times (default: dates, or a name such as time)."
        ),
        click.option("--drop", metavar="A,B,…", help="All columns but these."),
        click.option("--columns", metavar="A,B,…", help="Only these columns, by name (default: all)."),
    ):
        command = option(command)
    return command


@commands.command(short_help="Run every policy on a table of past rewards.", epilog=EXIT_CODES)
@click.argument("table", type=PLACE)
@click.option("--out", type=PLACE, metavar="DIR", help="Default: results/backtest-TABLE.")
@click.option("--policies", metavar="A,B,…", help="Only these policies (default: all; see `list`).")
@click.option(
    "--runs", type=click.IntRange(1), default=5, show_default=True, help="Of each randomised policy."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the randomised policies."
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads (default: all cores).")
@click.option(
    "--fit",
    is_flag=True,
    help="Fit a system to the first half of the rows, let the policies that know a system play too, and "
    "judge all by the other half.",
)
@click.option("--minimize", is_flag=True, help="The cells are costs, latencies or errors: less is better.")
@click.option(
    "--available",
    type=PLACE,
    metavar="MASK",
    help="A table of 0 and 1: which column can be chosen in which row (default: off in long gaps).",
)
@click.option(
    "--log",
    metavar="TIME,ARM,REWARD[,P]",
    help="The columns of a table with one row for each choice; P is the probability of the choice.",
)
@on_cluster
@reading
@importing
def backtest(
    table: Path, out: Path | None, log: str | None, imports: tuple[Path, ...], **options: object
) -> None:
    """Run every policy on TABLE (CSV, Parquet or Feather) and recommend one, with its uncertainty.

    TABLE has one row per round and one column per arm; an empty cell is a reward that never came. Prints one
    line per policy, with 95 % intervals, and writes a picture, a page, the numbers and an agent that runs the
    recommended policy to a folder.

    \b
    Examples:
      kalmanbandits backtest rewards.csv
      kalmanbandits backtest latencies.csv --minimize --drop comment --index time
      kalmanbandits backtest rewards.csv --policies UBSS,UCB --columns north,south --out results/two
      kalmanbandits backtest rewards.csv --import my_policy.py
      kalmanbandits backtest rewards.csv --cluster local:4
      kalmanbandits backtest choices.csv --log time,arm,reward,probability
    """
    from kalmanbandits.backtesting.deployment import Origin
    from kalmanbandits.backtesting.report import check_report_folder

    folder = out or Path("results") / f"backtest-{table.stem}"
    check_report_folder(folder)  # now rather than after all the playing
    load_own(imports)
    logged = read_as_log(table, log, options)
    if logged is None:
        replay, origin = read_table(table, options)
    else:
        from kalmanbandits.cli.logs import estimate

        if logged.propensity is not None:
            estimate(logged, folder, f"Estimates from {table.name}", options)
            return
        replay, origin = logged.table(), Origin(table, log_options(log, options), log=True)
    play_table(replay, origin, folder, f"Backtest of {table.name}", options)


def play_table(replay: Any, origin: Any, folder: Path, title: str, options: dict[str, Any]) -> None:
    """Let the policies play, print what came of it, and write the report."""
    from kalmanbandits.backtesting import line_up, recommend, train
    from kalmanbandits.backtesting.play import make_work
    from kalmanbandits.backtesting.recommendation import left_out_line, lines
    from kalmanbandits.backtesting.report import write_backtest
    from kalmanbandits.backtesting.stretches import span
    from kalmanbandits.cli.ahead import Ahead
    from kalmanbandits.cli.progress import Reporter
    from kalmanbandits.simulation.cpu import available_cores

    said = [f"{replay.rounds} rows, {replay.arms} columns, {replay.missing} cells missing"]
    if replay.index is not None:
        said.append(f"{replay.index.name!r} says when: {span(replay)}")
    say(f"{title}: {'; '.join(said)}", err=True)
    trained = train(replay) if options["fit"] else None
    if trained is not None:
        say(f"fitted to the first {trained.rows} rows: dimension {trained.dimension}", err=True)
    found = line_up(replay, split(options["policies"]), None if trained is None else trained.system)
    threads = options["jobs"] or available_cores()
    with client_of(options["cluster"]) as client, Reporter(sys.stderr) as reporter:
        work = make_work(
            replay, found.policies, options["runs"], options["seed"], reporter, found.left_out,
            0 if trained is None else trained.rows,
        )  # fmt: skip
        if client is None:
            with Ahead(work, threads) as ahead:
                ahead.do()
        else:
            work.do_on_cluster(client, options["jobs"])
    result = work.result()
    say(*lines(result))
    if result.left_out:
        say(left_out_line(result), err=True)
    say("", recommend(result))
    made = write_backtest(result, folder, title, origin)
    say(f"Report written to {folder}", err=True)
    if origin is not None:
        say(f"An agent that plays {recommend(result).policy}: {made[4]}", err=True)


@commands.command(short_help="Identify the system behind a table of past rewards.", epilog=EXIT_CODES)
@click.argument("table", type=PLACE)
@click.option("--out", type=PLACE, metavar="FILE", help="Default: TABLE with .toml.")
@click.option(
    "--dimensions", type=click.IntRange(1), default=8, show_default=True, help="The largest dimension to try."
)
@click.option(
    "--without-levels", is_flag=True, help="Write the system of the deviations from the columns' means only."
)
@reading
def fit(table: Path, out: Path | None, dimensions: int, without_levels: bool, **options: object) -> None:
    """Identify the linear Gaussian system behind TABLE, and write it for `check` and `run`.

    Prints its dimension, decay times and periods, the share of each column's variance that is predictable
    one round ahead, and how much of it from each other column alone. The means of the columns become a
    constant state, which `check` sets apart.

    \b
    Examples:
      kalmanbandits fit rewards.csv
      kalmanbandits fit rewards.csv --out system.toml --dimensions 4 --without-levels
    """
    from kalmanbandits.durability import beginning, write_atomically
    from kalmanbandits.errors import InvalidArgument, shown
    from kalmanbandits.identification.table_fit import fit_table
    from kalmanbandits.identification.table_words import describe

    replay, _ = read_table(table, options)
    path = out or table.with_suffix(".toml")
    if path.is_file() and not beginning(path, len(FITTED.encode())) == FITTED.encode():
        raise InvalidArgument(
            f"{path} is there already and `fit` has not written it (give another name by --out, or remove it)"
        )
    found = fit_table(replay, dimensions)
    say(*describe(found, replay.names))
    system = found.deviations if without_levels else found.system
    write_atomically(path, f"{FITTED}{shown(table.name)}, {found.rows} rows.\n{system.to_toml()}".encode())
    say(f"System written to {path}", err=True)


def read_table(table: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """The table in a file as options describe it, and where it came from."""
    from kalmanbandits.backtesting.deployment import Origin
    from kalmanbandits.backtesting.recommendation import played_clocks
    from kalmanbandits.systems import Replay

    given = {
        "columns": split(options["columns"]),
        "drop": split(options["drop"]),
        "index": options["index"],
        "delimiter": _delimiter(options),
    }
    available, minimize = options.get("available"), options.get("minimize", False)
    replay = Replay(table, available=available, minimize=minimize, **given)
    for sentence in played_clocks(replay):
        click.echo(sentence, err=True)
    mask = {} if available is None else {"available": str(available.resolve())}
    # A live agent is given costs as they are, so its table is read as it is.
    return replay, Origin(table, {**given, **mask})


def read_as_log(table: Path, log: str | None, options: dict[str, Any]) -> Any:
    """The log in a file, if it was said to be one or its header says so; else None."""
    from kalmanbandits.backtesting.logged import is_log, read_log
    from kalmanbandits.systems.table_files import header_of

    names = split(log)
    if names is None and not is_log(header_of(table, _delimiter(options))):
        return None
    if names is not None and len(names) not in (3, 4):
        raise click.UsageError(f"--log must name three or four columns, TIME,ARM,REWARD[,P], got {log!r}")
    return read_log(table, **log_options(log, options), minimize=options["minimize"])


def log_options(log: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """How a log is read."""
    roles = dict(zip(("time", "arm", "reward", "propensity"), split(log) or (), strict=False))
    return {**roles, "delimiter": _delimiter(options)}


def _delimiter(options: dict[str, Any]) -> str | None:
    return "\t" if options["delimiter"] == "\\t" else options["delimiter"]


def split(names: str | None) -> list[str] | None:
    """`a, b` as a list, with "quotes" around a name that holds a comma; None for all."""
    if names is None:
        return None
    try:
        return [name.strip() for row in csv.reader([names], skipinitialspace=True) for name in row]
    except csv.Error:
        raise click.UsageError(f"names must be separated by commas, on one line, got {names!r}") from None
