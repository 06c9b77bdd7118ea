"""What can be typed, and the exit codes. Everything heavy is imported inside a command."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kalmanbandits import __version__

if TYPE_CHECKING:
    from kalmanbandits.studies import Changes

F = TypeVar("F", bound=Callable[..., Any])

ASSUMPTION_FAILS, BAD_USE, REFUSED, DISK, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = """\b
Exit codes:
  0    done
  1    check: an assumption that is needed fails
  2    a wrong option, or a study, system or table that cannot be used
  3    the folder is refused: not a store, another study's, damaged, or in use
  4    the disk is full, or a file cannot be read or written
  130  interrupted; what is done is kept
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="kalmanbandits")
def commands() -> None:
    """Restless bandits whose rewards drift with a hidden linear Gaussian state.

    \b
    Examples:
      kalmanbandits reproduce --quick
      kalmanbandits run study.toml --out results/study
      kalmanbandits check --family rotation --set theta=5*pi/8
      kalmanbandits backtest rewards.csv
    """


def importing(command: F) -> F:
    """The option that brings in policies of one's own."""
    return click.option(
        "--import",
        "imports",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A Python file with policies of your own, which may then be named.",
    )(command)


def load_own(imports: tuple[Path, ...]) -> None:
    """Run the files that define policies, so that these are known by name."""
    import importlib.util

    for path in imports:
        # A name that nobody can import, lest a file called random.py take the place of a module.
        spec = importlib.util.spec_from_file_location(f"--import {path.stem}", path)
        if spec is None or spec.loader is None:
            raise click.UsageError(f"--import must be a Python file, got {str(path)!r}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look for annotations
        spec.loader.exec_module(module)


def playing(command: F) -> F:
    """The options of the commands that play a study."""
    for option in (
        click.option("--fresh/--resume", help="Start anew, or go on with what is there (the default)."),
        click.option(
            "--quick",
            is_flag=True,
            help="At most 10 000 rounds and 10 runs, and grids thinned to at most 17 cells of each system, "
            "their ends included: to see whether all is well, in seconds.",
        ),
        click.option("--runs", type=click.IntRange(1), metavar="R", help="Play so many runs instead."),
        click.option("--seed", type=click.IntRange(0), metavar="S", help="Use this seed instead."),
        click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads (default: all cores)."),
        click.option(
            "--backend",
            type=click.Choice(["cpu", "gpu"]),
            default="cpu",
            show_default=True,
            help="Where to play; gpu needs an NVIDIA card and the extra [gpu].",
        ),
    ):
        command = option(command)
    return command


@commands.command(short_help="Play a study.", epilog=EXIT_CODES)
@click.argument("study")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: results/ and its name.")
@playing
@importing
@click.pass_context
def run(
    context: click.Context, /, study: str, out: Path | None, imports: tuple[Path, ...], **options: Any
) -> None:
    """Play STUDY, a TOML file, and keep its numbers in a folder.

    Interrupted at any moment, even killed, and started again with the same command, it goes on; the numbers
    do not depend on that, nor on --jobs. Other runs, another seed or --quick make another study, which
    needs another folder or --fresh. STUDY may also be the name of a study that comes with the package.

    \b
    Examples:
      kalmanbandits run study.toml --out results/study
      kalmanbandits run study.toml --out results/try --quick
      kalmanbandits run study.toml --out results/study --runs 1000 --jobs 4 --fresh
      kalmanbandits run paper --out results/paper
    """
    from kalmanbandits.studies import library_study

    load_own(imports)
    path = Path(study) if Path(study).suffix or Path(study).exists() else library_study(study)
    out = out or Path("results") / path.stem
    _play(context, path, out, _changes(options), options)
    click.echo(f"Its report: kalmanbandits report {shlex.quote(str(out))}", err=True)


@commands.command(short_help="Figures, tables and one page from a store.", epilog=EXIT_CODES)
@click.argument("folder", type=click.Path(path_type=Path))
@importing
def report(folder: Path, imports: tuple[Path, ...]) -> None:
    """Write the report of the study that was played into FOLDER, next to its numbers.

    \b
    Example:
      kalmanbandits report results/study
    """
    load_own(imports)
    _report(folder)


@commands.command(short_help="The paper's figure.", epilog=EXIT_CODES)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path("results/paper"),
    show_default=True,
    help="Where to.",
)
@click.option("--thetas", type=click.IntRange(2), metavar="N", help="So many angles instead.")
@playing
@click.pass_context
def reproduce(context: click.Context, /, out: Path, thetas: int | None, **options: Any) -> None:
    """Play the paper's study and write its report: `run paper` and `report` in one.

    \b
    Examples:
      kalmanbandits reproduce --quick --out results/quick
      kalmanbandits reproduce
      kalmanbandits reproduce --thetas 201 --runs 1000 --out results/full
    """
    from kalmanbandits.studies import library_study

    counts = {} if thetas is None else {"theta": thetas}
    _play(context, library_study("paper"), out, _changes(options, counts), options)
    _report(out)


@commands.command(short_help="The paper's assumptions, held against a system.", epilog=EXIT_CODES)
@click.argument("system", required=False, type=click.Path(path_type=Path))
@click.option("--family", metavar="NAME", help="A family instead of a file; see `kalmanbandits list`.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the family.")
@click.pass_context
def check(context: click.Context, system: Path | None, family: str | None, settings: tuple[str, ...]) -> None:
    """Print every assumption for SYSTEM, a TOML file: whether it holds, with the figures that decide.

    The exit code is 0 when everything that is needed holds, else 1.

    \b
    Examples:
      kalmanbandits check system.toml
      kalmanbandits check --family rotation --set theta=5*pi/8
      kalmanbandits check --family autoregressive --set "coefficients=[[0.5, 0.3], [1.2, -0.5]]"
    """
    from kalmanbandits.cli.systems import system_from_file, system_from_options

    if (system is None) == (family is None) or (settings and family is None):
        raise click.UsageError("give either a SYSTEM file or --family with --set KEY=VALUE …")
    made = system_from_options(family, settings) if system is None else system_from_file(system)
    found = made.check()
    click.echo(str(found))
    context.exit(0 if found.holds else ASSUMPTION_FAILS)


@commands.command("list", short_help="Families and policies, with their parameters.")
def list_() -> None:
    """Print the families of systems and the policies, one line each: parameters, defaults, what it is.

    A policy's arms, and its system, are filled in by a study.

    \b
    Example:
      kalmanbandits list
    """
    from kalmanbandits.cli.systems import catalogue

    click.echo("\n".join(catalogue()))


def _changes(options: dict[str, Any], counts: dict[str, int] | None = None) -> Changes:
    from kalmanbandits.studies import Changes

    return Changes(options["runs"], options["seed"], options["quick"], counts or {})


def _play(context: click.Context, path: Path, out: Path, changes: Changes, options: dict[str, Any]) -> None:
    from kalmanbandits.cli.progress import Reporter
    from kalmanbandits.studies import load_study, run_study

    study = load_study(path, changes)
    cells, policies = len(study.cells), sum(len(cell.policies) for cell in study.cells)
    click.echo(
        f"{study.name}: {cells} cells, {policies} policies, {study.runs} runs of {study.rounds} rounds",
        err=True,
    )
    again = shlex.join(
        ["kalmanbandits", *(word for word in context.find_root().obj or () if word != "--fresh")]
    )
    try:
        with Reporter(sys.stderr) as reporter:
            results = run_study(
                study,
                out,
                jobs=options["jobs"],
                resume=not options["fresh"],
                progress=reporter.tell,
                backend=options["backend"],
            )
    except (KeyboardInterrupt, OSError) as error:
        stopped = "Stopped" if isinstance(error, KeyboardInterrupt) else "Failed"
        click.echo(f"{stopped}. What is done is kept in {out}. Go on with:\n  {again}", err=True)
        raise
    seconds, size = results.manifest["seconds"], results.manifest["size"] / 2**20
    click.echo(f"Done in {seconds:.1f} s: {out} ({size:.1f} MiB)", err=True)


def _report(folder: Path) -> None:
    from kalmanbandits.studies import Results, StoreRefused

    results = Results.open(folder)
    if not results.complete:
        raise StoreRefused(
            f"{folder} is not complete: run the study again into it, which computes what is missing"
        )
    from kalmanbandits.reporting import write_report

    write_report(results, folder)
    click.echo(f"Report written to {folder}", err=True)


def answer(arguments: list[str]) -> int:
    """Do what the arguments say; the exit code."""
    try:
        code = commands.main(
            arguments, prog_name="kalmanbandits", standalone_mode=False, obj=tuple(arguments)
        )
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return BAD_USE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        code = _fault(error)
        if code is None:
            raise
        return code
    return int(code or 0)


def _fault(error: Exception) -> int | None:
    """Say what is wrong; the exit code, or None for an error that is nobody's but ours."""
    from kalmanbandits.errors import FileFormatError, KalmanBanditsError
    from kalmanbandits.studies import StoreRefused

    if isinstance(error, OSError) and error.errno == errno.EPIPE:  # `kalmanbandits list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if not isinstance(error, (KalmanBanditsError, OSError)):
        return None
    click.echo(f"error: {error}", err=True)
    if isinstance(error, (StoreRefused, FileFormatError)):
        return REFUSED
    return BAD_USE if isinstance(error, KalmanBanditsError) else DISK


def main() -> NoReturn:
    """The entry point of the command `kalmanbandits`."""
    sys.exit(answer(sys.argv[1:]))
