"""The filter of the fitted model between fits, which also goes on learning each arm's loadings.

Beside the state it keeps, for each arm, how uncertain (c_a, μ_a) is. A reward then corrects both: the state
as usual, and the arm's parameters by recursive least squares with the state as regressor. An arm met for the
first time is so known after a few rounds, and not only after the next fit.
"""

from __future__ import annotations

from typing import Any

from kalmanbandits.compilation import entry, routine
from kalmanbandits.learning.expectation_maximisation import factor, solve
from kalmanbandits.learning.identification import CURRENT
from kalmanbandits.learning.smoothing import move_on


def filter_fields(arms: int, D: int) -> list[tuple[Any, ...]]:
    """State, its covariance, covariance of each arm's (c_a, μ_a), and c_a'Γ."""
    return [
        ("z", "f8", (D,)),
        ("P", "f8", (D, D)),
        ("unsure", "f8", (arms, D + 1, D + 1)),
        ("ahead", "f8", (arms, D)),
    ]


@routine
def look_ahead(m: Any, arm: Any) -> None:
    """c_a'Γ: what an arm sees of today's state tomorrow."""
    d = m.d[CURRENT]
    for a in range(d):
        m.ahead[arm, a] = 0.0
        for b in range(d):
            m.ahead[arm, a] += m.C[CURRENT, arm, b] * m.Gamma[CURRENT, b, a]


@entry
def adopt(memories: Any, n: Any) -> None:
    """After a fit on n rounds: take over the filter's state, what is known of each arm, where it looks."""
    m = memories[0]
    d, k, L, x = m.d[CURRENT], m.pulls.shape[0], m.work_L, m.work_x
    noise, rounds = 0.0, 0
    for t in range(n):
        if m.work_arm[t] >= 0:
            noise += m.work_S[t]
            rounds += 1
    noise /= rounds
    for a in range(d):
        m.z[a] = m.work_zt[a]
        for b in range(d):
            m.P[a, b] = m.work_Pt[a, b]
    for arm in range(k):
        A = m.work_A[arm]
        for a in range(d + 1):
            for b in range(d + 1):
                A[a, b] /= noise
            A[a, a] += 1.0  # before any reward: loadings and offsets of about one
        factor(A, L, d + 1)
        for a in range(d + 1):
            for b in range(d + 1):
                x[b] = 1.0 if a == b else 0.0
            solve(L, x, d + 1)
            for b in range(d + 1):
                m.unsure[arm, a, b] = x[b]
        look_ahead(m, arm)


@routine
def doubt_of(m: Any, arm: Any) -> Any:
    """(z, 1) Var(c_a, μ_a) (z, 1)': what is not known of the arm itself, at today's state."""
    d, A, z = m.d[CURRENT], m.unsure[arm], m.z
    doubt = A[d, d]
    for a in range(d):
        doubt += 2 * A[a, d] * z[a]
        for b in range(d):
            doubt += A[a, b] * z[a] * z[b]
    return max(doubt, 0.0)


@routine
def take_in(m: Any, arm: Any, y: Any) -> Any:
    """Correct state and arm by a reward, then move on; returns the squared error over its variance."""
    d, c, z, P, K, A, u = m.d[CURRENT], m.C[CURRENT, arm], m.z, m.P, m.work_r[0], m.unsure[arm], m.work_x
    S = m.s2[CURRENT]
    v = y - m.mu[CURRENT, arm]
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * c[b]
        K[a] = total
        S += c[a] * total
        v -= c[a] * z[a]
    for a in range(d + 1):
        total = A[a, d]
        for b in range(d):
            total += A[a, b] * z[b]
        u[a] = total
        S += total * z[a] if a < d else total
    for a in range(d + 1):
        for b in range(d + 1):
            A[a, b] -= u[a] * u[b] / S
    for a in range(d):
        c[a] += u[a] * v / S
    m.mu[CURRENT, arm] += u[d] * v / S
    look_ahead(m, arm)
    for a in range(d):
        z[a] += K[a] * v / S
        for b in range(d):
            P[a, b] -= K[a] * K[b] / S
    move_on(d, m.Gamma[CURRENT], m.Q[CURRENT], z, P, m.work_M[0])
    return v * v / S
