"""Policies: one file each, and the one table of them."""

from kalmanbandits.policies.kalman_greedy import KalmanGreedy
from kalmanbandits.policies.kalman_lookahead import KalmanLookahead
from kalmanbandits.policies.kalman_ucb import KalmanUCB
from kalmanbandits.policies.random import Random
from kalmanbandits.policies.sliding_window_ucb import SlidingWindowUCB
from kalmanbandits.policies.spec import Policy, Spec
from kalmanbandits.policies.ubss import UBSS
from kalmanbandits.policies.ucb import UCB
from kalmanbandits.policies.verbs import register_kernel

POLICIES: dict[str, type[Policy]] = {
    policy.__name__: policy
    for policy in (Random, UCB, SlidingWindowUCB, UBSS, KalmanGreedy, KalmanUCB, KalmanLookahead)
}

__all__ = [
    "POLICIES",
    "UBSS",
    "UCB",
    "KalmanGreedy",
    "KalmanLookahead",
    "KalmanUCB",
    "Policy",
    "Random",
    "SlidingWindowUCB",
    "Spec",
    "register_kernel",
]
