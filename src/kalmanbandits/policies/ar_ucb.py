"""ARUCB: each arm's next reward as an autoregression on the last rewards, whichever arms they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import positive, probability, whole
from kalmanbandits.filtering.kalman import correct, dot, quadratic
from kalmanbandits.policies.deviation import check_scale
from kalmanbandits.policies.spec import POSITIVE, WEIGHT, Range, check_arms
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

FORGET = 0.999  # of the running prediction error, per round


@dataclass(frozen=True, kw_only=True)
class ARUCB(UnitPolicy):
    """AutoRegressive Upper Confidence Bounds (Bacchiocchi et al. 2024).

        index_a = γ̂_a'φ + β_a √(φ'V_a⁻¹φ)                            φ = (1, x_{t−1}, …, x_{t−s})
        β_a = √(λ(m² + 1)) + σ √(2 log(k/δ) + log det V_a/λ^{s+1})

    with one ridge regression per arm: `UBSS` with an intercept and without codes. Which arms the last rewards
    came from is ignored: in the authors' setting the reward itself is the state, here it is not.

    The arms are first played in turn for max(2k, s + 2) rounds. x is the reward in standard units
    (`standard_units`), so that neither unit nor level matters, or X/scale. A round whose reward never came
    enters φ as 0. An outlier, one reward of 1e6, counts as missing; with a given `scale` it ruins the model.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    lags : int
        s, the order of the autoregression. The default, as that of `delta`, did best in
        `benchmarks/tune_comparators.py`.
    delta : float
        δ, the probability that the bounds fail.
    lambda_ : float
        λ of the ridge regressions.
    m, sigma : float
        Bound on the intercept and standard deviation of the noise, both in the unit of x. By default `sigma`
        is the running root-mean-square one-step error.
    scale : float, optional
        Unit of the rewards; 1 is the literal form. By default it is estimated.

    >>> ARUCB(arms=2, lags=3).lags
    3

    F. Bacchiocchi, G. Genalti, D. Maran, M. Mussi, M. Restelli, N. Gatti, A. M. Metelli, "Autoregressive
    bandits", AISTATS 2024, arXiv 2212.06251.
    """

    arms: int
    lags: int = 5
    delta: float = 0.5
    lambda_: float = 1.0
    m: float = 1.0
    sigma: float | None = None
    scale: float | None = None
    constants: ClassVar[tuple[str, ...]] = ("known", "prior", "log_e", "given")
    lengthens: ClassVar[tuple[str, ...]] = ("early_arm", "early_x")  # an opening gets longer

    def __post_init__(self) -> None:
        self._set(
            arms=check_arms(self.arms),
            lags=whole("lags", self.lags, 1, "the number of last rewards to predict from"),
            delta=probability("delta", self.delta),
            lambda_=positive("lambda_", self.lambda_),
            m=positive("m", self.m),
            sigma=None if self.sigma is None else positive("sigma", self.sigma),
            scale=check_scale(self.scale),
        )

    @property
    def _opening(self) -> int:
        return max(2 * self.arms, self.lags + 2)

    def fields(self) -> list[Field]:
        """One ridge per arm on φ, newest reward first; the constants."""
        k, p = self.arms, self.lags + 1
        numbers = ("sigma", "squares", "weight", "known", "prior", "log_e")
        return [
            ("U", "f8", (k, p, p)),  # V⁻¹ = U·diag(D)·U'
            ("D", "f8", (k, p)),
            ("theta", "f8", (k, p)),
            ("growth", "f8", (k,)),  # log det V/λ^{s+1}
            ("phi", "f8", (p,)),
            ("gain", "f8", (p,)),
            ("seen", "i8"),  # rewards since the last gap, at most s
            *((name, "f8") for name in numbers),
            *unit_fields(k, self._opening),
        ]

    def ranges(self) -> dict[str, Range]:
        """The rewards in φ, and the opening."""
        return {
            "seen": (0, self.lags),
            "D": POSITIVE,
            "growth": POSITIVE,
            "squares": WEIGHT,
            "weight": WEIGHT,
            **unit_ranges(self.arms, self._opening),
        }

    def start(self, memory: np.void) -> None:
        """No model has seen anything; σ̂ begins at one unit, with the weight of one round."""
        memory["prior"] = math.sqrt(self.lambda_ * (self.m**2 + 1))
        memory["log_e"] = 2 * math.log(self.arms / self.delta)
        memory["known"] = 0.0 if self.sigma is None else 1.0
        memory["sigma"] = self.sigma or 1.0
        memory["squares"] = memory["weight"] = 1.0
        start_unit(memory, self.scale)
        memory["phi"][0] = 1.0
        memory["D"] = 1 / self.lambda_


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.opened == 0:
        return math.nan, math.nan, -float(memory.pulls[arm])
    beta = memory.prior + memory.sigma * math.sqrt(memory.log_e + memory.growth[arm])
    bonus = memory.unit * beta * math.sqrt(quadratic(memory.U[arm], memory.D[arm], memory.phi))
    prediction = memory.level + memory.unit * dot(memory.theta[arm], memory.phi)
    return prediction, bonus, prediction + bonus


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    for t in range(gather(memory, arm, reward)):
        _learn_round(memory, memory.early_arm[t], memory.early_x[t])


@jit
def _learn_round(memory: Any, arm: Any, x: Any) -> None:
    s = memory.phi.shape[0] - 1
    if arm == NO_REWARD:
        x = 0.0
    elif memory.seen == s:
        _learn(memory, arm, x)
    for j in range(s, 1, -1):
        memory.phi[j] = memory.phi[j - 1]
    memory.phi[1] = x
    memory.seen = 0 if arm == NO_REWARD else min(memory.seen + 1, s)
    follow_mean(memory, x)


@jit
def _learn(memory: Any, arm: Any, x: Any) -> None:
    error, S = correct(memory.theta[arm], memory.U[arm], memory.D[arm], memory.phi, 1.0, x, memory.gain)
    memory.growth[arm] += math.log(S)
    if memory.known == 0:
        memory.squares = FORGET * memory.squares + error * error
        memory.weight = FORGET * memory.weight + 1
        memory.sigma = math.sqrt(memory.squares / memory.weight)


register_kernel("ARUCB", _score, _update, skip_round)
