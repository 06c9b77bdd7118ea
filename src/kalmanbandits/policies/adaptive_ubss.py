"""AdaptiveUBSS: the models of windows 1 to 4 in one tree, and the window that predicts best decides.

The paper leaves the choice of the window open. Windows that learn side by side and are compared by their
errors do not settle it: the best predictor is not the cheapest to explore, and each of the k^{s+1} models of
a long window has to be tried (docs/decisions/0011). Here a long window costs little: a sequence of actions
that has not been seen falls back on the shorter one it ends in. Only models of window 1 are tried for no
other reason than that they never were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import InvalidArgument, probability
from kalmanbandits.learning.centre import centre_fields, centre_ranges, start_centre, step_of_level
from kalmanbandits.learning.codes import decode, encode, shift
from kalmanbandits.learning.shrinkage import (
    fit_shrunk,
    node,
    note_pair,
    shrunk_fields,
    shrunk_prediction,
    shrunk_variance,
)
from kalmanbandits.policies.arm_levels import (
    FORGET,
    arm_level_fields,
    arm_level_ranges,
    compare,
    note_level,
    plain_error,
    plain_score,
    start_levels,
)
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, Range, check_arms
from kalmanbandits.policies.standard_units import (
    NO_REWARD,
    gather,
    skip_round,
    start_unit,
    unit_fields,
    unit_ranges,
)
from kalmanbandits.policies.ubss_codes import BY_ARM
from kalmanbandits.policies.verbs import TIE, register_kernel

AUTO = "auto"
WINDOWS = 4  # the most
ROOM = 2**26  # bytes that windows above 1 may take
OPENING = 8  # rounds
LEAST = 1e-6  # of the unit squared: smaller errors count as that, so that V + Λ can be inverted


@dataclass(frozen=True, kw_only=True)
class AdaptiveUBSS(Policy):
    """`UBSS` that finds out which window to use while it plays.

        Ĝ_{a|𝐜,s}   shrunk towards Ĝ of the same arm and the s − 1 newest actions of 𝐜 (`learning.shrinkage`)
        loss_s ← 0.999 loss_s + (X − Ĝ_{a|𝐜,s}'Ξ)²      before X is learned from; the least one decides
        index_a = Ĝ_{a|𝐜,s}'Ξ + z_{1−δ_e} √Var(Ĝ_{a|𝐜,s}'Ξ)          z the quantile of the normal distribution

    for windows s = 1 to 4, fewer with many arms. Like `UBSS` it works in standard units around an estimated
    level, so that neither unit nor level of the rewards matters, and acts on the arms' levels where no window
    predicts better. The evidence of a model is divided by 1 + (n/200)² after n visits of its code without the
    arm.

    An outlier, one reward of 1e6 among ordinary ones, counts as missing: one random round, and the windows
    fill again.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    delta_e : float
        The index is the quantile 1 − δ_e of the predicted reward; 0.5 adds no bonus.

    >>> AdaptiveUBSS(arms=2).windows
    4
    """

    arms: int
    delta_e: float = 0.1
    rewrites: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("width", "given")
    scale_free: ClassVar[bool] = True  # it works in standard units
    level_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set(arms=check_arms(self.arms), delta_e=probability("delta_e", self.delta_e))
        if self.delta_e > 0.5:
            raise InvalidArgument(
                f"delta_e must be at most 0.5, got {self.delta_e} "
                "(the index is the quantile 1 - delta_e of the predicted reward)"
            )

    @property
    def windows(self) -> int:
        """The longest window considered: 4, or fewer with so many arms that their models would not fit.

        >>> [AdaptiveUBSS(arms=arms).windows for arms in (2, 10, 20, 50, 200)]
        [4, 4, 3, 2, 1]
        """
        fits = (s for s in range(2, WINDOWS + 1) if models_size(self.arms, s) <= ROOM)
        return max(fits, default=1)

    @property
    def models(self) -> int:
        """k² + … + k^{s+1}, for the s of `windows`."""
        return sum(int(self.arms ** (s + 1)) for s in range(1, self.windows + 1))

    def fields(self) -> list[Field]:
        """The models; what the windows have lost; level and unit; the arms' levels."""
        return [
            *shrunk_fields(self.arms, self.windows),
            ("loss", "f8", (self.windows,)),
            ("window", "i8"),  # the one that decides
            ("seen", "i8"),  # rewards in Xi, at most all
            ("width", "f8"),  # z_{1−δ_e}
            *unit_fields(self.arms, OPENING),
            *centre_fields(),
            *arm_level_fields(self.arms),
        ]

    def ranges(self) -> dict[str, Range]:
        """The code, the window that decides, the rewards in Ξ, and the opening."""
        k, s = self.arms, self.windows
        ranges = unit_ranges(k, OPENING) | centre_ranges() | arm_level_ranges()
        return {"code": (0, k**s - 1), "window": (1, s), "seen": (0, s), **ranges}

    def start(self, memory: np.void) -> None:
        """The shortest window decides first."""
        memory["window"] = 1
        memory["width"] = NormalDist().inv_cdf(1 - self.delta_e)
        start_unit(memory, None)
        start_centre(memory)
        start_levels(memory)

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """Codes are written anew for more arms; windows that no longer fit are left out."""
        grown = larger.memory()
        old, new = memory[0], grown[0]
        k, n, longest = self.arms, larger.arms, larger.windows
        for s in range(1, longest + 1):
            for code in range(k**s):
                here, there = node(code, k, s), node(encode(decode(code, k, s), n), n, s)
                new["V"][there, :k] = old["V"][here, :, :longest, :longest]
                new["b"][there, :k] = old["b"][here, :, :longest]
                new["N"][there, :k], new["last"][there, :k] = old["N"][here], old["last"][here]
                new["visits"][there] = old["visits"][here]
        for name in memory.dtype.names or ():
            if name in BY_ARM:
                new[name][:k] = old[name]
            elif name in ("Xi", "loss"):
                new[name] = old[name][:longest]
            elif name in ("window", "seen"):
                grown[name] = min(old[name], longest)
            elif name not in ("V", "b", "N", "last", "visits") and not name.startswith("work_"):
                grown[name] = memory[name]
        grown["code"] = encode(decode(old["code"], k, self.windows)[-longest:], n)
        return grown


def models_size(arms: int, longest: int) -> int:
    """The bytes of all models up to a window: for each an s × s matrix, a vector and two numbers."""
    models = sum(int(arms ** (s + 1)) for s in range(1, longest + 1))
    return 8 * models * (longest * longest + longest + 2)


@jit
def _noise(memory: Any) -> Any:
    """σ̂² of the regressions, the running mean square one-step error."""
    return max(memory.squares / memory.weight, LEAST)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.seen == 0:
        return math.nan, math.nan, chance(memory, arm, key, round)
    if memory.v[arm] == 0 or (memory.plain == 0 and memory.N[memory.code % memory.pulls.shape[0], arm] == 0):
        return math.nan, math.inf, math.inf
    if memory.plain:
        prediction, uncertainty = plain_score(memory, arm, memory.width)
        return prediction, uncertainty, prediction + uncertainty
    s, noise = min(memory.window, memory.seen), _noise(memory)
    fit_shrunk(memory, arm, noise, s)
    prediction = memory.level + memory.unit * shrunk_prediction(memory, s)
    uncertainty = memory.width * memory.unit * math.sqrt(shrunk_variance(memory, noise, s))
    return prediction, uncertainty, prediction + uncertainty


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    for t in range(gather(memory, arm, reward)):
        _learn_round(memory, memory.early_arm[t], memory.early_x[t])


@jit
def _learn_round(memory: Any, arm: Any, x: Any) -> None:
    k, longest = memory.pulls.shape[0], memory.Xi.shape[0]
    if arm == NO_REWARD:
        memory.seen = 0  # the windows have a hole: they fill again one reward after the other
        return
    if memory.seen > 0:
        _learn(memory, arm, x)
    note_level(memory, arm, x)
    codes = k
    for i in range(longest - 1, 0, -1):
        memory.Xi[i] = memory.Xi[i - 1]
        codes *= k
    memory.Xi[0] = x
    memory.code = shift(memory.code, arm, k, codes)
    if memory.seen < longest:
        memory.seen += 1


@jit
def _learn(memory: Any, arm: Any, x: Any) -> None:
    """Compare the windows, move the level by what the deciding one says of all arms, and learn the pair."""
    k, noise, s = memory.pulls.shape[0], _noise(memory), min(memory.window, memory.seen)
    average, g = x, 1.0
    for b in range(k):
        if b != arm:
            fit_shrunk(memory, b, noise, s)
            average += shrunk_prediction(memory, s)
            for i in range(s):
                g += memory.work_G[s - 1, i]
    fit_shrunk(memory, arm, noise, memory.seen)
    error, h = x - shrunk_prediction(memory, s), 1.0
    for i in range(s):
        h -= memory.work_G[s - 1, i]
    if memory.N[memory.code % k, arm] > 0 and memory.v[arm] > 0:
        _choose_window(memory, x)
        S = 1 + shrunk_variance(memory, noise, s) / noise
        compare(memory, error / math.sqrt(S), plain_error(memory, arm, x))
    s2 = 1 + h * h * memory.weight / (memory.centred * memory.squares)
    note_pair(memory, arm, x, memory.seen, 1 / s2)
    memory.level += memory.unit * step_of_level(memory, average / k, g / k, error, h)


@jit
def _choose_window(memory: Any, x: Any) -> None:
    """Add every window's error to its loss, and let the least loss decide, after `fit_shrunk`.

    After a gap windows that are not full again predict as the longest full one does.
    """
    best = 0
    for i in range(memory.Xi.shape[0]):
        error = x - shrunk_prediction(memory, min(i + 1, memory.seen))
        memory.loss[i] = FORGET * memory.loss[i] + error * error
        if memory.loss[i] < (1 - TIE) * memory.loss[best]:  # rounding must not lengthen the window
            best = i
    memory.window = best + 1


register_kernel("AdaptiveUBSS", _score, _update, skip_round)
