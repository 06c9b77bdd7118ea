"""What can be typed, and the exit codes. Everything heavy is imported inside a command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from kalmanbandits import __version__
from kalmanbandits.cli.terminal import one_line, say

F = TypeVar("F", bound=Callable[..., Any])

# Settings of libraries that do nothing here, and of which nonsense would end the import of the library.
UNUSED = ("MPLBACKEND", "NUMBA_NUM_THREADS")
ASSUMPTION_FAILS, BAD_USE, REFUSED, DISK, CLUSTER, INTERRUPTED = 1, 2, 3, 4, 5, 130
EXIT_CODES = """\b
Exit codes:
  0    done
  1    check: an assumption that is needed fails
  2    a wrong option, or a study, system or table that cannot be used
  3    the folder is refused: not a store, another study's, damaged, or in use
  4    the disk is full, or a file cannot be read or written
  5    the cluster cannot be reached, has no worker that is fit, or went away; what is done is kept
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


class Place(click.Path):
    """A path on the command line. An empty one, of a variable that is not set, say, is not this folder."""

    def convert(self, value: Any, parameter: Any, context: Any) -> Any:
        """As `click.Path.convert`."""
        if value == "":
            self.fail("must be a path, got ''", parameter, context)
        return super().convert(value, parameter, context)


PLACE = Place(path_type=Path)


def importing(command: F) -> F:
    """The option that brings in policies of one's own."""
    return click.option(
        "--import",
        "imports",
        multiple=True,
        type=PLACE,
        metavar="FILE",
        help="A Python file with policies of your own, which may then be named.",
    )(command)


def on_cluster(command: F) -> F:
    """The option that lets the workers of a cluster play."""
    return click.option(
        "--cluster",
        metavar="WHERE",
        help="Let a Dask cluster play: tcp://scheduler:8786, local:4 (processes here), or slurm.yaml (jobs; "
        "see docs/cluster.md). Needs the extra [cluster].",
    )(command)


@contextmanager
def client_of(where: str | None) -> Iterator[Any]:
    """The client of a cluster, whose dashboard is named; None where none is asked for."""
    if where is None:
        yield None
        return
    import logging

    from kalmanbandits.cluster import open_cluster

    with open_cluster(where) as client:
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is said in our words
        say(f"Dashboard: {client.dashboard_link}", err=True)
        yield client


def load_own(imports: tuple[Path, ...]) -> None:
    """Run the files that define policies, so that these are known by name."""
    from kalmanbandits.policies.own_files import load_own_file

    for path in imports:
        load_own_file(path)


@commands.command(short_help="Check the paper's assumptions for a system.", epilog=EXIT_CODES)
@click.argument("system", required=False, type=PLACE)
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
    say(*str(found).splitlines())
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

    say(*catalogue())


def answer(arguments: list[str]) -> int:
    """Do what the arguments say; the exit code."""
    try:
        code = commands.main(
            arguments, prog_name="kalmanbandits", standalone_mode=False, obj=tuple(arguments)
        )
        sys.stdout.flush()
    except click.ClickException as error:
        vars(error)["message"] = one_line(error.message)
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
    from kalmanbandits.errors import ClusterError, FileFormatError, KalmanBanditsError
    from kalmanbandits.studies import StoreRefused

    if isinstance(error, OSError) and error.errno == errno.EPIPE:  # `kalmanbandits list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if not isinstance(error, (KalmanBanditsError, OSError)):
        return None
    told: object = error
    if isinstance(error, OSError) and error.filename is not None:
        told = f"{error.strerror}: {error.filename!r}"
    with suppress(OSError):  # nobody can be told
        say(f"error: {told}", err=True)
    if isinstance(error, (StoreRefused, FileFormatError)):
        return REFUSED
    if isinstance(error, ClusterError):
        return CLUSTER
    return BAD_USE if isinstance(error, KalmanBanditsError) else DISK


def main() -> NoReturn:
    """The entry point of the command `kalmanbandits`."""
    _open_streams()
    for name in UNUSED:
        os.environ.pop(name, None)
    sys.exit(answer(sys.argv[1:]))


def _open_streams() -> None:
    """Open the standard streams that are closed: or the next file would take the place of one of them.

    Whatever is said to that stream would then be written into the file; and Python has None for the stream.
    """
    handle = -1
    while handle <= 2:
        handle = os.open(os.devnull, os.O_RDWR)
    os.close(handle)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
