"""Nothing that comes later changes what was done before; live agents do what the backtest says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from backtest_worlds import Stubborn
from hypothesis import given, settings
from hypothesis import strategies as st

from every_policy import EVERY_POLICY
from kalmanbandits.agent import Agent
from kalmanbandits.backtesting import Backtest, backtest, line_up, train, training
from kalmanbandits.backtesting.training import Trained
from kalmanbandits.identification.table_fit import fit_table
from kalmanbandits.policies import POLICIES, UBSS, Policy
from kalmanbandits.systems import LinearGaussianSystem, Replay

ROWS, ARMS = 70, 3


@pytest.fixture(scope="module", autouse=True)
def _one_dimension() -> Iterator[None]:
    """Fitted systems have one state beside the levels: every other size is compiled for anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "fit_table", partial(fit_table, dimensions=1))
        yield


NAMES = [*POLICIES, Stubborn.__name__]  # one of one's own too, and none that other tests have defined


def lined_up(replay: Replay, system: LinearGaussianSystem | None) -> dict[str, Policy]:
    """What a backtest plays by default, with windows and openings that end within the rows."""
    short = {type(policy).__name__: policy for policy in EVERY_POLICY if not hasattr(policy, "system")}
    usual = line_up(replay, NAMES, system).policies
    return {name: short.get(name, policy) for name, policy in usual.items()}


def drawn(seed: int, level: float, unit: float, gaps: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.sin(np.arange(ROWS)[:, None] / 5 + np.arange(ARMS)) + 0.3 * rng.standard_normal((ROWS, ARMS))
    if gaps:
        values[rng.random(values.shape) < 0.1] = np.nan
        for a in range(ARMS):
            start = int(rng.integers(0, ROWS))
            values[start : start + int(rng.integers(5, 30)), a] = np.nan
        values[rng.integers(0, 20), :] = rng.standard_normal(ARMS)
    return level + unit * values


def mask_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    mask = rng.random((ROWS, ARMS)) < 0.7
    mask[~mask.any(axis=1), 0] = True
    return mask


def changed(
    values: np.ndarray, mask: np.ndarray | None, t: int, seed: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """The same table with other rows from t on: other values, another level, other gaps, another mask."""
    other, rng = values.copy(), np.random.default_rng([seed, 2])
    other[t:] = 50 * rng.standard_normal((ROWS - t, ARMS)) - 7
    other[t:][rng.random((ROWS - t, ARMS)) < 0.4] = np.nan
    if mask is None:
        return other, None
    later = mask.copy()
    later[t:] = mask_of(seed + 1000)[t:]
    return other, later


def played(
    values: np.ndarray, mask: np.ndarray | None, fit: bool, minimize: bool, begun: Trained | None = None
) -> Backtest:
    replay = Replay(values, available=mask, minimize=minimize)
    trained = begun or (train(replay) if fit else None)
    policies = lined_up(replay, None if trained is None else trained.system)
    return backtest(replay, policies, runs=1, seed=3, fitted=0 if trained is None else trained.rows)


def check_causality(
    seed: int, t: int, level: float, unit: float, gaps: bool, masked: bool, fit: bool, minimize: bool
) -> None:
    values, mask = drawn(seed, level, unit, gaps), mask_of(seed) if masked else None
    other = changed(values, mask, t, seed)
    if np.isnan(other[0]).all(axis=0).any() or np.isnan(values[: ROWS // 2]).all(axis=0).any():
        return
    before, after = played(values, mask, fit, minimize), played(*other, fit, minimize)
    if fit and t < before.fitted:
        return  # nothing is played before the fit is made
    last = t - before.fitted  # the choice in row t itself depends on the rows before t alone
    if mask is not None:
        last -= 1  # but for the mask of that row, which may be another
    for name, one, two in zip(before.names, before.choices, after.choices, strict=True):
        np.testing.assert_array_equal(one[: last + 1], two[: last + 1], err_msg=name)
    assert set(before.names) == set(after.names)


def check_truncation(
    seed: int, t: int, level: float, unit: float, gaps: bool, masked: bool, fit: bool, minimize: bool
) -> None:
    values, mask = drawn(seed, level, unit, gaps), mask_of(seed) if masked else None
    if np.isnan(values[:t]).all(axis=0).any() or np.isnan(values[: ROWS // 2]).all(axis=0).any():
        return
    begun = train(Replay(values, available=mask, minimize=minimize)) if fit else None
    whole = played(values, mask, fit, minimize, begun)
    first = played(values[:t], None if mask is None else mask[:t], fit, minimize, begun)
    assert first.names == whole.names
    np.testing.assert_array_equal(first.choices, whole.choices[:, : t - whole.fitted])
    np.testing.assert_array_equal(first.earned, whole.earned[:, : t - whole.fitted])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    t=st.integers(1, ROWS - 1),
    level=st.sampled_from([0.0, 100.0, -1e6]),
    unit=st.sampled_from([1.0, 1e-9, 1e6]),
    gaps=st.booleans(),
    masked=st.booleans(),
    minimize=st.booleans(),
)
def test_later_rows_change_nothing_before_them(
    seed: int, t: int, level: float, unit: float, gaps: bool, masked: bool, minimize: bool
) -> None:
    check_causality(seed, t, level, unit, gaps, masked, False, minimize)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    t=st.integers(12, ROWS - 1),
    level=st.sampled_from([0.0, -1e6]),
    unit=st.sampled_from([1.0, 1e6]),
    gaps=st.booleans(),
    masked=st.booleans(),
    minimize=st.booleans(),
)
def test_the_first_rows_alone_are_played_as_they_are_in_the_whole_table(
    seed: int, t: int, level: float, unit: float, gaps: bool, masked: bool, minimize: bool
) -> None:
    check_truncation(seed, t, level, unit, gaps, masked, False, minimize)


def test_so_they_are_by_policies_that_know_a_system() -> None:
    check_truncation(5, 60, 10.0, 1.0, True, True, True, True)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), t=st.integers(ROWS // 2, ROWS - 1), gaps=st.booleans())
def test_nor_with_a_fit(seed: int, t: int, gaps: bool) -> None:
    check_causality(seed, t, 10.0, 1.0, gaps, False, True, False)


def test_the_fit_sees_no_row_that_is_judged() -> None:
    values = drawn(0, 5.0, 1.0, False)
    one, two = train(Replay(values)), train(Replay(changed(values, None, ROWS // 2, 0)[0]))
    assert one.rows == two.rows == ROWS // 2
    assert one.system == two.system


def odd(kind: str) -> np.ndarray:
    """A table such as people have, in which every column has a reward among the rows that are fitted."""
    values, rng = drawn(7, 0.0, 2.0, kind == "gaps"), np.random.default_rng(8)
    if kind == "late":
        values[: ROWS // 3, 2] = np.nan
    elif kind == "offset":
        values = 1e5 + 1e-3 * values
    elif kind == "binary":
        values = (rng.random(values.shape) < 0.5 + 0.2 * values).astype(np.float64)
    elif kind == "trend":
        values += np.arange(ROWS)[:, None] * np.array([0.1, -0.1, 0.0])
    return values


@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("kind", ["plain", "gaps", "masked", "late", "offset", "binary", "trend", "costs"])
def test_an_agent_makes_the_choices_of_the_backtest(kind: str, fit: bool) -> None:
    """Every policy, arm for arm, given the rewards of the table as they are, by hand or as a warm start."""
    values, mask, minimize = odd(kind), mask_of(7) if kind == "masked" else None, kind == "costs"
    replay = Replay(values, available=mask, minimize=minimize)
    trained = train(replay)
    policies = lined_up(replay, trained.system)
    result = backtest(replay, policies, runs=1, seed=4, fitted=trained.rows if fit else 0)
    sign = -1.0 if minimize else 1.0
    for p, (name, policy) in enumerate(policies.items()):
        agent, arms, predictions = Agent(policy, seed=4, minimize=minimize), [], []
        for t, row in enumerate(values):
            arm = agent.select(available=np.flatnonzero(~replay.off[t]))
            arms.append(arm)
            predictions.append(agent._play.scores[arm, 0])  # as it chose
            if np.isnan(row[arm]):
                agent.skip()
            else:
                agent.update(arm, float(row[arm]))
            filled = np.nanmean(row) if np.isnan(row[arm]) and not np.isnan(row).all() else row[arm]
            if t >= result.fitted:
                earned = 0.0 if np.isnan(filled) else sign * filled
                assert result.earned[p, t - result.fitted] == pytest.approx(earned, rel=1e-12)
        np.testing.assert_array_equal(arms[result.fitted :], result.choices[p], err_msg=name)
        np.testing.assert_array_equal(predictions[result.fitted :], result.predictions[p], err_msg=name)
        warm = Agent(policy, seed=4, minimize=minimize, history=True)
        warm.warm_start(Replay(values, available=mask))
        assert warm.history["arm"].tolist() == arms, name
        assert warm.memory.tobytes() == agent.memory.tobytes(), name


def test_the_level_of_later_rows_does_not_leak() -> None:
    """The level that rewards were less of used to be the mean of the first hundredth of the rows."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((8000, 2)) + 10
    other = values.copy()
    other[60:] += 1000
    one, two = (backtest(Replay(each), {"UBSS": UBSS(arms=2)}, runs=1) for each in (values, other))
    np.testing.assert_array_equal(one.earned[:, :60], two.earned[:, :60])


def test_a_gap_is_off_only_once_it_has_lasted() -> None:
    values = np.ones((40, 2))
    values[20:35, 1] = np.nan
    off = Replay(values).off
    assert not off[:30].any()
    assert off[30:36, 1].all()
    assert not off[36:].any()
