"""Pictures for a notebook: what they show is what the numbers say."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import kalmanbandits as kb
from kalmanbandits.backtesting import backtest
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import UCB, Random
from kalmanbandits.systems import Replay, rotation


def drawn(figure: Figure) -> bool:
    """Whether it can be drawn, with every text in it."""
    file = BytesIO()
    figure.savefig(file)
    return file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("per_round", [True, False])
def test_regret(per_round: bool) -> None:
    policies = {"UCB $x": UCB(arms=2), "Random": Random(arms=2)}
    result = kb.simulate(rotation(theta=1.0), policies, rounds=100, runs=4, checkpoints=5)
    figure = kb.plot.regret(result, per_round=per_round)
    (axes,) = figure.axes
    for line, name in zip(axes.lines, policies, strict=True):
        truth = result.regret.sel(policy=name).mean("run").values
        np.testing.assert_allclose(line.get_ydata(), truth / result.checkpoint.values if per_round else truth)
    assert drawn(figure)
    assert drawn(kb.plot.regret(kb.simulate(rotation(theta=1.0), {"UCB": UCB(arms=2)}, rounds=20)))


class Kept:
    """A history that gives its columns by name, as that of an agent does."""

    def __getitem__(self, key: str) -> np.ndarray:
        return np.array(HISTORY[key])


HISTORY = {"round": [1, 2, 3, 4], "arm": [0, 2, 2, 0]}


@pytest.mark.parametrize(
    "source",
    [
        HISTORY,
        pd.DataFrame(HISTORY),
        np.array([0, 2, 2, 0]),
        [0, 2, 2, 0],
        SimpleNamespace(**{key: np.array(cells) for key, cells in HISTORY.items()}),
        SimpleNamespace(history=pd.DataFrame(HISTORY)),
        SimpleNamespace(history=lambda: HISTORY),
        SimpleNamespace(history=Kept()),
        np.array(list(zip(*HISTORY.values(), strict=True)), [("round", "i8"), ("arm", "i8")]),
    ],
    ids=["dict", "frame", "array", "list", "attributes", "agent", "method", "history", "records"],
)
def test_choices(source: object) -> None:
    figure = kb.plot.choices(source, names=["north", "$east", "south"])
    (axes,) = figure.axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]])
    assert drawn(figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["north", r"\$east", "south"]


def test_choices_of_arms_by_name_and_of_an_agents_arms() -> None:
    (axes,) = kb.plot.choices({"arm": ["b", "a", "b"]}).axes
    np.testing.assert_array_equal(axes.images[0].get_array(), [[0, 1, 0], [1, 0, 1]])
    agent = SimpleNamespace(policy=UCB(arms=4), history=HISTORY)
    assert kb.plot.choices(agent).axes[0].images[0].get_array().shape == (4, 4)
    assert drawn(kb.plot.choices(np.arange(60) % 40))  # more arms than names have room
    assert drawn(kb.plot.choices([1]))


def test_backtest() -> None:
    days = pd.date_range("2024-01-01", periods=200)
    table = pd.DataFrame(
        np.random.default_rng(0).standard_normal((200, 3)), index=days, columns=["a", "$b", "c" * 40]
    )
    table.iloc[50:80, 1] = np.nan
    result = backtest(Replay(table), {"UCB": UCB(arms=3), "Random": Random(arms=3)}, runs=2)
    figure = kb.plot.backtest(result, "with $ and _")
    assert len(figure.axes) == 5
    assert drawn(figure)
    (gain,) = (line for line in figure.axes[1].lines if line.get_linewidth() == 3.0)
    best = result.order[0]
    assert gain.get_ydata()[-1] == pytest.approx(200 * result.lead.value[best])
    assert drawn(kb.plot.backtest(backtest(Replay(table, minimize=True), {"Random": Random(arms=3)}, runs=1)))


def test_refusals() -> None:
    with pytest.raises(InvalidType, match="result must be a dataset of simulate"):
        kb.plot.regret({"UCB": 1})  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="result must be of type Backtest"):
        kb.plot.backtest(3)  # type: ignore[arg-type]
    for source in (3, {"round": [1]}, {"arm": [0.5]}, [[1, 2]], None):
        with pytest.raises(InvalidType, match="source must have a column `arm`"):
            kb.plot.choices(source)
    with pytest.raises(InvalidArgument, match="at least one choice"):
        kb.plot.choices(np.array([], np.int64))
    with pytest.raises(InvalidArgument, match="one for each of 2 arms, got 1"):
        kb.plot.choices([0, 1], names=["a"])
    with pytest.raises(InvalidArgument, match="of one length, got 1 and 2"):
        kb.plot.choices({"round": [1], "arm": [0, 1]})
    with pytest.raises(InvalidArgument, match="every arm must be at least 0, got -1"):
        kb.plot.choices([0, -1])


def test_a_dataset_says_what_it_holds() -> None:
    result = kb.simulate(Replay([[1.0, 2.0]] * 20), {"UCB": UCB(arms=2)}, trace=True)
    assert all(variable.attrs["long_name"] for name, variable in result.data_vars.items())
    assert result.column.values.tolist() == ["column 1", "column 2"]
    assert "regret" in result._repr_html_()


BAD_NAMES = (7, "ab", [1.0, 2.0], [b"a", b"b"], range(10**12), np.array(None))


@pytest.mark.parametrize("names", BAD_NAMES, ids=repr)
def test_names_that_are_none_are_refused(names):
    """They ended in errors of Python's, a range of any length in one of memory."""
    with pytest.raises(InvalidType, match="names must be a list of names, got"):
        kb.plot.choices([0, 1, 1], names=names)
    with pytest.raises(InvalidArgument, match="names must hold at most 10000, got 10001"):
        kb.plot.choices([0, 1, 1], names=[str(n) for n in range(10_001)])
