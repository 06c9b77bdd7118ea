"""A quick first backtest: other processes compile and play, and the numbers stay the same."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import numpy as np
import pytest

from fresh_processes import FreshProcesses
from kalmanbandits.backtesting import backtest, line_up
from kalmanbandits.backtesting.play import Work, make_work
from kalmanbandits.cli import ahead
from kalmanbandits.cli.ahead import Ahead, Plan, Player, share_out
from kalmanbandits.policies import UCB, LearnedKalman, Policy, Random
from kalmanbandits.policies.spec import is_ours
from kalmanbandits.systems import Replay

# How many machine codes each kernel has: compiled, or from disk, where every process finds them.
NEEDED = """
import numpy as np
from kalmanbandits.backtesting.play import make_work
from kalmanbandits.cli.ahead import COMPILE, Ahead
from kalmanbandits.identification.doubt import _doubt_arms
from kalmanbandits.identification.steps import improve
from kalmanbandits.identification.subspace import observability, realise
from kalmanbandits.policies import LearnedKalman
from kalmanbandits.policies.learned_kalman_kernel import catch_up, replay_levels
from kalmanbandits.policies.learned_kalman_rehearsal import _play
from kalmanbandits.simulation.rounds import play_block
from kalmanbandits.systems import Replay
policy = LearnedKalman(arms=2)
table = Replay(100 * np.random.default_rng(0).standard_normal((160, 2)))
elsewhere, here = (improve, _doubt_arms), (play_block, catch_up, replay_levels, _play, observability, realise)
work = make_work(table, {"it": policy}, 1, 0, None, {}, 0)
def count():
    print(*(len(each.signatures) for each in (*elsewhere, *here)))
exec(COMPILE)
count()
Ahead(work, 1)._compile_here(policy)
count()
work.do(1)
count()
"""
TABLE = np.random.default_rng(0).standard_normal((60, 2)).cumsum(axis=0)
TABLE[5:9, 1] = np.nan


def work_of(policies: dict[str, Policy], table: object = TABLE) -> Work:
    return make_work(Replay(table), policies, 2, 0, None, {}, 0)


def test_what_is_compiled_ahead_and_here_is_what_a_backtest_needs(fresh: FreshProcesses) -> None:
    """Fits elsewhere, the rest here, nothing twice, and nothing is left to compile."""
    wanted = json.dumps({"fits": True, "policies": []})
    done = fresh.run("-c", NEEDED, text=wanted)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "fits are compiled",
        "1 1 0 0 0 0 0 0",
        "1 1 1 1 1 1 1 1",
        "1 1 1 1 1 1 1 1",
    ]


def test_played_elsewhere_in_plain_python_is_the_same_to_the_bit() -> None:
    replay = Replay(TABLE)
    policies = {
        name: policy
        for name, policy in line_up(replay).policies.items()
        if is_ours(type(policy)) and not isinstance(policy, LearnedKalman)
    }
    work = work_of(policies)
    with Ahead(work, 2) as helped:
        helped._play_elsewhere(list(policies))
        assert not work.waiting
        helped._collect(helped._helpers[0])  # type: ignore[arg-type]
    alone = backtest(replay, policies, runs=2)
    result = work.result()
    assert result.runs == alone.runs
    assert np.array_equal(result.choices, alone.choices)
    assert np.array_equal(result.earned, alone.earned)


def test_what_a_player_does_not_play_is_played_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PLAY", "raise SystemExit(1)")
    work = work_of({"UCB": UCB(arms=2), "Random": Random(arms=2)})
    monkeypatch.setattr(ahead, "share_out", lambda _: Plan(["UCB", "Random"], [], False))
    with Ahead(work, 2) as helped:
        helped.do()
    alone = backtest(Replay(TABLE), dict(work.policies), runs=2)
    assert np.array_equal(work.result().choices, alone.choices)


def test_small_tables_are_played_and_others_compiled_where_nothing_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies: dict[str, Policy] = {"UCB": UCB(arms=2), "it": LearnedKalman(arms=2), "Random": Random(arms=2)}
    monkeypatch.setattr(ahead, "rounds_are_kept", lambda _: False)
    monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path)
    assert share_out(work_of(policies)) == Plan(["UCB", "Random"], ["it"], True)
    long = np.zeros((ahead.SMALL, 2))
    assert share_out(work_of(policies, long)) == Plan([], ["UCB", "it", "Random"], True)
    (tmp_path / "improve-0.bin").touch()
    assert share_out(work_of(policies, long)) == Plan([], ["UCB", "it", "Random"], False)
    monkeypatch.setattr(ahead, "rounds_are_kept", lambda _: True)
    assert share_out(work_of(policies)) == Plan([], [], False)


def test_it_sees_what_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policies: dict[str, Policy] = {"UCB": UCB(arms=2)}
    backtest(Replay(TABLE), policies, runs=1)
    assert share_out(work_of(policies)).played == []
    monkeypatch.setattr("kalmanbandits.compilation.cache_folder", lambda: tmp_path)
    assert share_out(work_of(policies)).played == ["UCB"]


def test_helpers_are_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PLAY", "import time; time.sleep(600)")
    work = work_of({"UCB": UCB(arms=2)})
    with Ahead(work, 2) as helped:
        helped._play_elsewhere(["UCB"])
        (player,) = helped._helpers
    assert isinstance(player, Player)
    assert player.process.poll() is not None
    assert not player.thread.is_alive()
    assert gc.isenabled()


def test_one_thread_stays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "rounds_are_kept", lambda _: False)
    with Ahead(work_of({"UCB": UCB(arms=2)}), 1) as alone:
        alone.do()
        assert alone._helpers == []
