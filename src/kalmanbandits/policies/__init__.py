"""Policies: one file each, and the one table of them."""

from kalmanbandits.policies.adaptive_ubss import AdaptiveUBSS
from kalmanbandits.policies.ar_ucb import ARUCB
from kalmanbandits.policies.discounted_thompson import DiscountedThompson
from kalmanbandits.policies.discounted_ucb import DiscountedUCB
from kalmanbandits.policies.kalman_greedy import KalmanGreedy
from kalmanbandits.policies.kalman_lookahead import KalmanLookahead
from kalmanbandits.policies.kalman_thompson import KalmanThompson
from kalmanbandits.policies.kalman_ucb import KalmanUCB
from kalmanbandits.policies.kf_manb import KFMANB
from kalmanbandits.policies.larl import LARL
from kalmanbandits.policies.learned_kalman import LearnedKalman
from kalmanbandits.policies.linear_thompson import LinearThompson
from kalmanbandits.policies.plain import PlainPolicy
from kalmanbandits.policies.random import Random
from kalmanbandits.policies.rexp3 import Rexp3
from kalmanbandits.policies.sliding_window_thompson import SlidingWindowThompson
from kalmanbandits.policies.sliding_window_ucb import SlidingWindowUCB
from kalmanbandits.policies.spec import Policy, Spec
from kalmanbandits.policies.ubss import UBSS
from kalmanbandits.policies.ucb import UCB
from kalmanbandits.policies.verbs import register_kernel

POLICIES: dict[str, type[Policy]] = {
    policy.__name__: policy
    for policy in (
        Random,
        UCB,
        SlidingWindowUCB,
        DiscountedUCB,
        SlidingWindowThompson,
        DiscountedThompson,
        Rexp3,
        KFMANB,
        LearnedKalman,
        ARUCB,
        LARL,
        LinearThompson,
        UBSS,
        AdaptiveUBSS,
        KalmanGreedy,
        KalmanUCB,
        KalmanThompson,
        KalmanLookahead,
    )
}

__all__ = [
    "ARUCB", "KFMANB", "LARL", "POLICIES", "UBSS", "UCB", "AdaptiveUBSS", "DiscountedThompson",
    "DiscountedUCB", "KalmanGreedy", "KalmanLookahead", "KalmanThompson", "KalmanUCB", "LearnedKalman",
    "LinearThompson", "PlainPolicy", "Policy", "Random", "Rexp3", "SlidingWindowThompson",
    "SlidingWindowUCB", "Spec", "register_kernel",
]  # fmt: skip
