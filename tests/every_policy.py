"""One of every policy, for three arms where it does not bring a system of its own.

Every number of arms and every window is compiled for anew: what these can show should be shown with these.
"""

from __future__ import annotations

import kalmanbandits as kb

SYSTEM = kb.systems.rotation(theta=2.0)
EVERY_POLICY: list[kb.Policy] = [
    kb.Random(arms=3),
    kb.UCB(arms=3),
    kb.SlidingWindowUCB(arms=3, window=40),
    kb.DiscountedUCB(arms=3),
    kb.SlidingWindowThompson(arms=3, window=40),
    kb.DiscountedThompson(arms=3),
    kb.Rexp3(arms=3, batch=50),
    kb.KFMANB(arms=3),
    kb.ARUCB(arms=3, lags=2),
    kb.LARL(arms=3, opening=40),
    kb.LinearThompson(arms=3, window=2),
    kb.UBSS(arms=3, window=1),
    kb.UBSS(arms=3, window=2),
    kb.AdaptiveUBSS(arms=3),
    kb.KalmanGreedy(SYSTEM),
    kb.KalmanUCB(SYSTEM),
    kb.KalmanThompson(SYSTEM),
    kb.KalmanLookahead(SYSTEM),
    kb.LearnedKalman(arms=3),
]
