"""LearnedKalman: identify the system from the rewards, filter with it, and act with a little foresight."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.errors import InvalidArgument, whole
from kalmanbandits.identification.arrays import Cells, Parameters, Workspace, workspace
from kalmanbandits.identification.by_dimension import filter_cells
from kalmanbandits.identification.maximisation import LEAST_NOISE
from kalmanbandits.identification.search import CURRENT, MODELS, Fits, Search
from kalmanbandits.learning.local_levels import BANK, level_fields
from kalmanbandits.policies.learned_kalman_kernel import (
    DOUBT,
    FARTHEST,
    GRID,
    LINES,
    OPENING,
    prepare_once,
    replay_levels,
)
from kalmanbandits.policies.spec import LARGEST, Memory, Policy, Range, check_arms

# When to fit.
FIRST = 7  # rounds before it, or two per opening arm
# A fit every 20 % of the rounds, then every 64, then every fifth of them, at least one in 4096.
GROWTH, OFTEN, SHARE, SELDOM = 0.2, 64, 5, 4096
VERY_EARLY, EARLY = 50, 300  # rounds up to which a fit searches twice, the latter if predictions fail
WORK, MORE_ARMS = 20e6, 1.5  # nanoseconds, about, of a search; times this, at most, for many arms
ROUNDS_PER_DIMENSION = 5  # no more dimensions than data can bear

CLIP = 50.0  # units around the median, beyond which a fit does not look

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
    The two are weighed by how well they predicted the last few hundred rewards; where a linear model does not
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
        room = 8 * window * (dimensions**2 + 2 * dimensions + 5)  # bytes of the workspace of a fit
        if room > LARGEST:
            raise InvalidArgument(
                "LearnedKalman must have a memory of at most 1 GiB, these parameters need "
                f"{room / 2**30:,.1f} GiB for a fit ({self.advice()})"
            )

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
