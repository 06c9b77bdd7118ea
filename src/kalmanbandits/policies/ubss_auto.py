"""UBSS with `window="auto"`: the models of windows 1 to 4 in one tree, and the window that predicts best.

    Ĝ_{a|𝐜,s}   shrunk towards Ĝ of the same arm and the s − 1 newest actions of 𝐜 (`learning.shrinkage`)
    loss_s ← 0.999 loss_s + (X − Ĝ_{a|𝐜,s}'Ξ)²      before the reward X is learned from; the least one decides
    index_a = Ĝ_{a|𝐜,s}'Ξ + z_{1−δ_e} √Var(Ĝ_{a|𝐜,s}'Ξ)          z the quantile of the normal law

The paper leaves the choice of the window open. Windows that learn side by side and are compared by their
errors do not settle it: the best predictor is not the cheapest to explore, and each of the k^{s+1} models of
a long window has to be tried (docs/decisions/0011). Here a long window costs little: a sequence of actions
that has not been seen falls back on the shorter one it ends in. Only models of window 1 are tried for no
other reason than that they never were.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from kalmanbandits.compilation import jit
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.learning.codes import decode, encode, shift
from kalmanbandits.learning.shrinkage import fit, model_fields, node, observe, predict, variance
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory
from kalmanbandits.policies.verbs import TIE, register_kernel

AUTO = "auto"
KERNEL = "UBSSAuto"
WINDOWS = 4  # the most
LARGEST = 2**30  # bytes of memory the models may ask for
ROOM = 2**26  # bytes that windows above 1 may take
FORGET = 0.999  # of running prediction errors, a round
LEAST = 1e-6  # of the mean square reward: smaller errors count as that, so that V + Λ can be inverted


def check(arms: int, bonus: str, lambda_: float | None, delta_e: float) -> None:
    """Refuse parameters that `"auto"` has no use for."""
    if bonus not in ("scaled", "none") or lambda_ is not None:
        given = f"lambda_ = {lambda_}" if bonus == "none" else f"bonus={bonus!r}"
        raise InvalidArgument(
            f'window must be a number with {given}, got "auto" '
            "(which has a width of its own: bonus='scaled' or 'none', and no lambda_)"
        )
    if delta_e > 0.5:
        raise InvalidArgument(
            f'delta_e must be at most 0.5 when window is "auto", got {delta_e} '
            "(the index is the quantile 1 - delta_e of what the arm may pay)"
        )
    longest = windows(arms)
    size = memory_size(arms, longest)
    if size > LARGEST:
        raise InvalidArgument(
            f'arms must be fewer for window="auto", got {arms}: {models(arms, longest):,} models '
            f"would need {size / 2**30:,.1f} GiB"
        )


def windows(arms: int) -> int:
    """The longest window considered: 4, or fewer with so many arms that their models would not fit.

    >>> [windows(arms) for arms in (2, 10, 20, 50, 200)]
    [4, 4, 3, 2, 1]
    """
    return max((s for s in range(2, WINDOWS + 1) if memory_size(arms, s) <= ROOM), default=1)


def models(arms: int, longest: int) -> int:
    """k² + … + k^{s+1}."""
    return sum(arms ** (s + 1) for s in range(1, longest + 1))


def memory_size(arms: int, longest: int) -> int:
    """The bytes of all models up to a window: for each an s × s matrix, a vector and a number."""
    return 8 * models(arms, longest) * (longest * longest + longest + 1)


def fields(arms: int) -> list[tuple[Any, ...]]:
    """The models; what the windows have lost; and what gives the rewards their unit."""
    s = windows(arms)
    return [
        *model_fields(arms, s),
        ("loss", "f8", (s,)),
        ("window", "i8"),  # the one that decides
        ("seen", "i8"),  # rewards in Xi, at most s
        ("total", "f8"),  # of all rewards' squares
        ("count", "i8"),
        ("squares", "f8"),
        ("weight", "f8"),
        ("width", "f8"),  # z_{1−δ_e}
    ]


def start(memory: Any, bonus: str, delta_e: float) -> None:
    """The shortest window decides first."""
    memory["window"] = 1
    memory["width"] = 0.0 if bonus == "none" else NormalDist().inv_cdf(1 - delta_e)


def grow(memory: Memory, grown: Memory) -> Memory:
    """What `memory` holds, put into `grown`, a fresh memory of more arms and no longer windows."""
    old, new = memory[0], grown[0]
    k, n, longest = old["pulls"].size, new["pulls"].size, new["Xi"].size
    new["pulls"][:k] = old["pulls"]
    for s in range(1, longest + 1):
        for code in range(k**s):
            here, there = node(code, k, s), node(encode(decode(code, k, s), n), n, s)
            new["V"][there, :k] = old["V"][here, :, :longest, :longest]
            new["b"][there, :k] = old["b"][here, :, :longest]
            new["N"][there, :k] = old["N"][here]
    new["Xi"], new["loss"] = old["Xi"][:longest], old["loss"][:longest]
    for name in ("total", "count", "squares", "weight"):
        grown[name] = memory[name]
    newest = decode(old["code"], k, old["Xi"].size)[-longest:]
    grown["code"] = encode(newest, n)
    grown["seen"] = min(old["seen"], longest)
    grown["window"] = min(old["window"], longest)
    return grown


@jit
def _noise(memory: Any) -> Any:
    """σ̂², the running mean square one-step error."""
    return max(memory.squares / memory.weight, LEAST * memory.total / memory.count)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.seen == 0 or memory.total == 0:
        return math.nan, math.nan, chance(memory, arm, key, round)
    if memory.N[memory.code % memory.pulls.shape[0], arm] == 0:
        return math.nan, math.inf, math.inf
    s, noise = min(memory.window, memory.seen), _noise(memory)
    fit(memory, arm, noise, s)
    prediction = predict(memory, s)
    uncertainty = memory.width * math.sqrt(variance(memory, noise, s))
    return prediction, uncertainty, prediction + uncertainty


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    k, longest = memory.pulls.shape[0], memory.Xi.shape[0]
    if memory.seen > 0 and memory.total > 0:
        if memory.N[memory.code % k, arm] > 0:
            _compare(memory, arm, reward)
        observe(memory, arm, reward, memory.seen)
    memory.total += reward * reward
    memory.count += 1
    if memory.weight == 0 and reward != 0:  # until then there is no unit to work in
        memory.squares = reward * reward
        memory.weight = 1.0
    codes = k
    for i in range(longest - 1, 0, -1):
        memory.Xi[i] = memory.Xi[i - 1]
        codes *= k
    memory.Xi[0] = reward
    memory.code = shift(memory.code, arm, k, codes)
    if memory.seen < longest:
        memory.seen += 1


@jit
def _compare(memory: Any, arm: Any, reward: Any) -> None:
    """Add every window's error to its loss, the deciding one's to σ̂, and let the least loss decide.

    After a gap windows that are not full again predict as the longest full one does.
    """
    full = memory.seen
    fit(memory, arm, _noise(memory), full)
    for i in range(memory.Xi.shape[0]):
        error = reward - predict(memory, min(i + 1, full))
        memory.loss[i] = FORGET * memory.loss[i] + error * error
        if i + 1 == memory.window:
            memory.squares = FORGET * memory.squares + error * error
            memory.weight = FORGET * memory.weight + 1
    best = 0
    for i in range(1, memory.Xi.shape[0]):
        if memory.loss[i] < (1 - TIE) * memory.loss[best]:  # rounding must not lengthen the window
            best = i
    memory.window = best + 1


@jit
def _skip(memory: Any, arm: Any) -> None:
    memory.seen = 0  # the windows have a hole: they fill again one reward after the other


register_kernel(KERNEL, _score, _update, _skip)
