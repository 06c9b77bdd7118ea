"""UBSS: predict each arm's next reward from the last s rewards, one model per sequence of actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kalmanbandits.compilation import jit
from kalmanbandits.errors import InvalidArgument, one_of, positive, probability, whole
from kalmanbandits.learning.codes import decode, encode, shift
from kalmanbandits.learning.ridge import begin, observe, spread
from kalmanbandits.policies import ubss_auto
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, check_arms, check_system
from kalmanbandits.policies.ubss_auto import LARGEST
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

BONUSES = ("none", "scaled", "printed", "gaussian")
NONE, SCALED, PRINTED, GAUSSIAN = range(4)
FORGET = 0.999  # of the running prediction error, a round
MODELS = ("V", "inverse", "b", "G", "N", "growth", "width")  # fields with a row for each code and arm
SHARE = 0.01  # λ as a share of the mean square of the first rewards


@dataclass(frozen=True, kw_only=True)
class UBSS(Policy):
    """Uncertainty-Based System Search (Algorithm 1 of the paper, corrected).

        index_a = Ĝ_{a|𝐜}'Ξ + width_{a|𝐜} √(Ξ'V_{a|𝐜}⁻¹Ξ)        Ξ the last s rewards, 𝐜 the last s actions

    with one ridge regression for each of the k^{s+1} pairs of an arm and a code. A model that has never
    been updated is tried first; the first s rounds are random. The widths, by `bonus`:

    * `"scaled"`: σ̂ √(2 log(1/δ_e) + log det V/λ^s), σ̂ the running root-mean-square one-step error and
      λ one hundredth of the mean square of the first rewards. No constant and no unit: multiplying all
      rewards by a number changes no choice. (Adding a number does: the model has no intercept.)
    * `"printed"`: e + b, equations (e_probabilistic_bound) and (b_probabilistic_bound):
      B_R √(2 log(1/δ_e) + log det V/λ^s) + √N (B_c B_R/δ_b) √tr(I − λV⁻¹) + λ √tr(V⁻¹) B_G.
    * `"gaussian"`: the same e, with b from the Gaussian law of β (erratum 15):
      √N B_c B_R √(2 log(2N/δ_b)) min(1, √tr(I − λV⁻¹)) + min(√λ, λ√tr(V⁻¹)) B_G.
    * `"none"`: 0.

    The regression's target depends on the policy that chose the arms (erratum 10): a limit of the method.

    >>> UBSS(arms=2, window=2).models
    8

    The constants carry the paper's letters; `"scaled"` uses `delta_e` alone, `"none"` `lambda_` alone.

    `window="auto"` learns windows 1 to 4 together, each model shrunk towards that of the next shorter window,
    and acts by the window whose one-step predictions have been best; with many arms, by fewer windows. Its
    width is z_{1−δ_e} standard deviations of the prediction, and it needs no other constant: `ubss_auto`.
    """

    arms: int
    window: int | str = 2
    bonus: str = "scaled"
    delta_e: float = 0.1
    delta_b: float = 0.1
    lambda_: float | None = None
    B_c: float = 1.0
    B_R: float = 1.0
    B_G: float = 1.0

    def __post_init__(self) -> None:
        bonus = one_of("bonus", self.bonus, BONUSES)
        lambda_ = self.lambda_
        if lambda_ is None:
            lambda_ = None if bonus in ("scaled", "none") else 1.0
        elif bonus == "scaled":
            raise InvalidArgument(
                f"lambda_ must be left out when bonus is 'scaled', got {lambda_} "
                "(it is then a share of the rewards' mean square)"
            )
        window = self.window
        if window != ubss_auto.AUTO:
            window = whole("window", window, 1, 'the number of last rewards to predict from, or "auto"')
        self._set(
            arms=check_arms(self.arms),
            window=window,
            delta_e=probability("delta_e", self.delta_e),
            delta_b=probability("delta_b", self.delta_b),
            lambda_=None if lambda_ is None else positive("lambda_", lambda_),
            B_c=positive("B_c", self.B_c),
            B_R=positive("B_R", self.B_R),
            B_G=positive("B_G", self.B_G),
        )
        if isinstance(window, str):
            ubss_auto.check(self.arms, bonus, self.lambda_, self.delta_e)
            self._set(kernel=ubss_auto.KERNEL)
        elif memory_size(self.arms, window) > LARGEST:
            fits = max((s for s in range(1, window) if memory_size(self.arms, s) <= LARGEST), default=0)
            way_out = f"the largest that fits is {fits}" if fits else "no window fits so many arms"
            raise InvalidArgument(
                f"window must be smaller for {self.arms} arms, got {window}: {self.models:,} models "
                f"would need {memory_size(self.arms, window) / 2**30:,.1f} GiB ({way_out})"
            )

    @classmethod
    def as_printed(
        cls, system: LinearGaussianSystem, window: int = 1, delta: float = 0.1, B_G: float = 10.0
    ) -> Self:
        """The paper's constants taken literally: B_c = max‖c_a‖, B_R = √tr Σ, λ = 1, δ_e = δ_b = δ.

        >>> from kalmanbandits.systems import rotation
        >>> round(UBSS.as_printed(rotation(theta=0.0)).B_R, 1)
        23.4
        """
        system = check_system(system)
        return cls(
            arms=system.arms,
            window=window,
            bonus="printed",
            delta_e=delta,
            delta_b=delta,
            lambda_=1.0,
            B_c=float(np.linalg.norm(system.actions, axis=1).max()),
            B_R=math.sqrt(float(np.trace(system.stationary_covariance))),
            B_G=B_G,
        )

    @property
    def models(self) -> int:
        """k^{s+1}: one model for each arm and code. For `"auto"` those of all windows."""
        if isinstance(self.window, str):
            return ubss_auto.models(self.arms, ubss_auto.windows(self.arms))
        return int(self.arms ** (self.window + 1))

    @property
    def scale_free(self) -> bool:
        """With `bonus="scaled"`, and with no bonus and no given λ."""
        return self.lambda_ is None

    def fields(self) -> list[tuple[Any, ...]]:
        """One ridge per code and arm; the last rewards and actions; the constants."""
        s = self.window
        if isinstance(s, str):
            return ubss_auto.fields(self.arms)
        pairs = (self.arms**s, self.arms)
        return [
            ("V", "f8", (*pairs, s, s)),
            ("inverse", "f8", (*pairs, s, s)),
            ("b", "f8", (*pairs, s)),
            ("G", "f8", (*pairs, s)),
            ("N", "i8", pairs),
            ("growth", "f8", pairs),  # log det V/λ^s
            ("width", "f8", pairs),  # e + b, in units of `sigma`
            ("Xi", "f8", (s,)),
            ("gain", "f8", (s,)),
            ("code", "i8"),
            ("seen", "i8"),  # rewards in Xi, at most s
            ("bonus", "i8"),
            ("sigma", "f8"),
            ("squares", "f8"),
            ("weight", "f8"),
            ("lambda_", "f8"),
            ("log_e", "f8"),  # 2 log(1/δ_e)
            ("delta_b", "f8"),
            ("B_c", "f8"),
            ("B_R", "f8"),
            ("B_G", "f8"),
        ]

    def start(self, memory: Any) -> None:
        """No model has seen anything; λ = 0 stands for one still to be taken from the rewards."""
        if self.window == ubss_auto.AUTO:
            ubss_auto.start(memory, self.bonus, self.delta_e)
            return
        memory["bonus"] = BONUSES.index(self.bonus)
        memory["sigma"] = 0.0 if self.bonus == "scaled" else 1.0
        memory["lambda_"] = self.lambda_ or 0.0
        memory["log_e"] = 2 * math.log(1 / self.delta_e)
        for name in ("delta_b", "B_c", "B_R", "B_G"):
            memory[name] = getattr(self, name)

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """Codes are written anew for more arms; the models that came with them are untried."""
        if isinstance(self.window, str):
            return ubss_auto.grow(memory, larger.memory())
        return with_new_codes(memory, larger.memory(), self.window)


def with_new_codes(memory: Memory, grown: Memory, window: int) -> Memory:
    """What `memory` holds, put into `grown`, a fresh memory of more arms."""
    old, new = memory[0], grown[0]
    k, n = old["pulls"].size, new["pulls"].size
    codes = [encode(decode(code, k, window), n) for code in range(k**window)]
    for name in memory.dtype.names or ():
        if name == "pulls":
            new[name][:k] = old[name]
        elif name in MODELS:
            new[name][codes, :k] = old[name]
        else:
            grown[name] = memory[name]
    grown["code"] = codes[old["code"]]
    return grown


def memory_size(arms: int, window: int) -> int:
    """The bytes of the models of UBSS: k^{s+1} times two s × s matrices, two vectors and three numbers."""
    return int(8 * arms ** (window + 1) * (2 * window * window + 2 * window + 3))


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.seen < memory.Xi.shape[0] or memory.lambda_ == 0:
        return math.nan, math.nan, chance(memory, arm, key, round)
    c = memory.code
    if memory.N[c, arm] == 0:
        return math.nan, math.inf, math.inf
    G, Xi = memory.G[c, arm], memory.Xi
    prediction = G[0] * Xi[0]
    for i in range(1, Xi.shape[0]):
        prediction += G[i] * Xi[i]
    q = max(spread(memory.inverse[c, arm], Xi), 0.0)
    uncertainty = memory.sigma * memory.width[c, arm] * math.sqrt(q)
    return prediction, uncertainty, prediction + uncertainty


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    s, k = memory.Xi.shape[0], memory.pulls.shape[0]
    if memory.seen == s and memory.lambda_ > 0:
        _learn(memory, memory.code, arm, reward)
    for i in range(s - 1):
        memory.Xi[i] = memory.Xi[i + 1]
    memory.Xi[s - 1] = reward
    memory.code = shift(memory.code, arm, k, memory.N.shape[0])
    if memory.seen < s:
        memory.seen += 1
    if memory.seen == s and memory.lambda_ == 0:
        _set_unit(memory)


@jit
def _learn(memory: Any, c: Any, arm: Any, reward: Any) -> None:
    V, inverse, b, G = memory.V[c, arm], memory.inverse[c, arm], memory.b[c, arm], memory.G[c, arm]
    s, Xi, lambda_ = memory.Xi.shape[0], memory.Xi, memory.lambda_
    if memory.N[c, arm] == 0:
        begin(V, inverse, b, G, lambda_)
    elif memory.bonus == SCALED:
        error = reward
        for i in range(s):
            error -= G[i] * Xi[i]
        memory.squares = FORGET * memory.squares + error * error
        memory.weight = FORGET * memory.weight + 1
        memory.sigma = math.sqrt(memory.squares / memory.weight)
    memory.N[c, arm] += 1
    N = memory.N[c, arm]
    memory.growth[c, arm] += observe(V, inverse, b, G, Xi, reward, N, memory.gain)
    e = math.sqrt(memory.log_e + memory.growth[c, arm])
    if memory.bonus == SCALED:
        memory.width[c, arm] = e
    elif memory.bonus != NONE:
        trace = inverse[0, 0]
        for i in range(1, s):
            trace += inverse[i, i]
        known = math.sqrt(max(s - lambda_ * trace, 0.0))  # √tr(I − λV⁻¹)
        shrinkage = lambda_ * math.sqrt(trace)
        beta = math.sqrt(N) * memory.B_c * memory.B_R
        if memory.bonus == PRINTED:
            b_bound = beta / memory.delta_b * known + shrinkage * memory.B_G
        else:
            beta *= math.sqrt(2 * math.log(2 * N / memory.delta_b))
            b_bound = beta * min(1.0, known) + min(math.sqrt(lambda_), shrinkage) * memory.B_G
        memory.width[c, arm] = memory.B_R * e + b_bound


@jit
def _set_unit(memory: Any) -> None:
    """λ and σ̂ from the first s rewards that are not all zero; until then there is no unit to work in."""
    square = 0.0
    for i in range(memory.Xi.shape[0]):
        square += memory.Xi[i] * memory.Xi[i]
    square /= memory.Xi.shape[0]
    memory.lambda_ = SHARE * square
    memory.squares = square
    memory.weight = 1.0 if square > 0 else 0.0
    if memory.bonus == SCALED:
        memory.sigma = math.sqrt(square)


@jit
def _skip(memory: Any, arm: Any) -> None:
    memory.seen = 0  # the window has a hole: gather s new rewards, keep the models


register_kernel("UBSS", _score, _update, _skip)
