"""Every check of the shipped contract on every row of the one table of policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import kalmanbandits as kb
from every_policy import EVERY_POLICY, SYSTEM
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import (
    ARUCB,
    LARL,
    POLICIES,
    UBSS,
    UCB,
    AdaptiveUBSS,
    DiscountedUCB,
    KalmanGreedy,
    KalmanLookahead,
    LearnedKalman,
    LinearThompson,
    Policy,
    Random,
    SlidingWindowThompson,
    SlidingWindowUCB,
)
from kalmanbandits.policies.verbs import select_once
from kalmanbandits.streams import stream_key
from kalmanbandits.systems import random_stable
from kalmanbandits.testing import ContractViolation, check_policy
from kalmanbandits.testing.contract import CHECKS

TABLE = [
    *EVERY_POLICY,
    UCB(arms=3, scale=1.0),
    SlidingWindowUCB(arms=3, window=1),
    DiscountedUCB(arms=3, discount=0.5, xi=0.5, scale=1.0),
    ARUCB(arms=3, lags=2, sigma=0.5, scale=2.0),
    LARL(arms=3, opening=40, scale=1.0),
    LARL(arms=3, opening=40, lags="auto"),
    UBSS(arms=3, window=2, bonus="printed", B_R=3.0),
    UBSS(arms=3, window=1, bonus="gaussian"),
    UBSS(arms=3, window=1, bonus="none"),
    KalmanLookahead(random_stable(arms=3, dimension=3, spectral_radius=0.95, seed=4)),
]


def test_the_table_has_every_policy():
    assert {type(policy) for policy in TABLE} == set(POLICIES.values())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("policy", TABLE, ids=repr)
def test_contract(policy: Policy, check):
    check(policy)


@pytest.mark.parametrize(
    "policy", [Random(arms=1), UCB(arms=1), UBSS(arms=1), SlidingWindowUCB(arms=1, window=5)], ids=repr
)
def test_one_arm_is_a_choice_too(policy):
    check_policy(policy)


def test_check_policy_takes_classes():
    check_policy(UBSS)
    check_policy(KalmanGreedy)


def test_the_contract_can_be_broken():
    class Forgetful(UCB):
        """Says it is free of units and is not."""

        kernel = "UCB"

        @property
        def scale_free(self) -> bool:
            return True

    with pytest.raises(ContractViolation, match="multiplied by"):
        check_policy(Forgetful(arms=3, scale=1.0))


def test_of_tied_arms_one_is_played_by_address():
    """Three of four arms tie within 1e-9: each is played a third of the time, and a round repeats."""
    memory = UCB(arms=4, scale=1.0).memory()
    memory["pulls"] = 10
    memory["sum"] = [0.0, 10.0, 10.0 * (1 + 4e-10), 10.0 * (1 - 4e-10)]
    scores, every = np.zeros((4, 3)), np.ones(4, bool)
    chosen = np.array([select_once(memory, scores, every, stream_key(3), t) for t in range(900)])
    counts = np.bincount(chosen, minlength=4)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 300) < 4 * np.sqrt(900 * 2 / 9)).all()
    again = [select_once(memory, scores, every, stream_key(3), t) for t in range(900)]
    assert (chosen == again).all()
    offered = np.array([True, False, True, False])
    assert select_once(memory, scores, offered, stream_key(3), 0) == 2


def test_the_papers_form_takes_the_first_of_the_tied():
    literal = UBSS.as_printed(SYSTEM).memory()
    literal["seen"] = 1  # a code is known and no model tried: both indices are infinite
    scores, both = np.zeros((2, 3)), np.ones(2, bool)
    assert {select_once(literal, scores, both, stream_key(0), t) for t in range(50)} == {0}


def test_no_index_at_all_is_a_tie_of_all():
    memory = UCB(arms=3, scale=1.0).memory()
    memory["pulls"], memory["sum"] = 1, np.nan
    chosen = {select_once(memory, np.zeros((3, 3)), np.ones(3, bool), stream_key(0), t) for t in range(50)}
    assert chosen == {0, 1, 2}


class TestMemory:
    @pytest.mark.parametrize(
        ("policy", "field", "value"),
        [
            (UBSS(arms=3, window=1), "code", 3),
            (UBSS(arms=3, window=1), "seen", -1),
            (UBSS(arms=3, window=1), "early_arm", 3),
            (AdaptiveUBSS(arms=2), "window", 0),
            (SlidingWindowUCB(arms=3, window=40), "arm", 10**9),
            (SlidingWindowUCB(arms=3, window=40), "window", 10**6),
            (LARL(arms=3, opening=40), "last", -2),
            (LARL(arms=3, opening=40), "lags", 6),
            (LARL(arms=3, opening=40), "early", 40),
            (ARUCB(arms=3, lags=2), "early", 6),
            (ARUCB(arms=3, lags=2), "seen", 3),
            (UCB(arms=3), "pulls", -1),
            (UCB(arms=3), "sum", np.nan),
            (UCB(arms=3), "UCB", 7),
        ],
        ids=repr,
    )
    def test_what_no_play_could_have_left_is_refused(self, policy, field, value):
        memory = policy.memory()
        policy.check_memory(memory)
        memory[field] = value
        with pytest.raises(InvalidArgument, match=rf"memory\[{field!r}\] must .*\(the record is damaged\)"):
            policy.check_memory(memory)

    def test_another_type_is_refused(self):
        with pytest.raises(InvalidArgument, match=r"memory must be one record as UCB\.memory"):
            UCB(arms=3).check_memory(UCB(arms=2).memory())

    @pytest.mark.parametrize(
        "make",
        [
            lambda: LearnedKalman(arms=2, window=60_000_000, dimensions=1),
            lambda: SlidingWindowUCB(arms=2, window=10**9),
            lambda: SlidingWindowThompson(arms=2, window=10**12),
            lambda: UCB(arms=10**9),
            lambda: LARL(arms=2, opening=10**10),
            lambda: ARUCB(arms=2, lags=10**6),
            lambda: LinearThompson(arms=2, window=5000),
        ],
    )
    def test_parameters_that_need_too_much_are_refused_at_once(self, make):
        with pytest.raises(InvalidArgument, match=r"a memory of at most 1 GiB, these parameters need .* GiB"):
            make()


class TestClassesOfUsers:
    def test_a_class_that_is_no_dataclass_is_told_so(self):
        class Bare(Policy):
            pass

        with pytest.raises(InvalidType, match="Bare must be a dataclass"):
            Bare(arms=2)

        class Own(Policy):
            def __init__(self):
                pass

        with pytest.raises(InvalidType, match="Own must be a dataclass"):
            Own().to_dict()

    def test_a_memory_of_objects_is_refused(self):
        @dataclass(frozen=True, kw_only=True)
        class Hoarder(kb.PlainPolicy):
            arms: int

            def fields(self):
                return [("things", "O")]

        with pytest.raises(InvalidType, match="must list numbers, got object for 'things'"):
            kb.Agent(Hoarder(arms=2))

    @pytest.mark.parametrize(
        "listed",
        [None, "mean", [("mean",)], [("mean", "f7")], [("mean", "f8", 2.5)], [("a", "f8", (2,), 1)]],
    )
    def test_fields_that_are_none_are_shown(self, listed):
        @dataclass(frozen=True, kw_only=True)
        class Listed(Policy):
            arms: int

            def fields(self):
                return listed

        with pytest.raises(InvalidType, match=r"Listed\.fields\(\) must list fields such as .*, got "):
            Listed(arms=2).memory()
