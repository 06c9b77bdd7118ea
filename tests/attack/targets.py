"""What is attacked: each target makes something sound, and opens it again after every damage.

A target is a strategy of cases and a function that plays one. It may return or raise; what it may not do is
end the process, hang, take gigabytes, raise an error that says nothing, or touch files that are not its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from damage import copied, damage_files, damaged, damages, file_damages
from hypothesis import strategies as st

import kalmanbandits as kb
from kalmanbandits import cli
from kalmanbandits.backtesting import read_log
from kalmanbandits.policies import POLICIES
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.studies import Results, load_study, merge_stores, parse_study, run_study
from kalmanbandits.systems import Replay

STUDY = """
name = "small"
rounds = 40
runs = 2
checkpoints = 2
[[systems]]
family = "rotation"
theta = [0.5, "pi/2"]
[[policies]]
policy = "UCB"
[[policies]]
policy = "Random"
"""
SYSTEM = 'family = "random_walk"\narms = 2\nstep_variance = [1.0, 0.5]\n'
TABLE = "time,a,b\n" + "".join(f"2024-01-{d:02d},{d / 7:.3f},{-d}\n" for d in range(1, 29))
SYSTEM_OF_TWO = kb.systems.rotation(theta=1.0)
WINDOWS = {"SlidingWindowUCB": 40, "SlidingWindowThompson": 40}
KINDS = 3  # of policies in one child: each takes a moment to load


class Target(NamedTuple):
    """How to draw a case, and how to play it."""

    cases: st.SearchStrategy[Any]
    play: Callable[[Any], None]


def some_policies(seed: int, count: int) -> list[kb.Policy]:
    """A few policies of the library, other ones for another seed."""
    return [made(name) for name in random.Random(seed).sample(sorted(POLICIES), count)]


def made(name: str) -> kb.Policy:
    """A policy of two arms."""
    kind: Any = POLICIES[name]
    if issubclass(kind, KnownSystemPolicy):
        return kind(SYSTEM_OF_TWO)
    return kind(arms=2, **({"window": WINDOWS[name]} if name in WINDOWS else {}))


def rounds(agent: kb.Agent, count: int) -> None:
    """Play some rounds; a few rewards never come, and the last ones are still to come."""
    for t in range(count):
        ticket = agent.ask()
        if t % 8 < 7:
            agent.tell(ticket, float(t % 5) - 1.5)
        elif t < count - 12:  # or all that comes later would wait for it, and the memory learn nothing
            agent.expire(ticket)
    agent.explain()


def save_files(folder: Path, seed: int) -> Target:
    """`Agent.save` and `Agent.load`."""
    sound = []
    for number, policy in enumerate(some_policies(seed, KINDS)):
        agent = kb.Agent(policy, seed=number)
        rounds(agent, 30)
        place = folder / f"sound{number}"
        place.mkdir()
        agent.save(place / "saved.agent")
        sound.append(place)

    def play(case: Any) -> None:
        number, damage = case
        place = copied(sound[number], folder / "damaged")
        damage_files(place, damage)
        rounds(kb.Agent.load(place / "saved.agent"), 5)

    return Target(st.tuples(st.integers(0, len(sound) - 1), file_damages), play)


def journals(folder: Path, seed: int) -> Target:
    """`Agent.open`, twice."""
    policies = some_policies(seed, 2)
    for number, policy in enumerate(policies):
        agent = kb.Agent.open(folder / f"open{number}", policy, seed=number)
        rounds(agent, 30)
        shutil.copytree(folder / f"open{number}", folder / f"sound{number}")  # as a killed process leaves it
        agent.close()
        if number % 2:
            copied(folder / f"open{number}", folder / f"sound{number}")

    def play(case: Any) -> None:
        number, damage, ending, foreign = case
        place = copied(folder / f"sound{number}", folder / "damaged")
        beside = place / f"journal.sqlite{ending}"
        if foreign:
            beside.write_bytes(foreign)
        else:
            damage_files(place, damage)
        try:
            with kb.Agent.open(place, policies[number], seed=number) as agent:
                rounds(agent, 5)
        finally:
            assert not foreign or beside.read_bytes() == foreign, "a foreign file was changed"

    zeros = st.sampled_from([0, 4, 48, 136, 4096, 32768]).map(bytes)
    somebodys = st.tuples(zeros, st.sampled_from([b"mine", b"\x37\x7f\x06mine", b"\x18\xe2-\0" * 9])).map(
        b"".join
    )
    endings = st.sampled_from(["-wal", "-shm", "-journal"])
    numbers = st.integers(0, len(policies) - 1)
    return Target(st.tuples(numbers, file_damages, endings, st.just(b"") | somebodys), play)


def stores(folder: Path, seed: int) -> Target:
    """`run_study` and `Results.open`."""
    run_study(parse_study(STUDY), folder / "sound", jobs=1)

    def play(case: Any) -> None:
        way, damage = case
        place = copied(folder / "sound", folder / "damaged")
        damage_files(place, damage)
        if way == "run":
            run_study(parse_study(STUDY), place, jobs=1)
        elif way == "merge":
            judged(lambda: merge_stores([place, folder / "sound"]))
            place = copied(folder / "sound", folder / "damaged")
        results = Results.open(place)
        if results.complete:
            for cell in range(len(results.cells)):
                results.measure("regret", cell)

    return Target(st.tuples(st.sampled_from(["open", "run", "merge"]), file_damages), play)


def documents(folder: Path, seed: int) -> Target:
    """TOML: systems and studies, as text and as files."""
    scalars = st.one_of(
        st.sampled_from(
            ["-1", "0", "1e308", "nan", "inf", "99999999999", "''", '"pi/0"', "2024-01-01", "true"]
        ),
        st.sampled_from(
            ["[]", "[[]]", "{}", "[[1.0]]", "[[1,2],[3]]", "{from=0,to=1,count=-1}", "'9**9**9'"]
        ),
        st.integers(0, 6000).map(lambda depth: "[" * depth + "]" * depth),
        st.text(max_size=5).map(repr),
    )
    names = [
        "theta",
        "arms",
        "family",
        "rounds",
        "runs",
        "seed",
        "policy",
        "window",
        "coefficients",
        "periods",
    ]
    names += ["dimension", "transition", "actions", "checkpoints", "measures", "systems", "policies", "a.b"]
    line = st.tuples(st.sampled_from(names), scalars).map(" = ".join)
    extra = st.lists(line, max_size=3).map("\n".join)

    def play(case: Any) -> None:
        sound, front, back, damage, binary = case
        content = damaged(f"{front}\n{sound}\n{back}".encode(), damage or [("flip", 0, 0)][: bool(binary)])
        path = folder / "damaged.toml"
        path.write_bytes(content)
        text = content.decode("utf-8", "replace")
        for call in (
            lambda: kb.LinearGaussianSystem.from_toml(path),
            lambda: kb.LinearGaussianSystem.from_toml(text),
            lambda: parse_study(text),
            lambda: load_study(path),
        ):
            judged(call)

    whole = st.sampled_from([STUDY, SYSTEM, ""])
    return Target(st.tuples(whole, extra, extra, st.just([]) | damages, st.booleans()), play)


def tables(folder: Path, seed: int) -> Target:
    """CSV files, with headers of any kind, as tables and as logs."""
    cell = st.sampled_from(
        ["1", "-2.5", "", "nan", "inf", "1e400", "x", '"', "1,5", "1;2", "\x00", "ä", "\r", "1e160"]
    )
    row = st.lists(cell, max_size=6).map(",".join)
    drawn = st.lists(row, max_size=12).map("\n".join)
    name = st.sampled_from(
        ["a", "b", "", "time", "t [s]", "day", "arm", "reward", "p", "((", " ", "1", "2024-01-01"]
    )
    separator = st.sampled_from([",", ";", "\t", " ", "1", "-"])

    @st.composite
    def headed(draw: Any) -> str:
        """A header, and rows of numbers that are as long as it, or nearly."""
        names, by = draw(st.lists(name, max_size=6)), draw(separator)
        rows = draw(st.lists(st.integers(-1, 2), max_size=8))
        lines = [names, *([f"{(7 * t) % 5 / 4}"] * len(names) for t in rows)]
        return draw(st.sampled_from(["", f"sep={by}\n"])) + "\n".join(map(by.join, lines))

    def play(case: Any) -> None:
        text, damage, index = case
        path = folder / "damaged.csv"
        path.write_bytes(damaged(text.encode(), damage))
        judged(lambda: read_log(path).table())
        judged(lambda: Replay(path, index=index))
        replay = Replay(path)
        assert replay.rounds > 0, "a table without rounds"

    return Target(st.tuples(st.just(TABLE) | drawn | headed(), st.just([]) | damages, name), play)


def arrow_tables(folder: Path, seed: int) -> Target:
    """Parquet and Feather files, as tables and as logs."""
    import pyarrow
    from pyarrow import feather, parquet

    days = pyarrow.array(range(40), pyarrow.int32()).cast(pyarrow.date32())
    words, gaps = [["left", "right"][t % 2] for t in range(40)], [None, 1.5] * 20
    table = pyarrow.table({"day": days, "a": gaps, "b": range(40), "arm": words, "p": [0.5] * 40})
    sound = []
    for compression in ("snappy", "none", "zstd"):
        parquet.write_table(table, content := io.BytesIO(), compression=compression)
        sound.append(content.getvalue())
    for compression in ("uncompressed", "zstd", "lz4"):
        feather.write_feather(table, content := io.BytesIO(), compression=compression)
        sound.append(content.getvalue())
    odd = (
        pyarrow.bool_(), pyarrow.null(), pyarrow.string(), pyarrow.decimal128(20, 2), pyarrow.float64(),
        pyarrow.timestamp("us", "Nowhere/Else"), pyarrow.list_(pyarrow.float64()),
    )  # fmt: skip
    for rows, kind in enumerate(odd):  # with few rows or none, and without a name
        column = pyarrow.nulls(rows % 3, kind)
        parquet.write_table(pyarrow.table([column] * 3, ["day", "", "b"]), content := io.BytesIO())
        sound.append(content.getvalue())

    def play(case: Any) -> None:
        content, damage = case
        path = folder / "damaged.table"
        path.write_bytes(damaged(content, damage))
        judged(lambda: Replay(path))
        judged(lambda: Replay(path, columns=["a", "b"], index="day"))
        judged(lambda: read_log(path, arm="arm", reward="b", propensity="p"))

    return Target(st.tuples(st.sampled_from(sound), damages), play)


def commands(folder: Path, seed: int) -> Target:
    """The command line, in a folder with files of every kind."""
    run_study(parse_study(STUDY), folder / "store", jobs=1)
    contents = {
        "study.toml": STUDY,
        "system.toml": SYSTEM,
        "table.csv": TABLE,
        "binary": "\udcff\x00",
        "empty": "",
    }
    for name, text in contents.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    os.chdir(folder)
    things = st.sampled_from([*contents, "store", "nothing", ".", "", "/dev/null", "-", "--", "study.toml/x"])
    verbs = st.sampled_from(
        ["run", "report", "check", "list", "backtest", "fit", "plan", "merge", "", "-h", "--version", "rnu"]
    )
    words = ["1", "0", "-1", "x", "", "2", "1e3", "nan", "UCB", "UCB,,x", "a,b", ";", "rotation", "theta=1"]
    words += ["1/2", "2/1", "moments", "time,a,b", "9" * 30, "time", "theta=9**9**9", "\x1b[31m", "local:0"]
    values = st.sampled_from(words)
    options = [
        "--out",
        "--seed",
        "--family",
        "--set",
        "--columns",
        "--delimiter",
        "--policies",
        "--dimensions",
    ]
    options += ["--fresh", "--quick", "--import", "--backend", "--nonsense", "--runs", "--jobs", "--keep"]
    options += ["--shard", "--first-run", "--index", "--drop", "--log", "--available", "--minimize", "--fit"]
    pair = st.tuples(st.sampled_from(options), values | things).map(list)
    arguments = st.tuples(verbs, st.lists(things, max_size=2), st.lists(pair, max_size=3))

    def play(case: Any) -> None:
        verb, positional, pairs = case
        flags = [part for pair in pairs for part in pair]
        said = io.StringIO()
        quiet = contextlib.redirect_stderr(said), contextlib.redirect_stdout(said)
        with quiet[0], quiet[1], contextlib.suppress(SystemExit):
            cli.answer([verb, *positional, *flags])
        assert "Traceback" not in said.getvalue(), said.getvalue()[-500:]

    return Target(arguments, play)


def judged(call: Callable[[], object]) -> None:
    """Make a call whose clear errors are none, so that the next call of the same case is made too."""
    from child import is_clear

    try:
        call()
    except Exception as error:
        if not is_clear(error):
            raise


TARGETS: dict[str, Callable[[Path, int], Target]] = {
    "save files": save_files,
    "journals": journals,
    "stores": stores,
    "documents": documents,
    "tables": tables,
    "arrow tables": arrow_tables,
    "commands": commands,
}
