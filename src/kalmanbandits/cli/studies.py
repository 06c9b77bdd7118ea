"""The commands for studies: `kalmanbandits run | plan | merge | report | reproduce`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TypedDict, Unpack

import click

from kalmanbandits.cli.commands import (
    EXIT_CODES,
    PLACE,
    F,
    client_of,
    commands,
    importing,
    load_own,
    on_cluster,
)
from kalmanbandits.cli.terminal import say


class Playing(TypedDict):
    """The options of the commands that play a study."""

    fresh: bool
    quick: bool
    runs: int | None
    first_run: int | None
    seed: int | None
    jobs: int | None
    backend: str
    keep: str | None
    cluster: str | None
    shared_folder: bool


def playing(command: F) -> F:
    """The options of the commands that play a study."""
    for option in (
        click.option("--fresh/--resume", help="Start from scratch, or continue (the default)."),
        click.option(
            "--quick",
            is_flag=True,
            help="At most 10 000 rounds and 10 runs, and grids thinned to at most 17 cells of each system, "
            "their ends included: to see whether all is well, in seconds.",
        ),
        click.option(
            "--runs", type=click.IntRange(1), metavar="R", help="Number of runs, instead of the study's."
        ),
        click.option(
            "--first-run", type=click.IntRange(0), metavar="F", help="Number of the first run (default: 0)."
        ),
        click.option("--seed", type=click.IntRange(0), metavar="S", help="Seed, instead of the study's."),
        click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads (default: all cores)."),
        click.option(
            "--backend",
            type=click.Choice(["cpu", "gpu"]),
            default="cpu",
            show_default=True,
            help="Where to play; gpu needs an NVIDIA GPU and the extra [gpu].",
        ),
        click.option(
            "--keep",
            type=click.Choice(["runs", "moments"]),
            help="Keep every run, or only means and covariances over runs; default: what the study says.",
        ),
        click.option(
            "--shared-folder",
            is_flag=True,
            help="With --cluster: workers write their part themselves, into the folder that all of them see.",
        ),
        on_cluster,
    ):
        command = option(command)
    return command


@commands.command(short_help="Run a study.", epilog=EXIT_CODES)
@click.argument("study")
@click.option(
    "--out",
    type=PLACE,
    metavar="DIR",
    help="Default: results/ and the name of the study.",
)
@click.option("--shard", metavar="I/N", help="Run only the I-th of N shares; `merge` joins the folders.")
@playing
@importing
@click.pass_context
def run(
    context: click.Context,
    /,
    study: str,
    out: Path | None,
    shard: str | None,
    imports: tuple[Path, ...],
    **options: Unpack[Playing],
) -> None:
    """Run STUDY, a TOML file, and store its results in a folder.

    If it is interrupted or killed, the same command continues; the results depend neither on that nor on
    --jobs. Where STUDY has more runs, policies or systems than the folder, only the missing ones are run. Any
    other change, such as another seed, needs another folder or --fresh. STUDY may also be the name of a study
    that comes with the package.

    \b
    Examples:
      kalmanbandits run study.toml --out results/study
      kalmanbandits run study.toml --out results/try --quick
      kalmanbandits run study.toml --out results/study --runs 1000 --jobs 4
      kalmanbandits run study.toml --out results/part3 --shard 3/20
      kalmanbandits run study.toml --out results/study --cluster tcp://scheduler:8786
      kalmanbandits run paper --out results/paper
    """
    load_own(imports)
    path = _study_file(study)
    out = out or Path("results") / path.stem
    _play(context, path, out, options, shard=shard)
    say(f"Its report: kalmanbandits report {shlex.quote(str(out))}", err=True)


@commands.command(short_help="Estimate what a study will cost.", epilog=EXIT_CODES)
@click.argument("study")
@click.option("--runs", type=click.IntRange(1), metavar="R", help="For this number of runs.")
@click.option("--quick", is_flag=True, help="As for `run --quick`.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="For this number of threads (default: all cores)."
)
@importing
def plan(study: str, runs: int | None, quick: bool, jobs: int | None, imports: tuple[Path, ...]) -> None:
    """Estimate what STUDY will cost, by running each policy for about a second, and which policy dominates.

    \b
    Example:
      kalmanbandits plan study.toml --runs 1000
    """
    from kalmanbandits.cli.progress import plan_lines
    from kalmanbandits.studies import Changes, load_study, plan_study

    load_own(imports)
    what = load_study(_study_file(study), Changes(runs=runs, quick=quick))
    say(*plan_lines(plan_study(what, jobs)))


@commands.command(short_help="Join stores of different runs.", epilog=EXIT_CODES)
@click.argument("folders", nargs=-1, required=True, type=PLACE)
@click.option("--out", type=PLACE, metavar="DIR", help="A new folder for the result.")
@importing
def merge(folders: tuple[Path, ...], out: Path | None, imports: tuple[Path, ...]) -> None:
    """Join the stores in FOLDERS, which hold different runs of one study: shards, or runs numbered apart.

    Without --out the others are added to the first store. Nothing is run, and the others are only read. A
    store in DIR that is not one of FOLDERS is refused, unless they were merged into it before.
    Stores that share a run, or are of different studies or versions, are refused.

    \b
    Examples:
      kalmanbandits merge results/part1 results/part2 --out results/all
      kalmanbandits merge results/study results/more
    """
    from kalmanbandits.studies import merge_stores

    load_own(imports)
    results = merge_stores(folders, out)
    there = "complete" if results.complete else f"{100 * results.share:.1f} % of the study"
    say(f"Merged into {results.folder}: {there}", err=True)


@commands.command(short_help="Write figure, table and page of a study.", epilog=EXIT_CODES)
@click.argument("folder", type=PLACE)
@importing
def report(folder: Path, imports: tuple[Path, ...]) -> None:
    """Write the report of the study in FOLDER, next to its results.

    The report of an unfinished study covers what is there.

    \b
    Example:
      kalmanbandits report results/study
    """
    load_own(imports)
    _report(folder)


@commands.command(short_help="Reproduce the paper's figure.", epilog=EXIT_CODES)
@click.option(
    "--out",
    type=PLACE,
    metavar="DIR",
    default=Path("results/paper"),
    show_default=True,
    help="Folder of the results.",
)
@click.option("--thetas", type=click.IntRange(2), metavar="N", help="Number of angles.")
@playing
@click.pass_context
def reproduce(context: click.Context, /, out: Path, thetas: int | None, **options: Unpack[Playing]) -> None:
    """Run the paper's study and write its report: `run paper` and `report` in one.

    \b
    Examples:
      kalmanbandits reproduce --quick --out results/quick
      kalmanbandits reproduce
      kalmanbandits reproduce --thetas 201 --runs 1000 --out results/full
    """
    from kalmanbandits.studies import library_study

    counts = {} if thetas is None else {"theta": thetas}
    _play(context, library_study("paper"), out, options, counts)
    _report(out)


def _study_file(study: str) -> Path:
    """A file, or the study of that name that comes with the package."""
    from kalmanbandits.studies import library_study

    if not study:
        raise click.UsageError("STUDY must be a file or a name, got ''")
    path = Path(study)
    return path if path.suffix or path.exists() else library_study(study)


def _play(
    context: click.Context,
    path: Path,
    out: Path,
    options: Playing,
    counts: dict[str, int] | None = None,
    shard: str | None = None,
) -> None:
    from kalmanbandits.cli.progress import Reporter
    from kalmanbandits.errors import ClusterError
    from kalmanbandits.reporting.style import amount, counted
    from kalmanbandits.studies import Changes, Shard, load_study, run_study

    part = Shard.parse("1/1" if shard is None else shard)
    sizes = options["runs"], options["seed"], options["quick"], counts or {}, options["first_run"]
    study = load_study(path, Changes(*sizes, options["keep"]))
    there = ((len(study.cells), "system"), (len(study.labels), "policy"), (study.runs, "run"))
    said = ", ".join(counted(number, what) for number, what in there)
    say(f"{study.name}: {said} of {study.rounds} rounds", err=True)
    again = shlex.join(
        ["kalmanbandits", *(word for word in context.find_root().obj or () if word != "--fresh")]
    )
    with client_of(options["cluster"]) as client:
        try:
            with Reporter(sys.stderr) as reporter:
                results = run_study(
                    study,
                    out,
                    jobs=options["jobs"],
                    resume=not options["fresh"],
                    progress=reporter,
                    backend=options["backend"],
                    shard=part,
                    client=client,
                    shared_folder=options["shared_folder"],
                )
        except (KeyboardInterrupt, OSError, ClusterError) as error:
            stopped = "Stopped" if isinstance(error, KeyboardInterrupt) else "Failed"
            say(f"{stopped}. What is done is kept in {out}. Go on with:", f"  {again}", err=True)
            raise
    seconds, size = results.manifest["seconds"], amount(results.manifest["size"])
    done = "Done" if shard is None else f"Shard {shard} done ({100 * results.share:.1f} % of the study)"
    say(f"{done} in {seconds:.1f} s: {out} ({size})", err=True)


def _report(folder: Path) -> None:
    from kalmanbandits.reporting import write_report
    from kalmanbandits.studies import Results

    results = Results.open(folder)
    write_report(results, folder)
    there = "" if results.complete else f", of the {100 * results.share:.1f} % of the study that are there"
    say(f"Report written to {folder}{there}", err=True)
