"""KalmanLookahead: this round's expected reward, plus the best of the next round after seeing this one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit, routine
from kalmanbandits.filtering.kalman import dot, quadratic
from kalmanbandits.policies import known_system
from kalmanbandits.policies.known_system import ANY, KnownSystemPolicy
from kalmanbandits.policies.spec import Range
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem


@dataclass(frozen=True)
class KalmanLookahead(KnownSystemPolicy):
    """One step of look-ahead on the Kalman filter of the known system, exact for any number of arms.

        index_a = c_a'ẑ + E max_b c_b'ẑ⁺(a)        ẑ⁺(a) = Γẑ + ΓPc_a/√S_a · ε,  ε ~ N(0, 1)

    The next prediction is linear in one standard normal ε, so the expectation is that of the upper envelope
    of k lines: sort them by slope, drop those nowhere on top, and sum over the breakpoints e_i that are left,

        E max = max_b m_b + Σ_i (slope_{i+1} − slope_i) f(−|e_i|),       f(x) = φ(x) + xΦ(x).

    Parameters
    ----------
    system : LinearGaussianSystem
        The system that generates the rewards.

    >>> from kalmanbandits.systems import rotation
    >>> KalmanLookahead(rotation(theta=1.0)).arms
    2

    The sum over breakpoints is that of the knowledge gradient: Frazier, Powell, Dayanik, "The
    knowledge-gradient policy for correlated normal beliefs", INFORMS Journal on Computing 21, 2009.
    """

    system: LinearGaussianSystem

    constants: ClassVar[tuple[str, ...]] = (*KnownSystemPolicy.constants, "ahead")

    def ranges(self) -> dict[str, Range]:
        """Those of the filter; the lines of the arms are drawn anew for every choice."""
        return super().ranges() | dict.fromkeys(("level", "slope", "corner", "Pc"), ANY)

    def fields(self) -> list[Field]:
        """The filter's, the rows c_b'Γ, and a workspace for k lines."""
        k, d = self.system.arms, self.system.dimension
        lines = [("level", "f8", (k,)), ("slope", "f8", (k,)), ("corner", "f8", (k,)), ("Pc", "f8", (d,))]
        return [*super().fields(), ("ahead", "f8", (k, d)), *lines]

    def start(self, memory: np.void) -> None:
        """The filter, and each action one round ahead, c_b'Γ."""
        super().start(memory)
        memory["ahead"] = self.system.actions @ self.system.transition


@jit
def _covariance_with(U: Any, D: Any, c: Any, out: Any) -> None:
    """out = Pc, with P = U·diag(D)·U'."""
    d = D.shape[0]
    for j in range(d):
        f = c[j]
        for i in range(j):
            f += U[i, j] * c[i]
        out[j] = D[j] * f
    for i in range(d):
        total = out[i]
        for j in range(i + 1, d):
            total += U[i, j] * out[j]
        out[i] = total


@routine
def expected_envelope(level: Any, slope: Any, corner: Any) -> Any:
    """E max_b (level_b + slope_b ε) for ε ~ N(0, 1). The arrays (k) are used up."""
    k = level.shape[0]
    top = level[0]
    for b in range(1, k):
        top = max(top, level[b])
    for b in range(1, k):  # sort by slope, then by level: insertion, k is small
        m, s = level[b], slope[b]
        i = b - 1
        while i >= 0 and (slope[i] > s or (slope[i] == s and level[i] > m)):
            level[i + 1], slope[i + 1] = level[i], slope[i]
            i -= 1
        level[i + 1], slope[i + 1] = m, s
    last = 0  # lines 0 … last form the envelope; corner[i] is where line i rises above line i − 1
    corner[0] = -math.inf
    for b in range(1, k):
        m, s = level[b], slope[b]
        meet = -math.inf
        while last >= 0:
            if s > slope[last]:
                meet = (level[last] - m) / (s - slope[last])
                if meet > corner[last]:
                    break
            last -= 1  # parallel and not higher, or overtaken before it was ever on top
        last += 1
        level[last], slope[last] = m, s
        corner[last] = meet if last > 0 else -math.inf
    total = top
    for i in range(1, last + 1):
        x = -abs(corner[i])
        if x > -38.0:  # beyond it the deviate never comes; an infinite corner would give inf · 0
            density = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
            total += (slope[i] - slope[i - 1]) * (density + x * 0.5 * math.erfc(-x / math.sqrt(2.0)))
    return total


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    c = memory.actions[arm]
    prediction = dot(c, memory.z)
    variance = quadratic(memory.U, memory.D, c)
    _covariance_with(memory.U, memory.D, c, memory.Pc)
    scale = 1 / math.sqrt(variance + memory.s2)
    for b in range(memory.actions.shape[0]):
        memory.level[b] = dot(memory.ahead[b], memory.z)
        memory.slope[b] = dot(memory.ahead[b], memory.Pc) * scale
    value = prediction + expected_envelope(memory.level, memory.slope, memory.corner)
    return prediction, math.sqrt(variance), value


register_kernel("KalmanLookahead", _score, known_system.update, known_system.skip)
