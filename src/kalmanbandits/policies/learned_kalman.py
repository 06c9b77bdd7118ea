"""LearnedKalman: identify the system from the rewards, filter with it, and act with a little foresight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import jit, routine
from kalmanbandits.errors import whole
from kalmanbandits.learning.expectation_maximisation import model_fields
from kalmanbandits.learning.fitted_filter import adopt, doubt_of, filter_fields, take_in
from kalmanbandits.learning.identification import (
    CURRENT,
    MODELS,
    filter_over,
    improve_by,
    search,
    search_fields,
)
from kalmanbandits.learning.levels import (
    earns_its_keep,
    forget_past,
    level_fields,
    level_variance,
    noise_of,
    optimism,
    take_in_level,
)
from kalmanbandits.learning.smoothing import move_on, work_fields
from kalmanbandits.learning.subspace import subspace_fields
from kalmanbandits.policies.kalman_lookahead import expected_maximum
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, check_arms
from kalmanbandits.policies.verbs import register_kernel

FIRST = 9  # rounds before the first fit
# A fit every 15 % of the rounds, then every 128, then every 16th of them, at least one in 4096.
GROWTH, OFTEN, SHARE, SELDOM = 0.15, 128, 16, 4096
VERY_EARLY, EARLY = 50, 300  # rounds in which a fit is given more work, the more so the fewer there are
EARLY_WORK, LATE_WORK = 5e6, 3e6
MORE_ARMS = 2.5  # times the work, at most, for more than two arms
# Rewards are kept on a grid, in units of the first ones' deviation. Over-relaxed steps magnify rounding,
# and on the grid there are none to magnify: in another unit of reward the numbers are the same to the bit.
GRID = 2.0**-24
# Share of the state's part of an arm's variance in its bonus: foresight looks one round ahead, and this far
# beyond it. It matters where no arm tells about another.
CURIOSITY = 0.2
ROUNDS_A_DIMENSION = 5  # no more dimensions than data can bear
MEMORY = 32  # rounds over which surprise is averaged
DOUBT, CHANGE = 2.0, 2.5  # surprise that asks for a fit; that says the system changed,
TRUSTED = 300  # if the model was good for so many rounds
UNTRIED = 1e6  # above every index
OUTLIER = 9.0  # squared standard errors for which one reward may count


@dataclass(frozen=True, kw_only=True)
class LearnedKalman(Policy):
    """Knows nothing of the system; identifies it by expectation–maximisation and acts on the fitted filter.

        index_a = c_a'ẑ + μ_a + E max_b (c_b'ẑ⁺(a) + μ_b) + √((ẑ, 1) Var(c_a, μ_a) (ẑ, 1)' + c_a'Pc_a / 5)

    the expected reward, what the next round is worth after what this one teaches (as in `KalmanLookahead`),
    and how uncertain the arm's own parameters and the state are. Parameters grow linearly with the arms; the
    dimension is chosen from the data, up to `dimensions`. Fits use the last `window` rounds, come at growing
    distances and are bounded in work, so memory and time a round stay the same for ever.

    A guard compares the model's one-step predictions with those of arms that each have a level of their own,
    still or wandering. Where the linear model does not earn its keep, it acts on the levels as UCB does, and
    comes back when the next fit does. When rewards stop looking like the predictions it fits again at once;
    when predictions long trusted fail, it forgets what came before.

    It works in units of the rewards' own mean and standard deviation: multiplying all rewards by a number, or
    adding one, changes no choice. `index` is in those units, `prediction` and `uncertainty` in the rewards'.

    >>> LearnedKalman(arms=2)
    LearnedKalman(arms=2, window=8192, dimensions=8)

    The idea of EM and a Kalman filter for bandits: EMKF-Bandit (Zeng et al., arXiv 2409.11521); of acting on
    a filter with a bonus: Kalman-UCB and IDEA (Gornet, Mo and Sinopoli, arXiv 2504.03926, 2510.01364).
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
            ("arm", "i8", (W,)),  # −1 where no reward came
            ("reward", "f8", (W,)),  # less the first reward, `origin`, in units of `base`, on a grid
            ("origin", "f8"),
            ("base", "f8"),
            ("shift", "f8"),
            ("scale", "f8"),
            ("next", "i8"),
            ("fitted", "i8"),
            ("surprise", "f8"),  # running mean of the squared innovations over their variance
            ("trusted", "i8"),
            ("plain", "i8"),  # whether it acts on the levels
            *filter_fields(k, D),
            *level_fields(k),
            *model_fields(MODELS, k, D),
            *search_fields(W),
            *work_fields(W, k, D),
            *subspace_fields(k, D),
            ("work_level", "f8", (k,)),
            ("work_slope", "f8", (k,)),
            ("work_corner", "f8", (k,)),
        ]

    def start(self, memory: Any) -> None:
        """Nothing seen; the first fit is due after a few rounds."""
        memory["next"] = FIRST
        memory["surprise"] = 1.0

    def attend(self, memory: Memory) -> None:
        """Fit: standardise the rounds held, search for the best model, take over its filter, compare."""
        m = memory[0]
        t, n = int(m["t"]), int(m["held"])
        memory["next"] = t + 1 + t // 8
        places = np.arange(t - n, t) % self.window
        if not self._standardise(memory, places):
            return
        largest = max(1, min(self.dimensions, n // ROUNDS_A_DIMENSION))
        work = EARLY_WORK if n < EARLY else LATE_WORK * min(MORE_ARMS, 1 + (self.arms - 2) / 6)
        doubtful = float(m["surprise"]) > 0.75 * DOUBT
        for _ in range(3 if n < VERY_EARLY else 2 if n < 2 * VERY_EARLY or (doubtful and n < EARLY) else 1):
            search(memory, n, largest, work)
        improve_by(memory, CURRENT, 0, n, 1)  # leaves each arm's regression behind
        filter_over(memory, CURRENT, 0, n)
        adopt(memory, n)
        memory["plain"] = not earns_its_keep(memory, n)
        memory["fitted"] = t
        if n > 500:
            memory["surprise"] = min(1.0, float(m["surprise"]))
        memory["next"] = t + max(1, min(int(t * GROWTH), max(OFTEN, t // SHARE), SELDOM))

    def _standardise(self, memory: Memory, places: Any) -> bool:
        """The rounds held, in order, in units of their own mean and deviation; False if there is none."""
        m = memory[0]
        arms = m["arm"][places]
        rewards = m["reward"][places][arms >= 0]
        if rewards.size < 2 or rewards.std() <= 1e-9 * np.abs(rewards).max():
            return False  # all the same so far: no unit, and nothing to choose by
        if m["base"] == 0:
            memory["base"] = rewards.std()
            memory["reward"] = np.rint(m["reward"] / m["base"] / GRID) * GRID
            rewards = m["reward"][places][arms >= 0]
        mean, scale = float(rewards.mean()), float(rewards.std())
        self._change_unit(memory, mean, scale)
        memory["work_arm"][0, : arms.size] = arms
        memory["work_y"][0, : arms.size] = (m["reward"][places] - mean) / scale
        return True

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
    if m.d[CURRENT] == 0:  # no model yet: the arm pulled least, ties by chance
        return math.nan, math.nan, chance(m, arm, key, round) - m.pulls[arm]
    origin, unit = m.origin + m.base * m.shift, m.base * m.scale
    if m.plain:
        if not m.known[arm]:
            return math.nan, math.nan, UNTRIED + chance(m, arm, key, round)
        deviation = unit * math.sqrt(level_variance(m, arm))
        return origin + unit * m.level[arm], deviation, m.level[arm] + optimism(m, arm)
    prediction, variance = _predict(m, arm)
    doubt = doubt_of(m, arm)
    index = prediction + _foresight(m, variance) + math.sqrt(doubt + CURIOSITY * variance)
    return origin + unit * prediction, unit * math.sqrt(variance + doubt), index


@routine
def _predict(m: Any, arm: Any) -> Any:
    """The mean and variance of an arm's c'z + μ; leaves Pc in `work_x`."""
    d, c, z, P, Pc = m.d[CURRENT], m.C[CURRENT, arm], m.z, m.P, m.work_x
    prediction, variance = m.mu[CURRENT, arm], 0.0
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * c[b]
        Pc[a] = total
        prediction += c[a] * z[a]
        variance += c[a] * total
    return prediction, variance


@routine
def _foresight(m: Any, variance: Any) -> Any:
    """E max_b (c_b'ẑ⁺ + μ_b) after the reward of the arm with `variance` whose Pc is in `work_x`."""
    d, scale = m.d[CURRENT], 1 / math.sqrt(variance + m.s2[CURRENT])
    for b in range(m.pulls.shape[0]):
        level, slope = m.mu[CURRENT, b], 0.0
        for a in range(d):
            level += m.ahead[b, a] * m.z[a]
            slope += m.ahead[b, a] * m.work_x[a]
        m.work_level[b] = level
        m.work_slope[b] = slope * scale
    return expected_maximum(m.work_level, m.work_slope, m.work_corner)


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    m = memory
    if m.held == 0:
        m.origin = reward
    y = reward - m.origin
    if m.base > 0:
        y = math.floor(y / m.base / GRID + 0.5) * GRID
    _record(m, arm, y)
    if m.d[CURRENT] > 0:
        y = (y - m.shift) / m.scale
        surprise, plain = take_in(m, arm, y), take_in_level(m, arm, y)
        if m.plain:
            surprise = plain / noise_of(m, arm) if plain >= 0 else 1.0
        _doubt(m, surprise)


@routine
def _record(m: Any, arm: Any, y: Any) -> None:
    """Write a round into the ring; of one that it pushes out, the levels keep the sum."""
    W = m.arm.shape[0]
    place = m.t % W
    if m.held == W and m.arm[place] >= 0:
        m.past[m.arm[place]] += 1
        m.past_sum[m.arm[place]] += m.reward[place]
    m.arm[place] = arm
    m.reward[place] = y
    m.t += 1
    m.held = min(m.held + 1, W)


@routine
def _doubt(m: Any, surprise: Any) -> None:
    """Watch the predictions: ask for a fit when they fail, forget the past when they were long trusted."""
    m.surprise += (min(surprise, OUTLIER) - m.surprise) / MEMORY
    m.trusted = m.trusted + 1 if m.surprise < 0.75 * DOUBT or m.trusted > TRUSTED else 0
    if m.surprise > DOUBT and m.t > m.fitted + max(3, min(m.held, 1000) // 20):
        m.next = m.t
        if m.trusted > TRUSTED and m.surprise > CHANGE:
            m.trusted = 0
            m.held = MEMORY
            forget_past(m)
            for i in range(MODELS):
                m.d[i] = 0


@jit
def _skip(memory: Any, arm: Any) -> None:
    m = memory
    if m.held > 0:  # a gap: the filter predicts through, and so will fits
        _record(m, -1, 0.0)
    if m.d[CURRENT] > 0:
        move_on(m.d[CURRENT], m.Gamma[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M[0])
        take_in_level(m, -1, 0.0)


@jit
def _due(memory: Any) -> Any:
    return memory.t >= memory.next


register_kernel("LearnedKalman", _score, _update, _skip, due=_due)
