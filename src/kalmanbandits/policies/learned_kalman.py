"""LearnedKalman: identify the system from the rewards, filter with it, and act with a little foresight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.errors import whole
from kalmanbandits.learning.expectation_maximisation import factor, model_fields, solve
from kalmanbandits.learning.identification import (
    CURRENT,
    MODELS,
    filter_over,
    improve_by,
    search,
    search_fields,
)
from kalmanbandits.learning.smoothing import move_on, work_fields
from kalmanbandits.policies.kalman_lookahead import expected_maximum
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, check_arms
from kalmanbandits.policies.verbs import register_kernel

FIRST = 9  # rounds before the first fit
GROWTH, LONGEST = 0.15, 32  # a fit every 15 % of the rounds, then every 128, then every 32nd of them
EARLY = 300  # rounds in which a fit is given more work
EARLY_WORK, LATE_WORK, PASSES = 6e6, 3e6, 3
# Rewards are kept on a grid, in units of the first ones' deviation. Over-relaxed steps magnify rounding,
# and on the grid there are none to magnify: in another unit of reward the numbers are the same to the bit.
GRID = 2.0**-24
ROUNDS_A_DIMENSION = 5  # no more dimensions than data can bear
MEMORY = 32  # rounds over which surprise is averaged
DOUBT, CHANGE, TRUSTED = (
    2.0,
    2.5,
    300,
)  # surprise that asks for a fit; that says the system changed; since when


@dataclass(frozen=True, kw_only=True)
class LearnedKalman(Policy):
    """Knows nothing of the system; identifies it by expectation–maximisation and acts on the fitted filter.

        index_a = c_a'ẑ + μ_a + E max_b (c_b'ẑ⁺(a) + μ_b) + √((ẑ, 1) Var(c_a, μ_a) (ẑ, 1)')

    the expected reward, what the next round is worth after what this one teaches (as in `KalmanLookahead`),
    and how uncertain the arm's own parameters are. Parameters grow linearly with the arms; the dimension is
    chosen from the data, up to `dimensions`. Fits use the last `window` rounds, come at growing distances and
    are bounded in work, so memory and time a round stay the same for ever. When rewards stop looking like the
    model's predictions it fits again at once; when a model long trusted fails, it forgets what came before.

    It works in units of the rewards' own mean and standard deviation: multiplying all rewards by a number, or
    adding one, changes no choice. `index` is in those units, `prediction` and `uncertainty` in the rewards'.

    >>> LearnedKalman(arms=2)
    LearnedKalman(arms=2, window=8192, dimensions=8)

    The idea of EM and a Kalman filter for bandits: EMKF-Bandit (Zeng et al., arXiv 2409.11521).
    """

    arms: int
    window: int = 8192
    dimensions: int = 8
    deterministic: ClassVar[bool] = False  # the first rounds, and ties among arms never tried

    def __post_init__(self) -> None:
        window = whole("window", self.window, 64, "the rounds that a fit looks back on")
        dimensions = whole("dimensions", self.dimensions, 1, "the most that the hidden state may have")
        self._set(arms=check_arms(self.arms), window=window, dimensions=dimensions)

    @property
    def scale_free(self) -> bool:
        """It works in units of the rewards' own standard deviation."""
        return True

    def fields(self) -> list[tuple[Any, ...]]:
        """The last rounds, the models, the filter's state, and what is known of each arm."""
        k, D, W = self.arms, self.dimensions, self.window
        return [
            ("t", "i8"),
            ("held", "i8"),  # rounds in the ring that count
            ("arm", "i8", (W,)),
            ("reward", "f8", (W,)),  # less the first reward, `origin`, in units of `base`, on a grid
            ("origin", "f8"),
            ("base", "f8"),
            ("shift", "f8"),
            ("scale", "f8"),
            ("next", "i8"),
            ("fitted", "i8"),
            ("surprise", "f8"),  # running mean of the squared innovations over their variance
            ("trusted", "i8"),
            ("z", "f8", (D,)),
            ("P", "f8", (D, D)),
            ("unsure", "f8", (k, D + 1, D + 1)),
            ("ahead", "f8", (k, D)),  # c_b'Γ
            *model_fields(MODELS, k, D),
            *search_fields(W),
            *work_fields(W, k, D),
            ("work_level", "f8", (k,)),
            ("work_slope", "f8", (k,)),
            ("work_corner", "f8", (k,)),
        ]

    def start(self, memory: Any) -> None:
        """Nothing seen; the first fit is due after a few rounds."""
        memory["next"] = FIRST
        memory["surprise"] = 1.0

    def attend(self, memory: Memory) -> None:
        """Fit: standardise the rounds held, search for the best model, and take over its filter."""
        m = memory[0]
        t, n = int(m["t"]), int(m["held"])
        places = np.arange(t - n, t) % self.window
        rewards = m["reward"][places]
        memory["next"] = t + 1 + t // 8
        if rewards.std() <= 1e-9 * np.abs(rewards).max():
            return  # all the same so far: no unit, and nothing to choose by
        if m["base"] == 0:
            memory["base"] = rewards.std()
            memory["reward"] = np.rint(m["reward"] / m["base"] / GRID) * GRID
            rewards = m["reward"][places]
        mean, scale = float(rewards.mean()), float(rewards.std())
        self._change_unit(memory, mean, scale)
        memory["work_arm"][0, :n] = m["arm"][places]
        memory["work_y"][0, :n] = (rewards - mean) / scale
        largest = max(1, min(self.dimensions, n // ROUNDS_A_DIMENSION))
        doubtful = float(m["surprise"]) > 0.75 * DOUBT
        work = EARLY_WORK if n < EARLY else LATE_WORK * min(3.0, 1 + (self.arms - 2) / 6)
        for _ in range(PASSES if n < 100 or (doubtful and n < 1000) else 1):
            search(memory, n, largest, work)
        improve_by(memory, CURRENT, 0, n, 1)  # leaves each arm's regression behind
        filter_over(memory, CURRENT, 0, n)
        adopt(memory, n)
        memory["fitted"] = t
        if n > 500:
            memory["surprise"] = min(1.0, float(m["surprise"]))
        memory["next"] = t + max(1, min(int(t * GROWTH), max(128, t // LONGEST)))

    def _change_unit(self, memory: Memory, mean: float, scale: float) -> None:
        """Express every model in the new unit of rewards."""
        m = memory[0]
        old = float(m["scale"])
        if old > 0:
            memory["mu"][0] = (m["mu"] * old + m["shift"] - mean) / scale
            memory["C"][0] *= old / scale
            memory["s2"][0] *= (old / scale) ** 2
            memory["tau"][0] *= (old / scale) ** 2
        memory["shift"], memory["scale"] = mean, scale


@routine
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    m = memory
    d = m.d[CURRENT]
    if d == 0:  # no model yet: the arm pulled least, ties by chance
        return math.nan, math.nan, chance(m, arm, key, round) - m.pulls[arm]
    c, z, P, Pc = m.C[CURRENT, arm], m.z, m.P, m.work_x
    prediction, variance = m.mu[CURRENT, arm], 0.0
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * c[b]
        Pc[a] = total
        prediction += c[a] * z[a]
        variance += c[a] * total
    scale = 1 / math.sqrt(variance + m.s2[CURRENT])
    for b in range(m.pulls.shape[0]):
        level, slope = m.mu[CURRENT, b], 0.0
        for a in range(d):
            level += m.ahead[b, a] * z[a]
            slope += m.ahead[b, a] * Pc[a]
        m.work_level[b] = level
        m.work_slope[b] = slope * scale
    foresight = expected_maximum(m.work_level, m.work_slope, m.work_corner)
    A = m.unsure[arm]
    doubt = A[d, d]
    for a in range(d):
        doubt += 2 * A[a, d] * z[a]
        for b in range(d):
            doubt += A[a, b] * z[a] * z[b]
    doubt = max(doubt, 0.0)
    index = prediction + foresight + math.sqrt(doubt)
    unit = m.base * m.scale
    return m.origin + m.base * m.shift + unit * prediction, unit * math.sqrt(variance + doubt), index


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    m = memory
    W = m.arm.shape[0]
    if m.t == 0:
        m.origin = reward
    place = m.t % W
    m.arm[place] = arm
    m.reward[place] = reward - m.origin
    if m.base > 0:
        m.reward[place] = math.floor(m.reward[place] / m.base / GRID + 0.5) * GRID
    m.t += 1
    m.held = min(m.held + 1, W)
    if m.d[CURRENT] > 0:
        _take_in(m, arm, (m.reward[place] - m.shift) / m.scale)
        m.trusted = m.trusted + 1 if m.surprise < 0.75 * DOUBT or m.trusted > TRUSTED else 0
        if m.surprise > DOUBT and m.t > m.fitted + max(3, min(m.held, 1000) // 20):
            m.next = m.t
            if m.trusted > TRUSTED and m.surprise > CHANGE:  # the system changed: keep the last rounds only
                m.trusted = 0
                m.held = MEMORY
                for i in range(MODELS):
                    m.d[i] = 0


@routine
def _take_in(m: Any, arm: Any, y: Any) -> None:
    """Correct by a reward, whose variance has a part from what is not known of the arm; then move on."""
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
    m.surprise += (min(v * v / S, 9.0) - m.surprise) / MEMORY
    for a in range(d):
        z[a] += K[a] * v / S
        for b in range(d):
            P[a, b] -= K[a] * K[b] / S
    move_on(d, m.Gamma[CURRENT], m.Q[CURRENT], z, P, m.work_M[0])


@entry
def adopt(memories: Any, n: Any) -> None:
    """After a fit: take over the filter's state, what is known of each arm, and where each arm looks."""
    m = memories[0]
    d, k, L, x = m.d[CURRENT], m.pulls.shape[0], m.work_L, m.work_x
    noise = 0.0
    for t in range(n):
        noise += m.work_S[t] / n
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
        for a in range(d):
            m.ahead[arm, a] = 0.0
            for b in range(d):
                m.ahead[arm, a] += m.C[CURRENT, arm, b] * m.Gamma[CURRENT, b, a]


@jit
def _skip(memory: Any, arm: Any) -> None:
    m = memory
    if m.d[CURRENT] > 0:  # the filter predicts through; fits pass over the gap
        move_on(m.d[CURRENT], m.Gamma[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M[0])


@jit
def _due(memory: Any) -> Any:
    return memory.t >= memory.next


register_kernel("LearnedKalman", _score, _update, _skip, due=_due)
