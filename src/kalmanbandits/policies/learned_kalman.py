"""LearnedKalman: identify the system from the rewards, filter with it, and act with a little foresight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, jit
from kalmanbandits.learning.expectation_maximisation import _predict, factor, model_fields, solve, work_fields
from kalmanbandits.learning import identification
from kalmanbandits.learning.identification import CURRENT, filter_over, improve_by, search
from kalmanbandits.policies.kalman_lookahead import expected_maximum
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Policy, check_arms
from kalmanbandits.policies.verbs import register_kernel

AHEAD = 1


@dataclass(frozen=True, kw_only=True)
class LearnedKalman(Policy):
    """x."""

    arms: int
    window: int = 2048
    dimensions: int = 8
    first: int = 9
    growth: float = 1.15
    kappa: float = 1.0
    work: float = 3e6
    passes: int = 3

    def __post_init__(self) -> None:
        self._set(arms=check_arms(self.arms))

    @property
    def scale_free(self) -> bool:
        """It works in units of the rewards' own standard deviation."""
        return True

    def fields(self) -> list[tuple[Any, ...]]:
        """x."""
        k, D, W = self.arms, self.dimensions, self.window
        return [
            ("t", "i8"),
            ("held", "i8"),
            ("arm", "i8", (W,)),
            ("reward", "f8", (W,)),
            ("origin", "f8"),
            ("shift", "f8"),
            ("scale", "f8"),
            ("next", "i8"),
            ("first", "i8"),
            ("growth", "f8"),
            ("kappa", "f8"),
            ("surprise", "f8"),
            ("fitted", "i8"),
            ("z", "f8", (D,)),
            ("P", "f8", (D, D)),
            ("unsure", "f8", (k, D + 1, D + 1)),
            ("ahead", "f8", (AHEAD, k, D)),
            *model_fields(identification.MODELS, k, D),
            *work_fields(W, k, D),
            *identification.search_fields(W),
            ("work_Pc", "f8", (D,)),
            ("work_level", "f8", (k,)),
            ("work_slope", "f8", (k,)),
            ("work_corner", "f8", (k,)),
        ]

    def start(self, memory: Any) -> None:
        """x."""
        memory["first"] = memory["next"] = self.first
        memory["growth"] = self.growth
        memory["kappa"] = self.kappa
        memory["surprise"] = 1.0

    def attend(self, memory: Any) -> None:
        """Refit."""
        m = memory[0]
        t, n, W, D = int(m["t"]), int(m["held"]), self.window, self.dimensions
        places = np.arange(t - n, t) % W
        rewards = m["reward"][places]
        mean, scale = float(rewards.mean()), float(rewards.std())
        memory["next"] = t + 1
        if scale <= 1e-9 * float(np.abs(rewards).max()):
            return
        old = float(m["scale"])
        if old > 0:
            memory["mu"][0] = (m["mu"] * old + m["shift"] - mean) / scale
            memory["C"][0] *= old / scale
            memory["s2"][0] *= (old / scale) ** 2
        memory["shift"], memory["scale"] = mean, scale
        memory["work_arm"][0, :n] = m["arm"][places]
        memory["work_y"][0, :n] = (rewards - mean) / scale
        largest = max(1, min(D, n // 5))
        hurry = m["surprise"] > 1.5
        for _ in range(self.passes if n < 100 or hurry else 1):
            search(memory, n, largest, self.work, 60)
        improve_by(memory, CURRENT, 0, n, 1)
        filter_over(memory, CURRENT, 0, n)
        adopt(memory, n)
        memory["fitted"] = t
        memory["surprise"] = min(1.0, float(m["surprise"])) if n > 500 else float(m["surprise"])
        memory["next"] = t + max(1, min(int(t * (self.growth - 1)), W // 8))


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    m = memory
    d = m.d[CURRENT]
    if d == 0:  # no model yet: the arm pulled least, ties by chance
        return math.nan, math.nan, chance(m, arm, key, round) - m.pulls[arm]
    c, z, P, Pc = m.C[CURRENT, arm], m.z, m.P, m.work_Pc
    k = m.pulls.shape[0]
    prediction = m.mu[CURRENT, arm]
    variance = 0.0
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * c[b]
        Pc[a] = total
        prediction += c[a] * z[a]
        variance += c[a] * total
    index = prediction
    scale = 1 / math.sqrt(variance + m.s2[CURRENT])
    for h in range(AHEAD):
        for b in range(k):
            level, slope = m.mu[CURRENT, b], 0.0
            for a in range(d):
                level += m.ahead[h, b, a] * z[a]
                slope += m.ahead[h, b, a] * Pc[a]
            m.work_level[b] = level
            m.work_slope[b] = slope * scale
        index += expected_maximum(m.work_level, m.work_slope, m.work_corner)
    A = m.unsure[arm]
    q = A[d, d]
    for a in range(d):
        q += 2 * A[a, d] * z[a]
        for b in range(d):
            q += A[a, b] * z[a] * z[b]
    index += m.kappa * math.sqrt(max(q, 0.0))
    return m.origin + m.shift + m.scale * prediction, m.scale * math.sqrt(variance + q), index


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    m = memory
    W = m.arm.shape[0]
    if m.t == 0:
        m.origin = reward
    place = m.t % W
    m.arm[place] = arm
    m.reward[place] = reward - m.origin
    m.t += 1
    m.held = min(m.held + 1, W)
    if m.d[CURRENT] > 0:
        _take_in(m, arm, (m.reward[place] - m.shift) / m.scale)
        if m.surprise > 2 and m.t > m.fitted + max(3, min(m.held, 1000) // 20):
            m.next = m.t
            if m.held > 500 and m.surprise > 2.5:
                m.held = 32
                for i in range(4):
                    m.d[i] = 0


@jit
def _due(memory: Any) -> Any:
    return memory.t >= memory.next


@jit
def _take_in(m: Any, arm: Any, y: Any) -> None:
    d, C, z, P = m.d[CURRENT], m.C[CURRENT], m.z, m.P
    S = m.s2[CURRENT]
    v = y - m.mu[CURRENT, arm]
    K = m.work_Pc
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * C[arm, b]
        K[a] = total
        S += C[arm, a] * total
        v -= C[arm, a] * z[a]
    A, u = m.unsure[arm], m.work_x
    # what this round says about the arm: one observation of (z, 1) with noise S
    q = S
    for a in range(d + 1):
        total = A[a, d]
        for b in range(d):
            total += A[a, b] * z[b]
        u[a] = total
        q += total * (z[a] if a < d else 1.0)
    for a in range(d + 1):
        for b in range(d + 1):
            A[a, b] -= u[a] * u[b] / q
    m.surprise += (min(v * v / S, 9.0) - m.surprise) / 32
    for a in range(d):
        z[a] += K[a] * v / S
        for b in range(d):
            P[a, b] -= K[a] * K[b] / S
    _predict(d, m.Gamma[CURRENT], m.Q[CURRENT], z, P, m.work_M[0])


@entry
def adopt(memories: Any, n: Any) -> None:
    """Take over the filter's state, what is known of each arm, and where each arm looks."""
    m = memories[0]
    d, k = m.d[CURRENT], m.pulls.shape[0]
    noise = 0.0
    for t in range(n):
        noise += m.work_S[t] / n
    for a in range(d):
        m.z[a] = m.work_zt[a]
        for b in range(d):
            m.P[a, b] = m.work_Pt[a, b]
    for arm in range(k):
        A, L, x = m.work_A[arm], m.work_L, m.work_x
        for a in range(d + 1):
            for b in range(d + 1):
                A[a, b] /= noise
            A[a, a] += 0.1 if a < d else 1.0
        factor(A, L, d + 1)
        for a in range(d + 1):
            for b in range(d + 1):
                x[b] = 1.0 if a == b else 0.0
            solve(L, x, d + 1)
            for b in range(d + 1):
                m.unsure[arm, a, b] = x[b]
        for a in range(d):
            m.ahead[0, arm, a] = 0.0
            for b in range(d):
                m.ahead[0, arm, a] += m.C[CURRENT, arm, b] * m.Gamma[CURRENT, b, a]
        for h in range(1, AHEAD):
            for a in range(d):
                m.ahead[h, arm, a] = 0.0
                for b in range(d):
                    m.ahead[h, arm, a] += m.ahead[h - 1, arm, b] * m.Gamma[CURRENT, b, a]


@jit
def _skip(memory: Any, arm: Any) -> None:
    m = memory
    if m.d[CURRENT] > 0:
        _predict(m.d[CURRENT], m.Gamma[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M[0])


register_kernel("LearnedKalman", _score, _update, _skip, due=_due)
