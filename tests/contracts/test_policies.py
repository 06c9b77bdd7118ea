"""Every check of the shipped contract on every row of the one table of policies."""

from __future__ import annotations

import numpy as np
import pytest

from kalmanbandits.policies import (
    ARUCB,
    KFMANB,
    LARL,
    POLICIES,
    UBSS,
    UCB,
    DiscountedThompson,
    DiscountedUCB,
    KalmanGreedy,
    KalmanLookahead,
    KalmanThompson,
    KalmanUCB,
    LearnedKalman,
    LinearThompson,
    Policy,
    Random,
    Rexp3,
    SlidingWindowThompson,
    SlidingWindowUCB,
)
from kalmanbandits.systems import random_stable, rotation
from kalmanbandits.testing import ContractViolation, check_policy
from kalmanbandits.testing.contract import CHECKS

SYSTEM = rotation(theta=2.0)
TABLE = [
    Random(arms=3),
    UCB(arms=3),
    UCB(arms=3, scale=1.0),
    SlidingWindowUCB(arms=3, window=40),
    SlidingWindowUCB(arms=3, window=1),
    DiscountedUCB(arms=3),
    DiscountedUCB(arms=3, discount=0.5, xi=0.5, scale=1.0),
    SlidingWindowThompson(arms=3, window=40),
    DiscountedThompson(arms=3),
    Rexp3(arms=3, batch=50),
    KFMANB(arms=3),
    LearnedKalman(arms=3),
    ARUCB(arms=3, lags=2),
    ARUCB(arms=3, lags=2, sigma=0.5, scale=2.0),
    LARL(arms=3, opening=40),
    LARL(arms=3, opening=40, scale=1.0),
    LARL(arms=3, opening=40, lags="auto"),
    LinearThompson(arms=3, window=2),
    UBSS(arms=3, window=1),
    UBSS(arms=3, window=2),
    UBSS(arms=3, window=2, bonus="printed", B_R=3.0),
    UBSS(arms=3, window=1, bonus="gaussian"),
    UBSS(arms=3, window=1, bonus="none"),
    UBSS(arms=2, window="auto"),
    KalmanGreedy(SYSTEM),
    KalmanUCB(SYSTEM),
    KalmanThompson(SYSTEM),
    KalmanLookahead(SYSTEM),
    KalmanLookahead(random_stable(arms=4, dimension=4, spectral_radius=0.95, seed=4)),
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


def test_scores_choose_the_first_of_the_tied():
    from kalmanbandits.policies.verbs import select_once

    memory = UCB(arms=4, scale=1.0).memory()
    memory["pulls"] = 10
    memory["sum"] = [0.0, 10.0, 10.0 * (1 + 5e-10), 10.0 * (1 - 5e-10)]
    arm = select_once(memory, np.zeros((4, 3)), np.ones(4, bool), np.uint64(0), 0)
    assert arm == 1  # all three tie within 1e-9; the first is taken
