"""LearnedKalman: identify the system from the rewards, filter with it, look one step ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.errors import InvalidArgument, whole
from kalmanbandits.identification.arrays import Cells, Parameters, Workspace, workspace
from kalmanbandits.identification.by_dimension import smooth_cells
from kalmanbandits.identification.doubt import SELDOM, doubt_arms
from kalmanbandits.identification.maximisation import LEAST_NOISE
from kalmanbandits.identification.past import add_to_past
from kalmanbandits.identification.search import CURRENT, MODELS, Fits, Search, counts_of
from kalmanbandits.identification.steps import filter_cells
from kalmanbandits.learning.common_drift import ARMS as DRIFTING
from kalmanbandits.learning.local_levels import BANK, is_discrete, level_fields
from kalmanbandits.policies.learned_kalman_alone import judge_alone
from kalmanbandits.policies.learned_kalman_cells import farthest_rewards, order_of_appearance
from kalmanbandits.policies.learned_kalman_kernel import (
    DOUBT,
    FARTHEST,
    GRID,
    LATEST,
    OPENING,
    catch_up,
    replay_levels,
)
from kalmanbandits.policies.learned_kalman_memory import (
    BY_ARM,
    FITTED,
    NAMES,
    check_record,
    memory_fields,
    memory_ranges,
)
from kalmanbandits.policies.learned_kalman_rehearsal import rehearse
from kalmanbandits.policies.spec import LARGEST, BackgroundWork, Memory, Policy, Range, check_arms

# When to fit.
FIRST = 7  # rounds before it, or two per opening arm
# A fit every 20 % of the rounds, then every 64, then every fifth of them, at least four per window.
GROWTH, OFTEN, SHARE, PER_WINDOW = 0.2, 64, 5, 4
LATE, SOON = 100, 20  # a fit is adopted after this part of the rounds it looks at, and at most `LATEST`
VERY_EARLY, EARLY = 50, 300  # rounds up to which a fit searches twice, the latter if predictions fail
WORK, MORE_ARMS = 20e6, 1.5  # nanoseconds, about, of a search; times this, at most, for many arms
REHEARSE = 100  # rounds before the first rehearsal; the next ones when their number has doubled
DOUBTS = 2  # times that filter and doubt are computed in turn
ROUNDS_PER_DIMENSION = 5  # no more dimensions than data can bear

WIDE, LEAST_SPREAD = 2.0**-8, 2.0**-16  # least unit, over what a tenth of rewards exceed, and over their mean

KEPT = ("held", "surprise", "reach", "repeated")  # of the round in which a fit begins
FILTERED = ("C", "mu")  # of the current model, and changed by every reward
_rooms: list[Workspace] = []  # not in use, for any thread
LEAST_UNIT = 1e-290  # rewards that differ by less are told apart no better in a smaller one
FOREIGN = 1e60  # units: a model of rewards of another size, of which the squares still are numbers


@dataclass(frozen=True, kw_only=True)
class LearnedKalman(Policy):
    """Knows nothing of the system; identifies it by expectation–maximisation and acts on the fitted filter.

        index_a = c_a'ẑ + μ_a + E max_b (c_b'ẑ⁺(a) + μ_b) + √(w_a x'U_a x + κ c_a'ΓPΓ'c_a)        x = (ẑ, 1)

    the expected reward, what the next round is worth after what this one teaches (as in `KalmanLookahead`),
    and how uncertain the arm's own parameters (posterior covariance U_a) and the state are. w_a grows with
    the logarithm of the rounds over what is known of the arm, so that no arm is given up for ever; κ falls as
    the rewards tell more of the state. Arms have noises, levels and scales of their own; an arm's prior is
    learned from the other arms. The dimension is chosen from the data, up to `dimensions`. Fits use the last
    `window` rounds, come at growing distances and are bounded in work, so memory and time per round stay the
    same for ever.

    Beside it runs a bank of local-level filters, which treat every arm by itself (`learning.local_levels`).
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

    An outlier, a single reward of 10⁶, counts as one of a few standard deviations. docs/learner.md has the
    details. The idea of EM and a Kalman filter for bandits: EMKF-Bandit (Zeng et al., arXiv 2409.11521); of
    acting on a filter with a bonus: Kalman-UCB and IDEA (Gornet, Mo and Sinopoli, arXiv 2504.03926,
    2510.01364).
    """

    arms: int
    window: int = 8192
    dimensions: int = 8
    any_arms: ClassVar[bool] = True
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
        return memory_fields(self.arms, self.window, self.dimensions)

    def ranges(self) -> dict[str, Range]:
        """The ring, the arms that are named, the dimensions, and the local-level filter in use."""
        return memory_ranges(self.arms, self.window, self.dimensions)

    def check_memory(self, memory: Memory) -> None:
        """Refuse a memory that no sequence of rounds could have led to.

        Parameters
        ----------
        memory : ndarray of shape (1,)
            As `memory()` makes it, of type `dtype()`.
        """
        super().check_memory(memory)
        check_record(memory)

    def advice(self) -> str:
        """What to change when the memory would be too large."""
        return "choose a smaller window, fewer dimensions or fewer arms"

    def start(self, memory: Any) -> None:
        """Nothing seen; the first fit is due after a few rounds."""
        memory["next"] = max(FIRST, 2 * min(self.arms, OPENING))
        memory["surprise"] = 1.0
        memory["retried"] = memory["looked"] = -1

    def attend(self, memory: Memory, done: object = None) -> None:
        """Begin a fit, or adopt the one that has begun: `done`, where a thread has done it."""
        m = memory[0]
        while m["t"] >= (m["adopt"] or m["next"]):
            if m["adopt"] > 0:
                self._adopt(memory, done)
            else:
                self._begin(memory)

    def background_work(self, memory: Memory) -> BackgroundWork | None:
        """The fit that has begun or begins now, for a thread."""
        m = memory[0]
        if m["adopt"] == 0 and m["t"] >= m["next"]:
            self._begin(memory)
        if m["adopt"] == 0:
            return None
        return BackgroundWork(partial(self._fit, self._when_begun(memory)), bool(m["adopt"] <= m["t"]))

    def _begin(self, memory: Memory) -> None:
        """Note what a fit begins with, and the round in which it is adopted."""
        m = memory[0]
        t, n = int(m["t"]), int(m["held"])
        if m["unit"] == 0:  # no two rewards differ yet
            memory["next"] = t + 1 + t // 8
            return
        memory["begun"], memory["adopt"] = t, t + min(max(n // LATE, int(n >= SOON)), LATEST)
        for name in KEPT:
            memory[f"begun_{name}"] = memory[name]
        memory["begun_pool"] = memory["pool"][:, 0, :2]
        for name in FILTERED:
            memory[f"begun_{name}"] = memory[name][:, CURRENT]

    def _when_begun(self, memory: Memory) -> Memory:
        """A copy of the memory as it was when the fit began, as far as a fit looks at it."""
        before = memory.copy()
        before["t"], before["z"], before["P"] = memory["begun"], 0.0, 0.0
        for name in KEPT:
            before[name] = memory[f"begun_{name}"]
        before["pool"][:, 0, :2] = memory["begun_pool"]
        for name in FILTERED:
            before[name][:, CURRENT] = memory[f"begun_{name}"]
        before["U"][:, CURRENT] = memory["fitted_U"]
        return before

    def _fit(self, memory: Memory) -> Memory:
        """Choose the unit, search for the best model of the rounds held, filter them; returns `memory`."""
        m = memory[0]
        t = int(m["t"])
        n = min(int(m["held"]), t - int(m["gone"]))
        places = np.arange(t - n, t) % len(m["arm"])
        self._choose_unit(memory, places)
        order, known = order_of_appearance(m["arm"][places], m["past"][:, :, -2, -2].any(axis=0))
        arms = np.append(np.argsort(order), -1)[m["arm"][places]]
        order, others = order[: known + 1], order[known:]  # one arm stands for all that nothing is known of
        with np.errstate(over="ignore"):
            y = np.clip(m["reward"][places] / m["unit"], -FARTHEST, FARTHEST)
        y = np.rint(y / GRID) * GRID
        middle = float(np.median(y[arms >= 0])) if (arms >= 0).any() else 0.0
        discrete = is_discrete(m["repeated"])
        reach = np.inf if discrete else float(m["reach"])
        farthest = np.append(farthest_rewards(arms, y - middle, self.arms), 0.0)[arms]
        cells = Cells(arms, np.clip(y, middle - farthest, middle + farthest), np.ones(n, np.int64), reach)
        w = _take_room(n, self.arms, self.dimensions)
        models = []
        for i in range(MODELS):
            views = {name: memory[name][0, i] for name in NAMES}
            models.append(Parameters(**{**views, **{name: views[name][order] for name in BY_ARM}}))
        fits = Fits(models, memory["d"][0], memory["value"][0], memory["state"][0], memory["drawn"][0])
        largest = max(1, min(self.dimensions, n // ROUNDS_PER_DIMENSION))
        work = WORK * min(MORE_ARMS, 1 + (self.arms - 2) / 12)
        doubtful = float(m["surprise"]) > 0.75 * DOUBT
        for _ in range(2 if n < VERY_EARLY or (doubtful and n < EARLY) else 1):
            Search(fits, cells, w, largest, work).run()
        memory["fitted_U"][0, others] = models[CURRENT].U[-1]
        memory["fitted_U"][0, order] = models[CURRENT].U
        d = int(fits.d[CURRENT])
        self._filter(d, models[CURRENT], cells, w)
        memory["z"][0, :d], memory["P"][0, :d, :d] = w.zt[:d], w.Pt[:d, :d]
        seldom = max(OFTEN, min(t // SHARE, self.window // PER_WINDOW))
        memory["next"] = t + max(1, min(int(t * GROWTH), seldom))
        self._retire(memory, models[CURRENT], cells, w)
        for i, model in enumerate(models):
            for name in BY_ARM:
                memory[name][0, i, others] = getattr(model, name)[-1]
                memory[name][0, i, order] = getattr(model, name)
        # Coins vary by noise alone.
        memory["alone"] = 0.0 if discrete else judge_alone(m["arm"][places], y, m["pool"][0], self.arms)
        if t >= max(int(m["rehearse"]), REHEARSE):
            rehearse(memory)
            memory["rehearse"] = 2 * t
        _rooms.append(w)
        return memory

    def _filter(self, d: int, p: Parameters, cells: Cells, w: Workspace) -> None:
        """Filter the rounds held with what is not known of arms seldom seen, which depends on the filter."""
        n = len(cells.y)
        seen = counts_of(cells, len(p.mu)) + p.past[:, -2, -2]
        seldom = ((seen > 0) & (seen <= SELDOM)).astype(np.int64)
        filter_cells(d, p, cells, n, w)
        for _ in range(DOUBTS if d > 0 and seldom.any() else 0):
            doubt_arms(d, p, cells, n, w, seldom)
            filter_cells(d, p, cells, n, w)

    def _adopt(self, memory: Memory, done: object) -> None:
        """Go on with the models that a fit found, which then learn the rounds since it began."""
        found: Any = done
        if found is None or found["begun"][0] != memory["begun"][0]:
            found = self._fit(self._when_begun(memory))
        anew = bool(found["unit"][0] != memory["unit"][0])
        levels = [name for name, *_ in level_fields(self.arms)] if anew else []
        grown = min(float(memory["unit"][0]) / float(found["unit"][0]), FOREIGN)
        for name in ("spent", "paid"):
            memory[name] = np.minimum(memory[name] * grown, FOREIGN)
        for name in (*FITTED, "unit", *levels):
            memory[name] = found[name]
        memory["adopt"], memory["fitted"] = 0, memory["t"]
        if found["held"][0] > 500:
            memory["surprise"] = np.minimum(1.0, memory["surprise"])
        catch_up(memory, int(memory["begun"][0]), anew)

    def _retire(self, memory: Memory, p: Parameters, cells: Cells, w: Workspace) -> None:
        """After `_filter`: keep the sums of the rounds that will have left the window at the next fit."""
        n, d = len(cells.y), int(memory["d"][0, CURRENT])
        leaving = n + int(memory["next"][0] - memory["t"][0]) - self.window
        if leaving > 0:
            w.weight[leaving:n] = 0.0
            smooth_cells(d, p, cells, n, w)
            add_to_past(d, p, w)
            memory["gone"] = memory["t"] - n + leaving

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """What `memory` knows, in a memory of more arms.

        A new arm is one of which only the prior is known. A fit that has begun is begun anew.
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
        if grown["adopt"][0] > 0:
            grown["adopt"], grown["next"] = 0, grown["t"]
        if larger.arms > DRIFTING and grown["in_use"][0] >= BANK:
            grown["in_use"], grown["at_changes"] = 0, 0.0
        catch_up(grown, int(grown["t"][0]), False)
        return grown

    def _choose_unit(self, memory: Memory, places: Any) -> None:
        """Follow the rewards' spread by powers of two.

        It is their median distance from the median; where half of them nearly agree, as of what rests at
        night, it is held to a share of what a tenth of them exceed, and of the mean.
        """
        m = memory[0]
        with np.errstate(over="ignore"):
            y = m["reward"][places][m["arm"][places] >= 0] / float(m["unit"])
        if not len(y):  # nothing but gaps
            return
        y = np.clip(y, -1e300, 1e300)
        off = np.abs(y - np.median(y))
        size = float(np.median(off)) or float(off.mean())
        size = max(size, WIDE * float(np.sort(off)[9 * len(off) // 10]), LEAST_SPREAD * float(off.mean()))
        exponent = round(math.log2(size)) if size > 0 else 0
        least = math.ceil(math.log2(LEAST_UNIT) - math.log2(float(m["unit"])))
        exponent = max(exponent, min(least, 0))
        if abs(exponent) >= 2:
            self._change_unit(memory, 2.0**exponent, places)

    def _change_unit(self, memory: Memory, factor: float, places: Any) -> None:
        """Express every model in a unit `factor` times as large.

        The local-level filters start again on the rounds held.
        """
        memory["unit"] *= factor
        past = memory["past"]
        linear = (
            memory["loss"],
            memory["C"],
            memory["mu"],
            memory["prior"][..., 1],
            past[..., -1],
            past[..., -1, :],
        )
        square = memory["s2"], memory["U"], memory["prior"][..., 0], memory["prior"][..., 2]
        with np.errstate(over="ignore"):
            for values in (*linear, *square, *square):  # by `factor` twice: its square may be no number
                np.clip(values / factor, -FOREIGN, FOREIGN, out=values)
        for name, *_ in level_fields(self.arms):
            memory[name] = 0
        replay_levels(memory, places)


def _take_room(cells: int, arms: int, D: int) -> Workspace:
    """A workspace that is large enough, and not in use until it is put back into `_rooms`."""
    try:
        room = _rooms.pop()
    except IndexError:
        return workspace(max(2 * cells, 256), arms, D)
    if len(room.v) < cells or room.b.shape != (arms, D + 1):
        return workspace(max(2 * cells, 256), arms, D)
    return room
