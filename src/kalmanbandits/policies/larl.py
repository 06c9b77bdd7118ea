"""LARL: predict each arm's reward from the last rewards, with the arms they came from as features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.compilation import Field, jit, routine
from kalmanbandits.errors import positive, whole
from kalmanbandits.learning.ridge import REFRESH, refresh
from kalmanbandits.policies.deviation import check_scale
from kalmanbandits.policies.spec import Memory, Range, check_arms
from kalmanbandits.policies.standard_units import (
    NO_REWARD,
    UnitPolicy,
    follow_mean,
    gather,
    skip_round,
    start_unit,
    unit_fields,
    unit_ranges,
)
from kalmanbandits.policies.verbs import register_kernel

HUGE = 1e6  # units of a given scale: x beyond counts as that, or V could not be inverted
MOST = 5  # lags that "auto" considers


@dataclass(frozen=True, kw_only=True)
class LARL(UnitPolicy):
    """Latent AR LinUCB (Trella et al. 2025).

        index_a = θ̂_a'φ + α √(φ'V_a⁻¹φ)        φ = (1, and for j = 1 … s: x_{t−j} e(A_{t−j}), e(A_{t−j}))

    with e(a) the a-th unit vector: 2sk + 1 features and one ridge regression per arm. Where `UBSS` has a
    model for each sequence of arms, this one is additive over the lags.

    The arms are first played in turn (`opening`). x is the reward in standard units (`standard_units`), so
    that neither unit nor level matters, or X/scale. A round whose reward never came leaves zeros in φ. An
    outlier, one reward of 1e6, counts as missing; with a given `scale` it ruins the model.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    lags : int or "auto"
        s. `"auto"` takes the s of 1 … 5 with the least m log(mean squared residual) + (2sk + 1) log m over
        the m rounds of the opening. The default, as that of `alpha`, did best in
        `benchmarks/tune_comparators.py`.
    alpha, lambda_ : float
        α, the width of the bonus, and λ of the ridge regressions; the authors' are 1.
    scale : float, optional
        Unit of the rewards; 1 is the literal form. By default it is estimated.
    opening : int, optional
        Rounds in which the arms are played in turn. By default max(2k, s + 2), for `"auto"` max(20k, 8s).

    >>> LARL(arms=2, lags=3).features
    13

    A. L. Trella, W. Dempsey, A. H. Gazi, Z. Xu, F. Doshi-Velez, S. A. Murphy, "Non-stationary latent
    auto-regressive bandits", Reinforcement Learning Journal, 2025, arXiv 2402.03110.
    """

    arms: int
    lags: int | str = 5
    alpha: float = 1.0
    lambda_: float = 1.0
    scale: float | None = None
    constants: ClassVar[tuple[str, ...]] = ("alpha", "lambda_", "given")
    opening: int | None = None

    def __post_init__(self) -> None:
        lags = self.lags
        if not isinstance(lags, str) or lags != "auto":
            lags = whole("lags", lags, 1, 'the number of last rewards to predict from, or "auto"')
        k, s = check_arms(self.arms), MOST if isinstance(lags, str) else lags
        rounds = self.opening
        if rounds is None:
            rounds = max(20 * k, 8 * s) if lags == "auto" else max(2 * k, s + 2)
        self._set(
            arms=k,
            lags=lags,
            alpha=positive("alpha", self.alpha),
            lambda_=positive("lambda_", self.lambda_),
            scale=check_scale(self.scale),
            opening=whole("opening", rounds, s + 2, "long enough to fill the lags"),
        )

    @property
    def features(self) -> int:
        """2sk + 1, with the most lags it may use."""
        return 2 * (MOST if isinstance(self.lags, str) else self.lags) * self.arms + 1

    def advice(self) -> str:
        """The size grows with the square of both."""
        return f"fewer lags or arms: {self.features} features for each of {self.arms}"

    def fields(self) -> list[Field]:
        """One ridge per arm, on the features of the last rounds, newest first."""
        k, p = self.arms, self.features
        s = p // (2 * k)
        return [
            ("V", "f8", (k, p, p)),
            ("inverse", "f8", (k, p, p)),
            ("b", "f8", (k, p)),
            ("theta", "f8", (k, p)),
            ("N", "i8", (k,)),
            ("gain", "f8", (p,)),
            ("last", "i8", (s,)),
            ("x", "f8", (s,)),
            ("seen", "i8"),  # rewards since the last gap, at most s
            ("lags", "i8"),
            ("squares", "f8"),
            ("alpha", "f8"),
            ("lambda_", "f8"),
            *unit_fields(k, self.opening or 0),
        ]

    def ranges(self) -> dict[str, Range]:
        """The arms and rewards of the lags, their number, and the opening."""
        k, s, lags = self.arms, self.features // (2 * self.arms), self.lags
        chosen = (0, s) if isinstance(lags, str) else (lags, lags)
        last: Range = (NO_REWARD, k - 1)
        return {"last": last, "seen": (0, s), "lags": chosen, **unit_ranges(k, self.opening or 0)}

    def start(self, memory: np.void) -> None:
        """Empty lags; `lags` = 0 stands for a number still to be chosen."""
        memory["lags"] = 0 if isinstance(self.lags, str) else self.lags
        memory["alpha"], memory["lambda_"] = self.alpha, self.lambda_
        start_unit(memory, self.scale)
        memory["last"] = NO_REWARD
        memory["V"] = self.lambda_ * np.eye(self.features)
        memory["inverse"] = np.eye(self.features) / self.lambda_

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """The features move to their new places with all they know; those of the new arms know nothing."""
        k, n, s = self.arms, larger.arms, self.features // (2 * self.arms)
        places = [0, *(1 + 2 * n * j + n * half + a for j in range(s) for half in (0, 1) for a in range(k))]
        grown = larger.memory()
        old, new = memory[0], grown[0]
        for name in memory.dtype.names or ():
            if name in ("V", "inverse"):
                new[name][np.ix_(range(k), places, places)] = old[name]
            elif name in ("b", "theta"):
                new[name][np.ix_(range(k), places)] = old[name]
            elif name in ("N", "pulls", "refused"):
                new[name][:k] = old[name]
            elif name != "gain":
                grown[name] = memory[name]
        return grown


@jit
def _nonzero(memory: Any, i: Any) -> Any:
    """Place and value of the i-th number in φ that may differ from 0, of 2s + 1."""
    j = (i - 1) // 2
    if i == 0:
        return 0, 1.0
    if memory.last[j] == NO_REWARD:
        return 0, 0.0
    k = memory.pulls.shape[0]
    place = 1 + 2 * k * j + memory.last[j]
    return (place, memory.x[j]) if i % 2 == 1 else (place + k, 1.0)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.opened == 0:
        return math.nan, math.nan, -float(memory.pulls[arm])
    theta, inverse = memory.theta[arm], memory.inverse[arm]
    prediction, q = 0.0, 0.0
    for i in range(2 * memory.lags + 1):  # φ is sparse: O(s²), however many arms
        at, value = _nonzero(memory, i)
        prediction += theta[at] * value
        row = 0.5 * inverse[at, at] * value
        for j in range(i):
            other, factor = _nonzero(memory, j)
            row += inverse[at, other] * factor
        q += 2 * row * value
    bonus = memory.unit * memory.alpha * math.sqrt(max(q, 0.0))
    prediction = memory.level + memory.unit * prediction
    return prediction, bonus, prediction + bonus


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    ready = gather(memory, arm, reward)
    for t in range(ready):
        _learn_round(memory, memory.early_arm[t], memory.early_x[t])
    if ready > 1 and memory.lags == 0:
        _choose_lags(memory)


@jit
def _learn_round(memory: Any, arm: Any, x: Any) -> None:
    s = memory.last.shape[0]
    lags = s if memory.lags == 0 else memory.lags
    x = 0.0 if arm == NO_REWARD else min(max(x, -HUGE), HUGE)
    if arm != NO_REWARD and memory.seen >= lags:
        _learn(memory, lags, arm, x)
        if memory.lags == 0:
            memory.squares += x * x
    for j in range(s - 1, 0, -1):
        memory.last[j] = memory.last[j - 1]
        memory.x[j] = memory.x[j - 1]
    memory.last[0] = arm
    memory.x[0] = x
    memory.seen = 0 if arm == NO_REWARD else min(memory.seen + 1, s)
    follow_mean(memory, x)


@routine
def _learn(memory: Any, lags: Any, arm: Any, x: Any) -> None:
    """`ridge.observe` for features most of which are 0."""
    # The features of fewer lags come first, so the model of `lags` is a leading block of the largest.
    p, n = 2 * lags * memory.pulls.shape[0] + 1, 2 * lags + 1
    inverse, theta, gain = memory.inverse[arm], memory.theta[arm], memory.gain
    for i in range(p):
        gain[i] = 0
    error = x
    for i in range(n):
        at, value = _nonzero(memory, i)
        error -= theta[at] * value
        memory.b[arm, at] += value * x
        for j in range(n):
            other, factor = _nonzero(memory, j)
            memory.V[arm, at, other] += value * factor
        for j in range(p):
            gain[j] += inverse[at, j] * value
    q = 0.0
    for i in range(n):
        at, value = _nonzero(memory, i)
        q += gain[at] * value
    scale = 1 / (1 + max(q, 0.0))
    for i in range(p):
        theta[i] += gain[i] * (error * scale)
        for j in range(p):
            inverse[i, j] -= gain[i] * gain[j] * scale
    memory.N[arm] += 1
    if memory.N[arm] % max(REFRESH, 2 * p) == 0:  # O(p³): seldom enough to cost no more than the rest, O(p²)
        refresh(memory.V[arm, :p, :p], inverse[:p, :p], memory.b[arm, :p], theta[:p])


@routine
def _choose_lags(memory: Any) -> None:
    """Fit the models of 1 … s lags to what was seen so far, and go on with those of the least criterion."""
    k, s = memory.pulls.shape[0], memory.last.shape[0]
    least = math.inf
    for trial in range(1, s + 2):  # the last one fits the chosen anew
        lags = trial if trial <= s else memory.lags
        p = 2 * lags * k + 1
        m, residual = 0, memory.squares
        for a in range(k):
            b, theta = memory.b[a, :p], memory.theta[a, :p]
            refresh(memory.V[a, :p, :p], memory.inverse[a, :p, :p], b, theta)
            m += memory.N[a]
            for i in range(p):
                residual -= (b[i] + memory.lambda_ * theta[i]) * theta[i]
        criterion = p * math.log(max(m, 1))
        floor = 1e-12 * memory.squares  # of what is left after rounding
        if floor > 0:
            criterion += m * math.log(max(residual, floor) / m)
        if criterion < least:
            least = criterion
            memory.lags = lags


register_kernel("LARL", _score, _update, skip_round)
