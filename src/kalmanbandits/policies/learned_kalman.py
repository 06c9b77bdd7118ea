"""LearnedKalman: identify the system from the rewards, filter with it, and act with a little foresight."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.errors import whole
from kalmanbandits.identification.arrays import Cells, Parameters, Workspace, workspace
from kalmanbandits.identification.maximisation import LEAST_NOISE
from kalmanbandits.identification.search import CURRENT, MODELS, Fits, Search
from kalmanbandits.identification.smoothing import filter_cells, loading_variance, propagate, temper
from kalmanbandits.learning.local_levels import BANK, level_fields, level_index, observe_level, spread_levels
from kalmanbandits.policies.kalman_lookahead import expected_maximum
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, Range, check_arms
from kalmanbandits.policies.verbs import register_kernel

# When to fit.
OPENING = 6  # arms that take turns before the first fit
FIRST = 7  # rounds before it, or two per opening arm
# A fit every 15 % of the rounds, then every 64, then every eighth of them, at least one in 4096.
GROWTH, OFTEN, SHARE, SELDOM = 0.15, 64, 8, 4096
VERY_EARLY, EARLY = 50, 300  # rounds up to which a fit searches twice, the latter if predictions fail
WORK, MORE_ARMS = 10e6, 1.75  # nanoseconds, about, of a search; times this, at most, for many arms
ROUNDS_PER_DIMENSION = 5  # no more dimensions than data can bear
MEMORY = 32  # rounds over which surprise is averaged
DOUBT, CHANGE, CAPPED = 2.0, 2.5, 9.0  # that asks for a fit; that says the system changed; most of one reward
TRUSTED = 300  # rounds for which the model must have been good, for a change to be one

# Rewards are put on a grid, in a unit that follows their spread by powers of two. Over-relaxed steps magnify
# rounding, and on the grid there is none to magnify: in another unit the numbers are the same to the bit.
GRID = 2.0**-24
FARTHEST = 2.0**40  # units
CLIP = 50.0  # units around the median, beyond which a fit does not look

# How to act.
WIDTH = 1.0  # of the logarithm by which the doubt about an arm's parameters grows
CURIOSITY = (
    0.2  # share of the state's variance, one round on, in the bonus: beyond the foresight of one round
)
LINES = 16  # arms that foresight looks at, and that it looks from
# Pulls in a row of an arm that is tried, which show whether what it pays persists; up to how many pulls;
# unless its index is that many units behind; and what is added to its index meanwhile.
REPEATS, KNOWN_AFTER, PROMISING, INSIST = 2, 12, 1.0, 1e9
# The log-odds of the linear model against the levels: forgetting per round, most of one reward, where the
# linear model begins to be believed, and how sharply.
FADE, MOST, BIAS, SHARP = 0.998, 1.0, 2.5, 2.0

AT_LEAST_0: Range = (0, math.inf)
NAMES = ("G", "Q", "C", "mu", "s2", "U", "prior")
_local = threading.local()


@dataclass(frozen=True, kw_only=True)
class LearnedKalman(Policy):
    """Knows nothing of the system; identifies it by expectation–maximisation and acts on the fitted filter.

        index_a = c_a'ẑ + μ_a + E max_b (c_b'ẑ⁺(a) + μ_b) + √(w_a x'U_a x + c_a'ΓPΓ'c_a/5)        x = (ẑ, 1)

    the expected reward, what the next round is worth after what this one teaches (as in `KalmanLookahead`),
    and how uncertain the arm's own parameters (posterior covariance U_a) and the state are. w_a grows with
    the logarithm of the rounds over what is known of the arm, so that no arm is given up for ever. Arms have
    noises, levels and scales of their own; an arm's prior is learned from the other arms. The dimension is
    chosen from the data, up to `dimensions`. Fits use the last `window` rounds, come at growing distances and
    are bounded in work, so memory and time per round stay the same for ever.

    Beside it runs a bank of filters for arms that tell nothing about each other (`learning.local_levels`).
    The two are weighed by how well they foretold the last few hundred rewards; where a linear model does not
    earn its keep, the policy acts on the levels as UCB does. A single wild reward moves neither; when
    predictions long trusted fail, the rounds before are forgotten.

    It works in units of the rewards' own spread: multiplying all rewards by a number, or adding one, changes
    no choice. `index` is in those units, `prediction` and `uncertainty` in the rewards'.

    Parameters
    ----------
    arms
        The number of arms, k.
    window
        The rounds that a fit looks back on.
    dimensions
        The most dimensions that the hidden state may have.

    >>> LearnedKalman(arms=2)
    LearnedKalman(arms=2, window=8192, dimensions=8)

    Glitches: a single reward of 10⁶ counts as one of a few standard deviations. docs/learner.md has the whole
    story. The idea of EM and a Kalman filter for bandits: EMKF-Bandit (Zeng et al., arXiv 2409.11521); of
    acting on a filter with a bonus: Kalman-UCB and IDEA (Gornet, Mo and Sinopoli, arXiv 2504.03926,
    2510.01364).
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
        E = D + 1
        return [
            ("t", "i8"),
            ("held", "i8"),  # rounds in the ring that count
            ("arm", "i8", (W,)),  # −1 where no reward came
            ("reward", "f8", (W,)),  # less the first reward, `origin`
            ("origin", "f8"),
            ("unit", "f8"),
            ("next", "i8"),
            ("fitted", "i8"),
            ("distinct", "i8"),  # arms tried
            ("greedy", "i8"),  # the arm with the best prediction
            ("again", "i8"),  # pulls in a row that the arm tried last has still to get
            ("tried", "i8"),
            ("surprise", "f8"),  # running mean of the squared innovations over their variance
            ("trusted", "i8"),
            ("odds", "f8"),  # logarithm of those of the linear model against the levels
            ("z", "f8", (D,)),
            ("P", "f8", (D, D)),
            ("scores", "f8", (k, 3)),  # prediction, variance and index, ready for the next choice
            ("lines", "i8", (LINES,)),
            ("drawn", "i8", (2,)),  # random numbers used by fits, and fits
            ("d", "i8", (MODELS,)),
            ("value", "f8", (MODELS,)),
            ("state", "f8", (MODELS, 2)),
            ("G", "f8", (MODELS, D, D)),
            ("Q", "f8", (MODELS, D, D)),
            ("C", "f8", (MODELS, k, D)),
            ("mu", "f8", (MODELS, k)),
            ("s2", "f8", (MODELS, k)),
            ("U", "f8", (MODELS, k, E, E)),
            ("prior", "f8", (MODELS, k, 3)),
            *level_fields(k),
            ("work_x", "f8", (4, E)),
            ("work_M", "f8", (D, D)),
            ("work_line", "f8", (3, LINES)),
        ]

    def ranges(self) -> dict[str, Range]:
        """The ring, the arms that are named, the dimensions, and the filter that speaks."""
        k, W, D = self.arms, self.window, self.dimensions
        arm: Range = (0, k - 1)
        counts = dict.fromkeys(
            ("t", "fitted", "again", "trusted", "next", "drawn", "heard", "last"), AT_LEAST_0
        )
        return {
            **counts,
            "held": (0, W),
            "arm": (-1, k - 1),
            "distinct": (0, k),
            "greedy": arm,
            "tried": arm,
            "lines": (-1, k - 1),
            "d": (0, D),
            "speaker": (0, BANK - 1),
            "strike": (-1, 1),
        }

    def advice(self) -> str:
        """What to change when the memory would be too large."""
        return "choose a smaller window, fewer dimensions or fewer arms"

    def start(self, memory: Any) -> None:
        """Nothing seen; the first fit is due after a few rounds."""
        memory["next"] = max(FIRST, 2 * min(self.arms, OPENING))
        memory["surprise"] = 1.0

    def attend(self, memory: Memory) -> None:
        """Fit: choose the unit, search for the best model of the rounds held, take over its filter."""
        m = memory[0]
        t, n = int(m["t"]), int(m["held"])
        memory["next"] = t + 1 + t // 8
        places = np.arange(t - n, t) % self.window
        if not self._choose_unit(memory, places):
            return
        arms = m["arm"][places]
        y = np.clip(m["reward"][places] / m["unit"], -FARTHEST, FARTHEST)
        y = np.rint(y / GRID) * GRID
        middle = float(np.median(y[arms >= 0]))
        cells = Cells(arms, np.clip(y, middle - CLIP, middle + CLIP), np.ones(n, np.int64), float(m["reach"]))
        w = _room(n, self.arms, self.dimensions)
        models = [Parameters(*(memory[name][0, i] for name in NAMES)) for i in range(MODELS)]
        fits = Fits(models, memory["d"][0], memory["value"][0], memory["state"][0], memory["drawn"][0])
        largest = max(1, min(self.dimensions, n // ROUNDS_PER_DIMENSION))
        work = WORK * min(MORE_ARMS, 1 + (self.arms - 2) / 12)
        doubtful = float(m["surprise"]) > 0.75 * DOUBT
        for _ in range(2 if n < VERY_EARLY or (doubtful and n < EARLY) else 1):
            Search(fits, cells, w, largest, work).run()
        d = int(fits.d[CURRENT])
        filter_cells(d, models[CURRENT], cells, n, w)
        memory["z"][0, :d], memory["P"][0, :d, :d] = w.zt[:d], w.Pt[:d, :d]
        prepare_once(memory)
        memory["fitted"] = t
        if n > 500:
            memory["surprise"] = min(1.0, float(m["surprise"]))
        memory["next"] = t + max(1, min(int(t * GROWTH), max(OFTEN, t // SHARE), SELDOM))

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """What `memory` knows, in a memory of more arms.

        A new arm is one of which only the prior is known.
        """
        grown = larger.memory()
        k = self.arms
        for name in memory.dtype.names or ():
            old, new = memory[name][0], grown[name][0]
            if np.shape(old) == np.shape(new):
                grown[name] = memory[name]
            else:
                new[tuple(slice(size) for size in np.shape(old))] = old
        for i in range(MODELS):
            d = int(grown["d"][0, i])
            typical = memory["prior"][0, i].mean(axis=0)
            grown["prior"][0, i, k:] = typical
            grown["mu"][0, i, k:] = typical[1]
            grown["s2"][0, i, k:] = np.exp(np.log(np.maximum(memory["s2"][0, i], LEAST_NOISE)).mean())
            grown["U"][0, i, k:, range(d), range(d)] = typical[0]
            grown["U"][0, i, k:, d, d] = typical[2]
        prepare_once(grown)
        return grown

    def _choose_unit(self, memory: Memory, places: Any) -> bool:
        """Follow the rewards' spread by powers of two; False if there is none yet."""
        m = memory[0]
        if m["unit"] == 0:
            return False
        y = m["reward"][places][m["arm"][places] >= 0] / float(m["unit"])
        off = np.abs(y - np.median(y))
        size = float(np.median(off)) or float(off.mean())
        exponent = round(math.log2(size)) if size > 0 else 0
        if abs(exponent) >= 2:
            self._change_unit(memory, 2.0**exponent, places)
        return True

    def _change_unit(self, memory: Memory, factor: float, places: Any) -> None:
        """Express every model in a unit `factor` times as large.

        The bank of levels begins anew on what is held.
        """
        memory["unit"] *= factor
        for name in ("C", "mu"):
            memory[name] /= factor
        memory["s2"] /= factor**2
        memory["U"] /= factor**2
        memory["prior"][..., 0] /= factor**2
        memory["prior"][..., 1] /= factor
        memory["prior"][..., 2] /= factor**2
        for name, *_ in level_fields(self.arms):
            memory[name] = 0
        replay_levels(memory, places)


def _room(cells: int, arms: int, D: int) -> Workspace:
    """The workspace of this thread, as large as it was ever needed."""
    room: Workspace | None = getattr(_local, "room", None)
    if room is None or len(room.v) < cells or room.b.shape != (arms, D + 1):
        room = _local.room = workspace(max(2 * cells, 256), arms, D)
    return room


@jit
def on_grid(m: Any, reward: Any) -> Any:
    """A reward in today's unit, on the grid."""
    return units(m, reward - m.origin)


@jit
def units(m: Any, y: Any) -> Any:
    """A difference of rewards in today's unit, on the grid. The unit will follow what is out of range."""
    y = max(-FARTHEST, min(FARTHEST, y / m.unit))
    return math.floor(y / GRID + 0.5) * GRID


@entry
def replay_levels(memories: Any, places: Any) -> None:
    """Let the bank of levels hear the rounds held once more, in order."""
    m = memories[0]
    for i in range(places.shape[0]):
        if m.arm[places[i]] >= 0:
            observe_level(m, m.arm[places[i]], units(m, m.reward[places[i]]), m.t - places.shape[0] + i)


@entry
def prepare_once(memories: Any) -> None:
    """`prepare`, called from Python."""
    prepare(memories[0])


@routine
def prepare(m: Any) -> None:
    """Before the next choice: what both models say of every arm, and which arms foresight looks at."""
    if m.unit == 0:
        return
    d, k = m.d[CURRENT], m.pulls.shape[0]
    spread_levels(m)
    weight = 1 / (1 + math.exp(SHARP * (BIAS - m.odds))) if d > 0 else 0.0
    for arm in range(k):
        prediction, variance, index = 0.0, 0.0, 0.0
        if d > 0:
            value, known, lasting = _predict(m, arm)
            doubt = loading_variance(d, m.U[CURRENT, arm], m.z, m.P)
            width = 1 + WIDTH * math.log(1 + m.t * doubt / (doubt + m.s2[CURRENT, arm]))
            prediction = weight * value
            variance = weight * (known + doubt)
            index = weight * (value + math.sqrt(width * doubt + CURIOSITY * lasting))
        if weight < 1:
            value, known, bold = level_index(m, arm, m.t)
            prediction += (1 - weight) * value
            variance += (1 - weight) * known
            index += (1 - weight) * bold
        m.scores[arm, 0], m.scores[arm, 1], m.scores[arm, 2] = prediction, variance, index
    if d > 0:
        _shortlist(m, weight)
    m.greedy = 0
    for arm in range(1, k):
        if m.scores[arm, 0] > m.scores[m.greedy, 0]:
            m.greedy = arm
    if m.again > 0:
        if m.scores[m.tried, 2] > m.scores[m.greedy, 0] - PROMISING:
            m.scores[m.tried, 2] += INSIST
        else:
            m.again = 0


@routine
def _shortlist(m: Any, weight: Any) -> None:
    """Add to the best indices what the next round is worth after what this one teaches (knowledge.

    Gradient).
    """
    d, k = m.d[CURRENT], m.pulls.shape[0]
    n = min(LINES, k)
    # The arms with the best index, by insertion.
    for i in range(n):
        m.lines[i] = -1
    for arm in range(k):
        place = n
        while place > 0 and (m.lines[place - 1] < 0 or m.scores[m.lines[place - 1], 2] < m.scores[arm, 2]):
            place -= 1
        if place < n:
            for i in range(n - 1, place, -1):
                m.lines[i] = m.lines[i - 1]
            m.lines[place] = arm
    G, z, ahead, Pc = m.G[CURRENT], m.z, m.work_x[0], m.work_x[1]
    zn = m.work_x[2]
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += G[a, b] * z[b]
        zn[a] = total
    top = -math.inf
    for i in range(n):
        arm = m.lines[i]
        level = m.mu[CURRENT, arm]
        for a in range(d):
            level += m.C[CURRENT, arm, a] * zn[a]
        top = max(top, level)
    for i in range(n):
        arm = m.lines[i]
        variance = 0.0
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += m.P[a, b] * m.C[CURRENT, arm, b]
            Pc[a] = total
            variance += total * m.C[CURRENT, arm, a]
        scale = 1 / math.sqrt(
            variance + m.s2[CURRENT, arm] + loading_variance(d, m.U[CURRENT, arm], m.z, m.P)
        )
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += G[a, b] * Pc[b]
            ahead[a] = total * scale
        for j in range(n):
            other = m.lines[j]
            level, slope = m.mu[CURRENT, other], 0.0
            for a in range(d):
                level += m.C[CURRENT, other, a] * zn[a]
                slope += m.C[CURRENT, other, a] * ahead[a]
            m.work_line[0, j] = level
            m.work_line[1, j] = slope
        gain = expected_maximum(m.work_line[0, :n], m.work_line[1, :n], m.work_line[2, :n]) - top
        m.scores[arm, 2] += weight * gain


@routine
def _predict(m: Any, arm: Any) -> Any:
    """The mean and variance of an arm's c'z + μ, and how much of the latter is left one round on."""
    d, c, z, P, G, ahead = m.d[CURRENT], m.C[CURRENT, arm], m.z, m.P, m.G[CURRENT], m.work_x[3]
    prediction, variance, lasting = m.mu[CURRENT, arm], 0.0, 0.0
    for a in range(d):
        total, ahead[a] = 0.0, 0.0
        for b in range(d):
            total += P[a, b] * c[b]
            ahead[a] += c[b] * G[b, a]
        prediction += c[a] * z[a]
        variance += c[a] * total
    for a in range(d):
        for b in range(d):
            lasting += ahead[a] * P[a, b] * ahead[b]
    return prediction, variance, lasting


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    m = memory
    if m.unit == 0 or m.fitted == 0:  # no model yet: a few arms take turns, ties by chance
        index = chance(m, arm, key, round) - m.pulls[arm]
        if m.pulls[arm] == 0 and m.distinct >= OPENING:
            index -= 1e9
        return math.nan, math.nan, index
    s = m.scores[arm]
    return m.origin + m.unit * s[0], m.unit * math.sqrt(s[1]), s[2]


@routine
def observe_linear(m: Any, arm: Any, y: Any) -> Any:
    """Correct state and arm by a reward; returns log-score and squared error over variance."""
    d, c, z, P, K, U, u = (
        m.d[CURRENT],
        m.C[CURRENT, arm],
        m.z,
        m.P,
        m.work_x[0],
        m.U[CURRENT, arm],
        m.work_x[1],
    )
    S, v = m.s2[CURRENT, arm], y - m.mu[CURRENT, arm]
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * c[b]
        K[a] = total
        S += c[a] * total
        v -= c[a] * z[a]
    S += loading_variance(d, U, z, P)
    surprise = v * v / S
    S = temper(v, S, m.reach)
    score = -0.5 * (math.log(S) + v * v / S)
    for a in range(d + 1):
        total = U[a, d]
        for b in range(d):
            total += U[a, b] * z[b]
        u[a] = total
    for a in range(d + 1):
        for b in range(d + 1):
            U[a, b] -= u[a] * u[b] / S
    for a in range(d):
        c[a] += u[a] * v / S
    m.mu[CURRENT, arm] += u[d] * v / S
    for a in range(d):
        z[a] += K[a] * v / S
        for b in range(d):
            P[a, b] -= K[a] * K[b] / S
    return score, surprise


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    m = memory
    if m.held == 0:
        m.origin = reward
    if m.pulls[arm] == 1:
        m.distinct += 1
    y = reward - m.origin
    _record(m, arm, y)
    if m.unit == 0:
        if y == 0:
            return
        m.unit = abs(y)
        for i in range(m.held):  # all of them paid the same as the first until now
            if m.arm[i] >= 0:
                observe_level(m, m.arm[i], on_grid(m, m.origin + m.reward[i]), i)
        return
    if m.again > 0:
        m.again -= 1
    elif m.fitted > 0 and arm != m.greedy and m.pulls[arm] <= KNOWN_AFTER:
        m.again, m.tried = REPEATS, arm
    y = on_grid(m, reward)
    plain = observe_level(m, arm, y, m.t - 1)
    if m.d[CURRENT] > 0:
        score, surprise = observe_linear(m, arm, y)
        if not math.isnan(plain):
            m.odds = FADE * m.odds + max(-MOST, min(MOST, score - plain))
        propagate(m.d[CURRENT], m.G[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M)
        _doubt(m, surprise)
    prepare(m)


@routine
def _record(m: Any, arm: Any, y: Any) -> None:
    """Write a round into the ring."""
    W = m.arm.shape[0]
    place = m.t % W
    m.arm[place] = arm
    m.reward[place] = y
    m.t += 1
    m.held = min(m.held + 1, W)


@routine
def _doubt(m: Any, surprise: Any) -> None:
    """Watch the predictions: ask for a fit when they fail, forget the past when they were long trusted."""
    m.surprise += (min(surprise, CAPPED) - m.surprise) / MEMORY
    m.trusted = m.trusted + 1 if m.surprise < 0.75 * DOUBT or m.trusted > TRUSTED else 0
    if m.surprise > DOUBT and m.t > m.fitted + max(3, min(m.held, 1000) // 20):
        m.next = m.t
        if m.trusted > TRUSTED and m.surprise > CHANGE:
            m.trusted = 0
            m.held = MEMORY
            for i in range(MODELS):
                m.d[i] = 0


@jit
def _skip(memory: Any, arm: Any) -> None:
    m = memory
    if m.held > 0:  # a gap: the filter predicts through, and so will fits
        _record(m, -1, 0.0)
    if m.d[CURRENT] > 0:
        propagate(m.d[CURRENT], m.G[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M)
    prepare(m)


@jit
def _due(memory: Any) -> Any:
    return memory.t >= memory.next


register_kernel("LearnedKalman", _score, _update, _skip, due=_due)
