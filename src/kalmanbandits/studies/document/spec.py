"""A study as a TOML file: systems, policies, rounds, runs, seed, and what to keep.

    name = "wind"                           # also: title
    rounds = 10_000
    runs = 100
    first_run = 0                           # default 0: runs are numbered from here
    seed = 0                                # default 0
    checkpoints = 20                        # how many, or the rounds themselves; default 20
    measures = ["regret"]                   # default; also "reward", "pulls", "prediction_error"
    keep = "runs"                           # default; or "moments": means and covariances over runs

    [[systems]]
    family = "rotation"
    theta = {from = 0, to = "2*pi", count = 65}

    [[policies]]
    policy = "UBSS"
    window = [1, 2]
    label = "UBSS s={window}"

How values and grids are written: see `grids`. A system is a family with its parameters, or `transition`,
`actions`, `process_noise` and `noise_variance`, or `file = "system.toml"`. A policy takes its arms, and its
system if it needs one, from the cell; `constants = "as_printed"` gives UBSS the paper's constants, and
`systems = [...]` keeps a policy to some systems. A table `[report]` is handed to the report as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from os import PathLike
from pathlib import Path

from kalmanbandits.errors import InvalidArgument, file_path, instance, mapping, nearest, shown, whole
from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.simulate import KEEP, MOST_ROUNDS, check_checkpoints
from kalmanbandits.simulation.versions import fingerprint
from kalmanbandits.studies.document.cells import Cell, read_cells
from kalmanbandits.studies.document.changes import QUICK_POINTS, Changes
from kalmanbandits.studies.document.files import read_beside, read_document
from kalmanbandits.studies.document.identity import identity
from kalmanbandits.studies.document.lines import Source, StudyError, Table
from kalmanbandits.studies.document.players import printable

MEASURES = ("regret", "reward", "pulls", "prediction_error")
KEYS = (
    "name", "title", "rounds", "runs", "first_run", "seed", "checkpoints", "measures", "keep", "systems",
    "policies", "report",
)  # fmt: skip
LEAST = {"rounds": 1, "runs": 1, "first_run": 0, "seed": 0}
LARGEST = {"rounds": MOST_ROUNDS, "runs": 10**7, "first_run": 10**12, "seed": 2**63 - 1}
DEFAULTS = {"first_run": 0, "seed": 0}
MOST_CHECKPOINTS = 10_000
LONGEST = {"name": 100, "title": 300}  # characters


@dataclass(frozen=True)
class Study:
    """What to play and what to keep.

    Attributes
    ----------
    name, title
        Words for people; no number depends on them.
    rounds, runs, first_run, seed
        Sizes: runs are numbered `first_run`, `first_run` + 1, …; the noise of a run depends on its number.
    checkpoints
        The rounds after which measures are kept, rising, the last one `rounds`.
    measures
        What is kept.
    keep
        `"runs"`, every run, or `"moments"`, mean, variance and covariance over runs.
    cells
        Every system with the policies that play on it.
    text, files, changes
        The TOML, the texts of the system files it names, and what the command line changed.
    document
        The TOML with those changes made.
    report
        Its table for the report.
    """

    name: str
    title: str
    rounds: int
    runs: int
    first_run: int
    seed: int
    checkpoints: tuple[int, ...]
    measures: tuple[str, ...]
    keep: str
    cells: list[Cell]
    text: str
    report: Table
    files: dict[str, str]
    changes: Changes
    document: Table

    @property
    def groups(self) -> list[str]:
        """The names of the `[[systems]]` entries, in order."""
        return list(dict.fromkeys(cell.group for cell in self.cells))

    @property
    def specs(self) -> list[Spec]:
        """The policies of all cells."""
        return [spec for cell in self.cells for spec in cell.policies.values()]

    @property
    def labels(self) -> list[str]:
        """The labels of the policies, each once."""
        return list(dict.fromkeys(label for cell in self.cells for label in cell.policies))

    @property
    def total_rounds(self) -> int:
        """Rounds times policies over the whole study, by which progress is counted."""
        return self.rounds * self.runs * sum(len(cell.policies) for cell in self.cells)

    @property
    def run_numbers(self) -> range:
        """The numbers of its runs."""
        return range(self.first_run, self.first_run + self.runs)

    def hash(self) -> str:
        """Fingerprint of everything that the results depend on.

        Returns
        -------
        str
            Hexadecimal; equal for studies with equal results.
        """
        return fingerprint(identity(self))


def load_study(path: str | PathLike[str], changes: Changes | None = None) -> Study:
    """The study in a TOML file. (One in a text: `parse_study`.)

    Parameters
    ----------
    path
        The file. System files that it names are looked for beside it.
    changes
        What to change: sizes, seed, `quick`.

    Returns
    -------
    Study
        A `StudyError` names file, line, key and value of what is wrong.
    """
    file = file_path("path", path, "of a TOML file")
    return parse_study(read_document(file), changes, name=str(file), folder=file.parent)


def parse_study(
    text: str,
    changes: Changes | None = None,
    *,
    name: str = "study",
    folder: Path | None = None,
    files: Mapping[str, str] | None = None,
) -> Study:
    r'''The study in a TOML text.

    Parameters
    ----------
    text
        The TOML.
    changes
        What to change: sizes, seed, `quick`.
    name
        What errors call the text; its stem is the name of a study that has none.
    folder
        Where the system files lie that the text names.
    files
        Their contents, instead of `folder`.

    Returns
    -------
    Study
        Checked: every system and every policy of it has been made.

    >>> study = parse_study("""
    ... rounds = 100
    ... runs = 2
    ... [[systems]]
    ... family = "rotation"
    ... theta = {from = 0, to = "2*pi", count = 3}
    ... [[policies]]
    ... policy = "UBSS"
    ... window = [1, 2]
    ... """)
    >>> [cell.parameters for cell in study.cells]
    [{'theta': 0.0}, {'theta': 3.141592653589793}, {'theta': 6.283185307179586}]
    >>> list(study.cells[0].policies)
    ['UBSS window=1', 'UBSS window=2']
    '''
    instance("text", text, str, "TOML; load_study reads a file")
    name = str.__str__(instance("name", name, str))  # whatever a class of somebody's own would say
    changes = (
        Changes() if changes is None else instance("changes", changes, Changes, "such as Changes(runs=10)")
    )
    folder = None if folder is None else file_path("folder", folder)
    if files is not None:
        mapping("files", files, "the texts of system files by their names")
    source = Source(text, name)
    data = changes.apply(source)
    for key in data:
        if key not in KEYS:
            raise source.error(
                (key,), f"{key!r} is not a key of a study{nearest(key, KEYS)}, got {data[key]!r}"
            )
    title = _text(source, data, "title", "")
    rounds, runs, first_run, seed = (_whole(source, data, key) for key in LEAST)
    checkpoints = _checkpoints(source, data.get("checkpoints", 20), rounds)
    report = data.get("report", {})
    if not isinstance(report, dict):
        raise source.error(("report",), f"report must be a table [report], got {report!r}")
    if files is None:
        files = {} if folder is None else read_beside(folder, _named_files(data))
    measures = _measures(source, data.get("measures", ["regret"]))
    cells = read_cells(source, data, files, QUICK_POINTS if changes.quick else None)
    return Study(
        name=_text(source, data, "name", Path(name).stem),
        title=title,
        rounds=rounds,
        runs=runs,
        first_run=first_run,
        seed=seed,
        checkpoints=checkpoints,
        measures=measures,
        keep=_keep(source, data.get("keep", KEEP[0])),
        cells=cells,
        text=text,
        report=report,
        files=dict(files),
        changes=changes,
        document=data | ({"quick": True} if changes.quick else {}),
    )


def changed(study: Study, **changes: int | str) -> Study:
    """The same study with some of its `changes` made otherwise."""
    again = replace(study.changes, **changes)  # type: ignore[arg-type]
    return replace(parse_study(study.text, again, name=study.name, files=study.files), name=study.name)


def library_study(name: str) -> Path:
    """The path of a study that comes with the package.

    Parameters
    ----------
    name
        Such as "paper".

    Returns
    -------
    Path
        Its TOML file.
    """
    folder = Path(str(resources.files("kalmanbandits.studies"))) / "library"
    known = sorted(path.stem for path in folder.glob("*.toml"))
    if not isinstance(name, str) or name not in known:
        hint = nearest(name, known)
        raise StudyError(f"study must be a TOML file or one of {known}, got {shown(name)}{hint}")
    return folder / f"{name}.toml"


def _text(source: Source, data: Table, key: str, default: str) -> str:
    given = data.get(key, default)
    if not isinstance(given, str):
        raise source.error((key,), f"{key} must be text, got {given!r}")
    if not printable(given, LONGEST[key]):
        raise source.error(
            (key,), f"{key} must be one line of at most {LONGEST[key]} printable characters, got {given!r}"
        )
    return given


def _whole(source: Source, data: Table, key: str) -> int:
    if key not in data and key not in DEFAULTS:
        raise source.error((), f"a study needs {key!r}, such as {key} = 100")
    try:
        given = whole(key, data.get(key, DEFAULTS.get(key)), LEAST[key])
    except InvalidArgument as error:
        raise source.error((key,), str(error)) from None
    if given > LARGEST[key]:
        raise source.error((key,), f"{key} must be at most {LARGEST[key]}, got {given}")
    return given


def _checkpoints(source: Source, given: object, rounds: int) -> tuple[int, ...]:
    path = ("checkpoints",)
    if isinstance(given, bool) or not isinstance(given, (int, list)):
        raise source.error(path, f"checkpoints must be a number or a list of rounds, got {given!r}")
    count = given if isinstance(given, int) else len(given)
    if count > MOST_CHECKPOINTS:
        raise source.error(path, f"checkpoints must be at most {MOST_CHECKPOINTS}, got {count}")
    try:
        return tuple(int(point) for point in check_checkpoints(given, rounds))
    except (InvalidArgument, OverflowError) as error:
        raise source.error(path, str(error)) from None


def _measures(source: Source, given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise source.error(("measures",), f"measures must be a list such as ['regret'], got {given!r}")
    for measure in given:
        if measure not in MEASURES or given.count(measure) > 1:
            hint = nearest(measure, MEASURES)
            raise source.error(
                ("measures",), f"measures must name measures, each once, got {measure!r}{hint}"
            )
    return tuple(given)


def _keep(source: Source, given: object) -> str:
    if not isinstance(given, str) or given not in KEEP:
        raise source.error(
            ("keep",), f'keep must be "runs" or "moments", got {given!r}{nearest(given, KEEP)}'
        )
    return given


def _named_files(data: Table) -> list[str]:
    """The files that systems name."""
    tables = data.get("systems")
    named = (
        [table.get("file") for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    )
    return [name for name in named if isinstance(name, str)]
