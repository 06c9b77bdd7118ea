"""UBSS: predict each arm's next reward from the last s rewards, one model per sequence of actions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import InvalidArgument, one_of, positive, probability, shown
from kalmanbandits.filtering.kalman import correct, dot, quadratic
from kalmanbandits.learning.centre import centre_fields, centre_ranges, start_centre, step_of_level
from kalmanbandits.learning.codes import check_window, shift
from kalmanbandits.learning.ridge import staleness
from kalmanbandits.policies.adaptive_ubss import AUTO, AdaptiveUBSS
from kalmanbandits.policies.arm_levels import (
    arm_level_fields,
    arm_level_ranges,
    compare,
    note_level,
    plain_error,
    plain_score,
    start_levels,
)
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import LARGEST, POSITIVE, PROMISES, Memory, Policy, Range, check_arms
from kalmanbandits.policies.standard_units import (
    NO_REWARD,
    gather,
    skip_round,
    start_unit,
    unit_fields,
    unit_ranges,
)
from kalmanbandits.policies.ubss_codes import with_new_codes
from kalmanbandits.policies.ubss_given import BONUSES, learn_given
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system

LAMBDA = 0.01  # of the default, in standard units
OPENING = 8  # rounds of the default


@dataclass(frozen=True, kw_only=True)
class UBSS(Policy):
    """Uncertainty-Based System Search (Algorithm 1 of the paper, corrected).

        index_a = Ĝ_{a|𝐜}'Ξ + width_{a|𝐜} √(Ξ'V_{a|𝐜}⁻¹Ξ)        Ξ the last s rewards, 𝐜 the last s actions

    with one ridge regression for each of the k^{s+1} pairs of an arm and a code. A model that has never
    been updated is tried first; the first rounds are random. The widths, by `bonus`:

    * `"scaled"`, the default: σ̂ √(2 log(1/δ_e)), σ̂ the running root-mean-square one-step error. It works in
      standard units (`standard_units`) around an estimated level (`learning.centre`), so multiplying all
      rewards by a number or adding one changes no choice. Where the last rewards predict nothing, as with
      rewards of 0 and 1, it acts on the arms' own levels (`arm_levels`). After n visits of a code without an
      arm, the variance of that arm there is multiplied by 1 + (n/200)²: no arm is abandoned for ever.
    * `"printed"`: e + b, equations (e_probabilistic_bound) and (b_probabilistic_bound):
      B_R √(2 log(1/δ_e) + log det V/λ^s) + √N (B_c B_R/δ_b) √tr(I − λV⁻¹) + λ √tr(V⁻¹) B_G.
    * `"gaussian"`: the same e, with b from the Gaussian distribution of β (erratum 15):
      √N B_c B_R √(2 log(2N/δ_b)) min(1, √tr(I − λV⁻¹)) + min(√λ, λ√tr(V⁻¹)) B_G.
    * `"none"`: 0. Without `lambda_` otherwise as `"scaled"`, with it as the two above.

    With constants given it is the paper's algorithm to the letter: no level, no unit, no forgetting, and of
    arms that tie the first is played. V is carried as the factors of its inverse, V⁻¹ = U·diag(D)·U'
    (`filtering.kalman`), which cannot drift or lose its sign.

    An outlier, one reward of 1e6 among ordinary ones, counts as missing by default: `window` random rounds.
    With constants given it ruins the models it enters.

    The regression's target depends on the policy that chose the arms (erratum 10): a limit of the method.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    window : int or "auto"
        s, the number of past rewards in the regression. `UBSS(window="auto")` is an `AdaptiveUBSS`.
    bonus : str
        `"scaled"`, `"printed"`, `"gaussian"` or `"none"`, as above.
    delta_e, delta_b : float
        Probabilities that the bounds e and b fail; `"scaled"` uses `delta_e` alone.
    lambda_ : float, optional
        λ of the ridge regressions; 1 where constants are given. `"scaled"` has .01 in standard units.
    B_c, B_R, B_G : float
        The paper's bounds on actions, rewards and coefficients.

    >>> UBSS(arms=2, window=2).models
    8
    """

    arms: int
    window: int = 2
    bonus: str = "scaled"
    delta_e: float = 0.1
    delta_b: float = 0.1
    lambda_: float | None = None
    B_c: float = 1.0
    B_R: float = 1.0
    B_G: float = 1.0
    rewrites: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("lambda_", "log_e", "delta_b", "B_c", "B_R", "B_G", "given")

    def __new__(cls, **parameters: object) -> Any:
        """`window="auto"` makes an `AdaptiveUBSS`, which has no use for the constants of the paper."""
        if isinstance(parameters.get("window"), str) and parameters["window"] == AUTO:
            return _adaptive(**parameters)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        bonus = one_of("bonus", self.bonus, BONUSES)
        lambda_ = self.lambda_
        if lambda_ is None:
            lambda_ = None if bonus in ("scaled", "none") else 1.0
        elif bonus == "scaled":
            raise InvalidArgument(
                f"lambda_ must be left out when bonus is 'scaled', got {shown(lambda_)} "
                "(it is then a share of the rewards' mean square)"
            )
        self._set(
            arms=check_arms(self.arms),
            window=check_window(self.window, 'the number of last rewards to predict from, or "auto"'),
            delta_e=probability("delta_e", self.delta_e),
            delta_b=probability("delta_b", self.delta_b),
            lambda_=None if lambda_ is None else positive("lambda_", lambda_),
            B_c=positive("B_c", self.B_c),
            B_R=positive("B_R", self.B_R),
            B_G=positive("B_G", self.B_G),
        )

    @classmethod
    def as_printed(
        cls, system: LinearGaussianSystem, window: int = 1, delta: float = 0.1, B_G: float = 10.0
    ) -> Self:
        """Take the paper's constants literally: B_c = max‖c_a‖, B_R = √tr Σ, λ = 1, δ_e = δ_b = δ.

        Parameters
        ----------
        system : LinearGaussianSystem
            Its actions give B_c and its stationary covariance Σ gives B_R.
        window : int
            s.
        delta : float
            δ, the probability that each bound fails.
        B_G : float
            Bound on the coefficients, for which the paper has no value.

        Returns
        -------
        UBSS
            With `bonus="printed"`.

        Examples
        --------
        >>> from kalmanbandits.systems import rotation
        >>> round(UBSS.as_printed(rotation(theta=0.0)).B_R, 1)
        23.4
        """
        system = check_system(system)
        made: Self = cls(
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
        return made

    @property
    def models(self) -> int:
        """k^{s+1}: one model for each arm and code."""
        return int(self.arms ** (self.window + 1))

    @property
    def scale_free(self) -> bool:
        """With `bonus="scaled"`, and with no bonus and no given λ."""
        return self.lambda_ is None

    level_free = scale_free

    @property
    def unpromised(self) -> Mapping[str, str]:
        """With constants given, what only the default holds."""
        if self.scale_free:
            return {"risen arm": "without a bonus nothing is looked at again"} if self.bonus == "none" else {}
        return dict.fromkeys(
            PROMISES, "the paper's algorithm to the letter: no unit, no level, and nothing fades"
        )

    @property
    def seldom(self) -> tuple[str, ...]:
        """The constants and the opening; U, which is 1 for a window of 1; the width where it is constant."""
        fixed = ("lambda_", "log_e", "delta_b", "B_c", "B_R", "B_G", "given", "bonus")
        unused = ("U",) if self.window == 1 else ()
        return (*fixed, "early", "early_arm", "early_x", *unused, *(("width",) if self.scale_free else ()))

    def advice(self) -> str:
        """The largest window that fits."""
        s, k = 0, self.arms
        while 8 * k ** (s + 2) * ((s + 1) * (s + 3) + 3) < LARGEST:  # the models of window s + 1
            s += 1
        return f"the largest window that fits {self.arms} arms is {s}" if s else "no window fits so many arms"

    def fields(self) -> list[Field]:
        """One ridge per code and arm; the last rewards and actions; the constants; level and unit."""
        k, s = self.arms, self.window
        pairs = (k**s, k)
        numbers = ("lambda_", "log_e", "delta_b", "B_c", "B_R", "B_G")
        return [
            ("U", "f8", (*pairs, s, s)),
            ("D", "f8", (*pairs, s)),
            ("G", "f8", (*pairs, s)),
            ("N", "i8", pairs),
            ("width", "f8", pairs),  # in units of `sigma`
            ("last", "i8", pairs),  # the visit of the code at which the arm was last played
            ("visits", "i8", pairs[:1]),
            ("Xi", "f8", (s,)),  # oldest first, in standard units
            ("gain", "f8", (s,)),
            ("code", "i8"),
            ("seen", "i8"),  # rewards in Xi, at most s
            ("bonus", "i8"),
            *((name, "f8") for name in numbers),
            *unit_fields(k, OPENING if self.scale_free else 1),
            *centre_fields(),
            *arm_level_fields(k),
        ]

    def ranges(self) -> dict[str, Range]:
        """The code, the rewards in Ξ, the bonus, and what the opening uses as an index."""
        k, s = self.arms, self.window
        opening = unit_ranges(k, OPENING if self.scale_free else 1) | arm_level_ranges()
        if self.scale_free:
            opening |= centre_ranges()
        bonus = BONUSES.index(self.bonus)
        return {"code": (0, k**s - 1), "seen": (0, s), "bonus": (bonus, bonus), "D": POSITIVE, **opening}

    def start(self, memory: np.void) -> None:
        """No model has seen anything: V = λI."""
        memory["bonus"] = BONUSES.index(self.bonus)
        memory["lambda_"] = self.lambda_ or LAMBDA
        memory["D"] = 1 / memory["lambda_"]
        memory["log_e"] = 2 * math.log(1 / self.delta_e)
        memory["width"] = 0.0 if self.bonus == "none" else math.sqrt(memory["log_e"])
        for name in ("delta_b", "B_c", "B_R", "B_G"):
            memory[name] = getattr(self, name)
        start_unit(memory, None if self.scale_free else 1.0)
        memory["opened"] = not self.scale_free
        if self.scale_free:  # with given constants the level is 0
            start_centre(memory)
        start_levels(memory)

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """Codes are written anew for more arms; the models that came with them are untried."""
        return with_new_codes(memory, larger.memory(), self.window)


# What may be written is what `__init__` takes and the word "auto", not the `**parameters` of `__new__`.
UBSS.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        parameter.replace(annotation="int | str") if name == "window" else parameter
        for name, parameter in inspect.signature(UBSS.__init__).parameters.items()
        if name != "self"
    ]
)


def _adaptive(
    arms: Any = None, window: Any = None, bonus: Any = "scaled", delta_e: Any = 0.1, **others: Any
) -> AdaptiveUBSS:
    """`AdaptiveUBSS` from the parameters of `UBSS`."""
    for name, value in others.items():
        if value is not None and value != UBSS.__dataclass_fields__[name].default:
            raise InvalidArgument(
                f'window must be a number with {name} = {value}, got "auto" (AdaptiveUBSS has no use for it)'
            )
    if bonus not in ("scaled", "none"):
        raise InvalidArgument(
            f'window must be a number with bonus={bonus!r}, got "auto" '
            "(which has a width of its own: bonus='scaled' or 'none')"
        )
    return AdaptiveUBSS(arms=arms, delta_e=delta_e if bonus == "scaled" else 0.5)


@jit
def predict_arm(memory: Any, arm: Any) -> Any:
    """(prediction, √(Ξ'V⁻¹Ξ) times σ̂) of an arm by its model, in the rewards' unit."""
    c, Xi = memory.code, memory.Xi
    q = quadratic(memory.U[c, arm], memory.D[c, arm], Xi)
    if memory.given == 0:
        q *= staleness(memory.visits[c] - memory.last[c, arm])
    prediction = memory.level + memory.unit * dot(memory.G[c, arm], Xi)
    return prediction, memory.unit * memory.sigma * math.sqrt(q)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.seen < memory.Xi.shape[0]:
        return math.nan, math.nan, chance(memory, arm, key, round)
    if memory.plain:
        if memory.v[arm] == 0:
            return math.nan, math.inf, math.inf
        prediction, uncertainty = plain_score(memory, arm, memory.width[0, 0])
        return prediction, uncertainty, prediction + uncertainty
    if memory.N[memory.code, arm] == 0:
        return math.nan, math.inf, math.inf
    prediction, spread = predict_arm(memory, arm)
    uncertainty = memory.width[memory.code, arm] * spread
    return prediction, uncertainty, prediction + uncertainty


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    for t in range(gather(memory, arm, reward)):
        _learn_round(memory, memory.early_arm[t], memory.early_x[t])


@jit
def _learn_round(memory: Any, arm: Any, x: Any) -> None:
    s = memory.Xi.shape[0]
    if arm == NO_REWARD:
        memory.seen = 0  # the window has a hole: gather s new rewards, keep the models
        return
    if memory.seen == s and memory.given > 0:
        learn_given(memory, memory.code, arm, x)
    elif memory.seen == s:
        _learn(memory, memory.code, arm, x)
    if memory.given == 0:
        note_level(memory, arm, x)
    for i in range(s - 1):
        memory.Xi[i] = memory.Xi[i + 1]
    memory.Xi[s - 1] = x
    memory.code = shift(memory.code, arm, memory.pulls.shape[0], memory.N.shape[0])
    if memory.seen < s:
        memory.seen += 1


@jit
def _learn(memory: Any, c: Any, arm: Any, x: Any) -> None:
    """The default: recursive least squares, each row as good as the level is known; then the level."""
    U, D, G, Xi = memory.U[c, arm], memory.D[c, arm], memory.G[c, arm], memory.Xi
    s, k, n = Xi.shape[0], memory.pulls.shape[0], memory.centred
    h = 1.0
    for i in range(s):
        h -= G[i]
    average, g = x, 1.0  # what all arms pay, less the level, and how that depends on the level
    for b in range(k):
        if b != arm:
            for i in range(s):
                average += memory.G[c, b, i] * Xi[i]
                g += memory.G[c, b, i]
    old = staleness(memory.visits[c] - memory.last[c, arm])
    for i in range(s):
        D[i] *= old
    s2 = 1 + h * h * memory.weight / (n * memory.squares)  # in units of σ̂²: Var(level) = 1/n
    error, S = correct(G, U, D, Xi, s2, x, memory.gain)
    memory.visits[c] += 1
    memory.last[c, arm] = memory.visits[c]
    if memory.N[c, arm] > 0 and memory.v[arm] > 0:
        compare(memory, error / math.sqrt(S), plain_error(memory, arm, x))
    memory.N[c, arm] += 1
    memory.level += memory.unit * step_of_level(memory, average / k, g / k, error, h)


@jit
def _first(memory: Any) -> Any:
    return memory.given > 0


register_kernel("UBSS", _score, _update, skip_round, first_of_tied=_first)
