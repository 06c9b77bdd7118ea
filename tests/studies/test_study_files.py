"""A study's TOML: what it means, and how it is told that it is wrong, where."""

from __future__ import annotations

import contextlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UBSS, UCB, KalmanGreedy
from kalmanbandits.simulation import Clairvoyant
from kalmanbandits.studies import Changes, StudyError, library_study, load_study, parse_study
from kalmanbandits.studies.document.arithmetic import calculate
from kalmanbandits.studies.document.grids import thinned
from kalmanbandits.studies.document.lines import key_lines
from kalmanbandits.studies.document.spec import KEYS
from kalmanbandits.systems import autoregressive, random_walk, rotation
from study_worlds import TEXT, small_study

HEAD = "rounds = 100\nruns = 2\n"
SYSTEM = "[[systems]]\nfamily = 'rotation'\ntheta = 1.0\n"
POLICY = "[[policies]]\npolicy = 'UCB'\n"
ROOT = Path(__file__).resolve().parents[2]


def test_what_is_written_is_what_is_played() -> None:
    study = small_study()
    assert (study.name, study.title, study.rounds, study.runs, study.seed) == ("small", "", 200, 7, 3)
    assert study.checkpoints == (10, 100, 200)
    assert study.measures == ("regret", "pulls")
    assert [cell.index for cell in study.cells] == [0, 1, 2]
    assert [cell.parameters["theta"] for cell in study.cells] == [0.0, math.pi / 2, math.pi]
    assert study.cells[1].system == rotation(theta=math.pi / 2)
    assert study.cells[1].policies["UCB"] == UCB(arms=2)
    assert study.report == {}


def test_what_is_left_out_has_a_default() -> None:
    study = parse_study(HEAD + SYSTEM + POLICY, name="mine.toml")
    assert (study.name, study.seed, study.measures) == ("mine", 0, ("regret",))
    assert study.checkpoints == tuple(range(5, 101, 5))
    assert study.cells[0].group == "rotation"
    assert study.cells[0].parameters == {}


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("[0.5, 'pi/2', 2]", [0.5, math.pi / 2, 2]),
        ("{values = [1, 2]}", [1, 2]),
        ("{from = 0, to = 1, count = 5}", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("{from = 1, to = 1, count = 1}", [1]),
        ("{from = '-pi', to = 'pi', count = 3}", [-math.pi, 0.0, math.pi]),
        ("{from = 1, to = 10, step = 3}", [1, 4, 7, 10]),
        ("{from = 1, to = 11, step = 3}", [1, 4, 7, 10]),
        ("{from = 0, to = 0.3, step = 0.1}", [0.0, 0.1, 0.2, 0.1 * 3]),
        ("{from = 2, to = 0, step = -1}", [2, 1, 0]),
        ("{from = 0, to = '2*pi', count = 65}", np.linspace(0, 2 * np.pi, 65).tolist()),
    ],
)
def test_grids(written: str, values: list[float]) -> None:
    study = parse_study(HEAD + SYSTEM.replace("1.0", written) + POLICY)
    found = [cell.parameters["theta"] for cell in study.cells]
    assert found == pytest.approx(values, rel=1e-15, abs=1e-15)
    assert found[-1] == values[-1]
    assert [cell.system for cell in study.cells] == [rotation(theta=theta) for theta in found]


def test_several_grids_make_their_product_the_first_one_slowest() -> None:
    study = parse_study(HEAD + SYSTEM.replace("1.0", "[1, 2]\nscale = [3.0, 4.0]") + POLICY)
    pairs = [(cell.parameters["theta"], cell.parameters["scale"]) for cell in study.cells]
    assert pairs == [(1, 3.0), (1, 4.0), (2, 3.0), (2, 4.0)]


def test_a_list_is_one_value_where_the_parameter_takes_lists() -> None:
    arms = "[[systems]]\nfamily = 'autoregressive'\ncoefficients = {}\n"
    study = parse_study(HEAD + arms.format("[['1/2'], [0.25]]") + POLICY)
    assert [cell.system for cell in study.cells] == [autoregressive([[0.5], [0.25]])]
    study = parse_study(HEAD + arms.format("{values = [[[0.5]], [[0.25], [0.1]]]}") + POLICY)
    assert [cell.system.arms for cell in study.cells] == [1, 2]


def test_matrices_and_files(tmp_path: Path) -> None:
    (tmp_path / "walk.toml").write_text("family = 'random_walk'\narms = 2\nstep_variance = '1/4'\n")
    text = HEAD + POLICY + "[[systems]]\nname = 'walk'\nfile = 'walk.toml'\n[[systems]]\n"
    text += (
        "transition = [[0.5]]\nactions = [[1], ['2*pi']]\nprocess_noise = [[1]]\nnoise_variance = [1, 2]\n"
    )
    (tmp_path / "study.toml").write_text(text)
    study = load_study(tmp_path / "study.toml")
    assert study.groups == ["walk", "system"]
    assert study.cells[0].system == random_walk(arms=2, step_variance=0.25)
    assert study.cells[1].system.actions.tolist() == [[1.0], [2 * math.pi]]
    assert [cell.system.noise_variance for cell in study.cells[1:]] == [1.0, 2.0]
    (tmp_path / "walk.toml").unlink()
    assert parse_study(text, files=study.files).hash() == study.hash()


def test_policies_take_arms_and_system_from_the_cell() -> None:
    text = HEAD + SYSTEM.replace("1.0", "[1.0, 2.0]") + POLICY
    for name in ("KalmanGreedy", "Clairvoyant"):
        text += f"[[policies]]\npolicy = '{name}'\n"
    text += "[[policies]]\npolicy = 'UBSS'\nconstants = 'as_printed'\nwindow = [1, 2]\ndelta = 0.2\n"
    cells = parse_study(text).cells
    assert len(cells) == 2
    for cell in cells:
        assert list(cell.policies) == [
            "UCB",
            "KalmanGreedy",
            "Clairvoyant",
            "UBSS as printed window=1",
            "UBSS as printed window=2",
        ]
        assert cell.policies["KalmanGreedy"] == KalmanGreedy(cell.system)
        assert cell.policies["Clairvoyant"] == Clairvoyant(cell.system)
        printed = UBSS.as_printed(cell.system, window=2, delta=0.2)
        assert cell.policies["UBSS as printed window=2"] == printed


def test_labels_and_restrictions() -> None:
    systems = SYSTEM + SYSTEM.replace("[[systems]]", "[[systems]]\nname = 'other'")
    text = HEAD + systems + POLICY + "systems = ['other']\nscale = ['pi', 2]\nlabel = 'U {scale}'\n"
    cells = parse_study(text + POLICY + "label = 'plain'\nscale = [1.0, 2.0]\n").cells
    assert list(cells[0].policies) == ["plain scale=1", "plain scale=2"]
    assert list(cells[1].policies) == ["U 3.14159", "U 2", "plain scale=1", "plain scale=2"]


def test_quick_makes_less_of_everything_and_keeps_the_ends() -> None:
    text = TEXT.replace("count = 3", "count = 65").replace("rounds = 200", "rounds = 20_000")
    text = text.replace("runs = 7", "runs = 70").replace("[10, 100]", "[10, 15_000]")
    study = parse_study(text, Changes(quick=True))
    assert (study.rounds, study.runs, len(study.cells)) == (10_000, 10, 17)
    assert study.checkpoints == (10, 10_000)
    assert [study.cells[i].parameters["theta"] for i in (0, 8, 16)] == [0.0, math.pi / 2, math.pi]
    assert parse_study(text, Changes(quick=True, runs=12, seed=9)).runs == 12
    two = text.replace("count = 65}", "count = 65}\nscale = {values = [1, 2, 3, 4, 5, 6, 7]}")
    cells = parse_study(two, Changes(quick=True)).cells
    assert [cell.parameters["scale"] for cell in cells[:4]] == [1, 3, 5, 7]
    assert len(cells) == 16


def test_counts_are_set_by_name() -> None:
    assert len(parse_study(TEXT, Changes(counts={"theta": 5})).cells) == 5
    with pytest.raises(StudyError, match="has no grid omega"):
        parse_study(TEXT, Changes(counts={"omega": 5}))
    with pytest.raises(InvalidArgument, match="the count of theta must be at least 1"):
        parse_study(TEXT, Changes(counts={"theta": 0}))


@given(st.lists(st.integers(), min_size=1, max_size=60), st.integers(1, 20))
def test_thinning_keeps_order_and_ends(points: list[int], at_most: int) -> None:
    places = thinned(list(range(len(points))), at_most)
    assert len(places) == min(len(points), at_most) == len(set(places))
    assert places == sorted(places)
    assert places[0] == 0
    assert at_most == 1 or places[-1] == len(points) - 1


@pytest.mark.parametrize("path", sorted([*ROOT.glob("studies/*.toml"), library_study("paper")]))
def test_the_studies_that_come_along_can_be_read(path: Path) -> None:
    study = load_study(path)
    assert study.title
    assert len(load_study(path, Changes(quick=True)).cells) <= len(study.cells)


# Each text is wrong on the line that ends in "# here".
WRONG = [
    ("rouns = 100 # here\n", ["'rouns' is not a key of a study", "did you mean 'rounds'?", "got 100"]),
    ("rounds = 0 # here\nruns = 2\n" + SYSTEM + POLICY, ["rounds must be at least 1, got 0"]),
    ("# here\nruns = 2\n" + SYSTEM + POLICY, ["a study needs 'rounds'"]),
    (HEAD + "seed = -1 # here\n", ["seed must be at least 0, got -1"]),
    (HEAD + "seed = 99999999999999999999 # here\n", ["seed must be below", "got 99999999999999999999"]),
    (HEAD + "checkpoints = [5, 3] # here\n", ["checkpoints must rise"]),
    (HEAD + "checkpoints = 'all' # here\n", ["checkpoints must be a number or a list of rounds, got 'all'"]),
    (HEAD + "measures = ['regrets'] # here\n", ["got 'regrets'", "did you mean 'regret'?"]),
    (HEAD + "measures = ['regret', 'regret'] # here\n", ["each once"]),
    (HEAD + "title = 3 # here\n", ["title must be text, got 3"]),
    (HEAD + "report = 3 # here\n", ["report must be a table [report], got 3"]),
    (HEAD + "systems = 3 # here\n" + POLICY, ["systems must be tables [[systems]], got 3"]),
    (HEAD + SYSTEM + "policies = 4 # here\n" + POLICY, ["'policies' is not a key of the family 'rotation'"]),
    (HEAD + "[[systems]] # here\nfamily = 'rotation'\n" + POLICY, ["'rotation' needs 'theta', got -"]),
    (HEAD + "[[systems]]\nfamily = 'rotaton' # here\n" + POLICY, ["'rotaton'", "did you mean 'rotation'?"]),
    (HEAD + SYSTEM + "thta = 2 # here\n" + POLICY, ["'thta' is not a key", "did you mean 'theta'?", "got 2"]),
    (HEAD + SYSTEM + "damping = 2 # here\n" + POLICY, ["damping must lie strictly between 0 and 1, got 2.0"]),
    (HEAD + SYSTEM + "damping = [ # here\n0.5, 2]\n" + POLICY, ["damping must lie", "got 2.0"]),
    (HEAD + SYSTEM + "scale = '5*e' # here\n" + POLICY, ["scale must be numbers, pi", "got 'e', got '5*e'"]),
    (HEAD + SYSTEM + "scale = [] # here\n" + POLICY, ["scale must hold at least one value, got []"]),
    (HEAD + SYSTEM + "scale = {form = 1, to = 2} # here\n" + POLICY, ["'form'", "did you mean 'from'?"]),
    (HEAD + SYSTEM + "scale = {from = 1, to = 2} # here\n" + POLICY, ["or {from, to, step}"]),
    (HEAD + SYSTEM + "scale = {from = 1, to = 2, step = 0} # here\n" + POLICY, ["step must lead from 1"]),
    (HEAD + SYSTEM + "scale = {from = 1, to = 2, count = 0} # here\n" + POLICY, ["count must be an int"]),
    (HEAD + SYSTEM + "scale = {from = nan, to = 2, count = 3} # here\n" + POLICY, ["from must be a finite"]),
    (HEAD + SYSTEM + "name = 'a/b' # here\n" + POLICY, ["name must be letters", "'a/b'"]),
    (HEAD + SYSTEM + SYSTEM.replace("[[systems]]", "[[systems]] # here") + POLICY, ["got 'rotation' twice"]),
    (HEAD + "[[systems]]\nfile = 'x.toml'\nfamily = 'a' # here\n" + POLICY, ["'family' must be left out"]),
    (HEAD + "[[systems]]\nfile = 'none.toml' # here\n" + POLICY, ["'none.toml' (no such file)"]),
    (HEAD + "[[systems]]\ntransitions = [[1]] # here\n" + POLICY, ["did you mean 'transition'?"]),
    (HEAD + SYSTEM + "[[policies]]\npolicy = 'UBS' # here\n", ["got 'UBS'", "did you mean 'UBSS'?"]),
    (HEAD + SYSTEM + "[[policies]] # here\nlabel = 'x'\n", ["needs the key 'policy'"]),
    (HEAD + SYSTEM + POLICY + "scal = 2 # here\n", ["'scal' is not a key of UCB", "did you mean 'scale'?"]),
    (HEAD + SYSTEM + POLICY + "scale = -2 # here\n", ["scale must be", "-2", "(on the system 'rotation')"]),
    (HEAD + SYSTEM + POLICY + "arms = 2 # here\n", ["'arms' must be left out: it comes from the system"]),
    (HEAD + SYSTEM + POLICY + "constants = 'as_printed' # here\n", ["for UBSS, got 'as_printed' for UCB"]),
    (HEAD + SYSTEM + POLICY + "systems = ['rotations'] # here\n", ["did you mean 'rotation'?"]),
    (HEAD + SYSTEM + POLICY + "label = 'U {widow}' # here\n", ["'{widow}'", "no parameter given"]),
    (HEAD + SYSTEM + POLICY + "[[policies]] # here\npolicy = 'UCB'\n", ["got 'UCB' twice"]),
    (
        HEAD + SYSTEM + SYSTEM.replace("[[systems]]", "[[systems]] # here\nname = 'b'")
        + POLICY + "systems = ['rotation']\n",
        ["no policy plays on the system 'b'"],
    ),
    (HEAD + "[[systems] # here\n", ["is not TOML", "line 3"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), WRONG)
def test_errors_name_the_line_the_key_the_value_and_the_nearest_name(text: str, parts: list[str]) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text, name="mine.toml")
    for part in parts:
        assert part in str(caught.value)
    assert str(caught.value).startswith("mine.toml")
    (here,) = (i for i, line in enumerate(text.split("\n"), 1) if "# here" in line)
    assert re.search(r"\bline (\d+)", str(caught.value))[1] == str(here)  # type: ignore[index]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"none\.toml cannot be read"):
        load_study(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match=r"bytes\.toml cannot be read"):
        load_study(tmp_path / "bytes.toml")
    with pytest.raises(StudyError, match=r"study must be a TOML file or one of .*did you mean 'paper'"):
        library_study("papr")


def test_an_error_in_a_system_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "system.toml").write_text("family = 'rotation'\nthet = 1\n")
    (tmp_path / "study.toml").write_text(HEAD + POLICY + "[[systems]]\nfile = 'system.toml'\n")
    with pytest.raises(StudyError, match=r"^system\.toml, line 2: 'thet' is not a key"):
        load_study(tmp_path / "study.toml")
    (tmp_path / "system.toml").write_text("family = 'rotation'\ntheta = [1, 2]\n")
    with pytest.raises(StudyError, match="line 2: theta must have one value here, got a grid of 2"):
        load_study(tmp_path / "study.toml")


def test_lines_are_found_in_any_toml() -> None:
    text = (
        '''# a remark with [[systems]]
a = """
b = 1
[[systems]] """" # ends with a quote of its own
"quoted \\" key" = { x = 1,
  y = [ "]", 2 ] }
[table."in.side"]
c.d = '''
        + "'''\nno = 1\n'''"
        + """
[[systems]]
e = [
  # not = 1
  1,
]\r
[systems.grid]
from = 0
[[systems]]
  e = \'a"b\'
[[systems.inner]]
f = 1
"""
    )
    lines = key_lines(text)
    places = {
        ("a",): 2,
        ('quoted " key',): 5,
        ("table", "in.side"): 7,
        ("table", "in.side", "c", "d"): 8,
        ("systems", 0): 11,
        ("systems", 0, "e"): 12,
        ("systems", 0, "grid", "from"): 17,
        ("systems", 1): 18,
        ("systems", 1, "e"): 19,
        ("systems", 1, "inner", 0, "f"): 21,
    }
    assert {path: lines.get(path) for path in places} == places
    assert not any("no" in path or "b" in path or "not" in path for path in lines)


@given(st.recursive(
    st.sampled_from(["1", "2.5", ".5", "3e2", "7", "pi"]),
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from("+-*/"), parts).map(" ".join),
        parts.map("({})".format),
        parts.map("-{}".format),
    ),
    max_leaves=8,
))  # fmt: skip
def test_arithmetic_is_pythons(text: str) -> None:
    try:
        truth = eval(text, {"pi": math.pi})
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="a finite number"):
            calculate(text)
    else:
        assert calculate(text) == truth
        assert type(calculate(text)) is type(truth)


@given(st.text(alphabet="0123456789.e+-*/() pi_[]x", max_size=30))
@example("(" * 200)
@example("1e999")
@example("9" * 150 + "*1.5e308")
def test_arithmetic_fails_in_words(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert math.isfinite(calculate(text))


ODD = st.one_of(
    st.integers(-3, 6),
    st.sampled_from([10**20, -(10**20), 0.5, 1e308, -1e-300, math.nan, math.inf]),
    st.sampled_from(["", "pi", "1/0", "UCB", "rotation", "as_printed", "{}", "{scale", "angles", "ü"]),
    st.booleans(),
    st.dates(),
    st.lists(st.one_of(st.integers(-2, 3), st.floats(-2, 2), st.just("pi")), max_size=3),
    st.dictionaries(st.sampled_from(["from", "to", "count", "step", "values", "x"]), st.integers(-2, 4)),
    st.just([[1.0, 0.0], [0.0, 1.0]]),
)
NAMES = [*KEYS]
NAMES += [
    "family",
    "theta",
    "scale",
    "damping",
    "arms",
    "dimension",
    "file",
    "transition",
    "actions",
    "label",
]
NAMES += [
    "process_noise",
    "noise_variance",
    "policy",
    "constants",
    "window",
    "bonus",
    "delta_e",
    "unknown key",
]
NAMES += ["coefficients", "periods", "system"]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_document_ends_in_another_error(data: st.DataObject) -> None:
    families = st.sampled_from(["rotation", "random_walk", "random_stable", "seasonal", "autoregressive"])
    policies = st.sampled_from(["UCB", "UBSS", "Random", "KalmanGreedy", "SlidingWindowUCB", "Clairvoyant"])
    system = (
        {"family": data.draw(families)} if data.draw(st.booleans()) else {"family": "rotation", "theta": 1}
    )
    policy = {"policy": data.draw(policies)}
    document = {"rounds": 10, "runs": 2, "systems": [system], "policies": [policy]}
    for _ in range(data.draw(st.integers(0, 3))):
        table: dict[str, Any] = data.draw(st.sampled_from([document, system, policy]))
        table[data.draw(st.sampled_from(NAMES))] = data.draw(ODD)
    fails_in_words(tomli_w.dumps(document), data.draw(st.booleans()))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(TEXT)), st.integers(0, 8), st.text(alphabet="[]{}=\"'#\n.,a1 -", max_size=4))
def test_no_text_ends_in_another_error(place: int, cut: int, more: str) -> None:
    fails_in_words(TEXT[:place] + more + TEXT[place + cut :], quick=False)


def fails_in_words(text: str, quick: bool) -> None:
    """A study, or a `StudyError` with a line."""
    try:
        study = parse_study(text, Changes(quick=quick))
    except StudyError as error:
        message = str(error)
    else:
        message = "study, line"
        assert study.cells
        assert len(study.hash()) == 64
    assert message.startswith(("study, line", "study is not TOML"))
