"""What can be done with a memory, whatever policy it belongs to.

A memory is a NumPy record whose first field is named after its kernel. The verbs below find the kernel by
that name: the compiler does, at compile time, from the record's type, so that a call costs nothing and its
machine code can be kept on disk; and plain Python does, from the record's dtype, so that the same code runs
uncompiled.

    score(memory, arm, key, round) -> (prediction, uncertainty, index)
    update(memory, arm, reward)         the reward of the chosen arm has come
    skip(memory, arm)                   it never will
    peek(memory, means, key, round)     an oracle sees what no policy may; nothing for policies
    due(memory) -> bool                 the memory wants `Spec.attend`, work too long for a kernel
    first_of_tied(memory) -> bool       of arms that tie the first is played, instead of one by chance

`round` counts from 0, and chance is read by address from `(key, round)`: see `streams`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import lower_builtin, type_callable

from kalmanbandits.compilation import entry, jit, note_foreign_kernel, routine
from kalmanbandits.errors import Array, InvalidArgument, InvalidType, function, instance, shown
from kalmanbandits.numba_internals.records import SizedRecord
from kalmanbandits.streams import TIES, word

TIE = 1e-9  # arms whose index is within this share of the best one's are equally good
_32 = np.uint64(32)


Score = Callable[[np.void, int, np.uint64, int], tuple[float, float, float]]
Update = Callable[[np.void, int, float], None]
Skip = Callable[[np.void, int], None]
Peek = Callable[[np.void, Array, np.uint64, int], None]
Ask = Callable[[np.void], bool]


class Kernel(NamedTuple):
    """The compiled functions of one policy."""

    score: Score
    update: Update
    skip: Skip
    peek: Peek
    due: Ask
    first_of_tied: Ask


KERNELS: dict[str, Kernel] = {}

KNOWN = 1  # in a script of rounds: its reward has come


@jit
def no_change(memory: Any, arm: Any) -> None:
    """`skip` of a policy that learns nothing from a round without a reward."""


@jit
def see_nothing(memory: Any, means: Any, key: Any, round: Any) -> None:
    """`peek` of every policy: only oracles see the means."""


@jit
def never(memory: Any) -> Any:
    """`due` of a policy without long work to do; `first_of_tied` of one that favours no arm by its place."""
    return False


def register_kernel(
    name: str,
    score: Score,
    update: Update,
    skip: Skip = no_change,
    peek: Peek = see_nothing,
    due: Ask = never,
    first_of_tied: Ask = never,
) -> None:
    """Make the memories whose first field is `name` run on these compiled functions.

    Parameters
    ----------
    name : str
        That of the spec's class, or its `kernel`.
    score : callable
        `score(memory, arm, key, round)` returns `(prediction, uncertainty, index)` of one arm. The available
        arm with the largest index is played; NaN stands for a prediction that is not made.
    update : callable
        `update(memory, arm, reward)` learns from the reward of the arm that was played.
    skip : callable, optional
        `skip(memory, arm)` passes over a round whose reward never came; by default nothing changes.
    peek : callable, optional
        `peek(memory, means, key, round)` shows an oracle the mean reward of every arm, shape (arms,).
    due : callable, optional
        `due(memory)` returns whether `Spec.attend` is wanted before the next choice.
    first_of_tied : callable, optional
        `first_of_tied(memory)` returns whether the first of tied arms is played, not one at random.
    """
    instance("name", name, str)
    given = Kernel(score, update, skip, peek, due, first_of_tied)
    for verb, one in given._asdict().items():
        function(verb, one, way := "compiled by kalmanbandits.compilation.jit")
        if not hasattr(one, "__code__"):  # a class, or an object that can be called
            raise InvalidType(f"{verb} must be a function, got {shown(one)} ({way})")
    taken = KERNELS.get(name)
    if taken is not None and taken.score.__module__ != score.__module__:
        raise InvalidArgument(
            f"name must be a new one, got {shown(name)} (a kernel of {taken.score.__module__})"
        )
    if note_foreign_kernel(name, given):
        raise InvalidArgument(
            f"name must be a new one where the functions are other than before, got {shown(name)} (what was "
            "compiled for it stays in use: give the class another name, or start Python anew)"
        )
    KERNELS[name] = given


def kernel_of(memory: np.void | types.Record | SizedRecord) -> Kernel:
    """The kernel a record (or its Numba type) belongs to."""
    name = next(iter(memory.fields if isinstance(memory, types.Type) else memory.dtype.names or ()))
    try:
        return KERNELS[name]
    except KeyError:
        raise InvalidArgument(f"memory must belong to a registered kernel, got {name!r}") from None


def score(memory: np.void, arm: int, key: np.uint64, round: int) -> tuple[float, float, float]:
    """What the policy thinks of one arm: (prediction, uncertainty, index)."""
    return kernel_of(memory).score(memory, arm, key, round)


def update(memory: np.void, arm: int, reward: float) -> None:
    """Learn from the reward of the chosen arm."""
    kernel_of(memory).update(memory, arm, reward)


def skip(memory: np.void, arm: int) -> None:
    """Pass over a round whose reward will never come."""
    kernel_of(memory).skip(memory, arm)


def peek(memory: np.void, means: Array, key: np.uint64, round: int) -> None:
    """Show an oracle the mean reward of every arm in this round."""
    kernel_of(memory).peek(memory, means, key, round)


def due(memory: np.void) -> bool:
    """Whether the memory wants `Spec.attend` before the next choice."""
    return kernel_of(memory).due(memory)


def first_of_tied(memory: np.void) -> bool:
    """Whether the first of arms that tie is played."""
    return kernel_of(memory).first_of_tied(memory)


def _teach(verb: Callable[..., object]) -> None:
    """Tell the compiler that `verb` is the function of this name in the memory's kernel.

    An `overload` would do as well, and compile a function more for each verb and type of memory.
    """

    def function(memory: Any) -> Any:
        return types.Dispatcher(getattr(kernel_of(memory), verb.__name__))

    def found(context: Any) -> Any:
        def signature(memory: Any, *rest: Any) -> Any:
            made = function(memory).get_call_type(context, (memory, *rest), {})
            _check_result(next(iter(memory.fields)), verb.__name__, made.return_type)
            return made

        signature.pysig = inspect.signature(verb)  # type: ignore[attr-defined]  # Numba's lowering has no *rest
        return signature

    def called(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_function(function(signature.args[0]), signature)(builder, arguments)

    type_callable(verb)(found)
    lower_builtin(verb, types.VarArg(types.Any))(called)  # type: ignore[no-untyped-call]


def _check_result(kernel: str, verb: str, result: Any) -> None:
    """Refuse a kernel whose function returns what cannot be used: the compiler would name our code."""
    real = (types.Integer, types.Float, types.Boolean)
    if verb == "score":
        parts = getattr(result, "types", ())
        right = len(parts) == 3 and all(isinstance(part, real) for part in parts)
        wanted = "(prediction, uncertainty, index), three numbers"
    else:
        right = isinstance(result, real) or verb in ("update", "skip", "peek")
        wanted = "True or False"
    if not right:
        raise InvalidArgument(f"{verb} of the kernel {kernel!r} must return {wanted}, got {result}")


for _verb in (score, update, skip, peek, due, first_of_tied):
    _teach(_verb)


@jit
def select(memory: Any, scores: Any, available: Any, key: Any, round: Any) -> Any:
    """The one choice rule: the available arm with the best index; of those that tie one by address.

    Fills `scores` (k, 3) for the arms available.
    """
    k = memory.pulls.shape[0]
    best = second = -math.inf
    first = -1
    for a in range(k):
        if available[a]:
            prediction, uncertainty, index = score(memory, a, key, round)
            scores[a, 0] = prediction
            scores[a, 1] = uncertainty
            scores[a, 2] = index
            if index > best:
                second, best, first = best, index, a
            elif index > second:
                second = index
    threshold = best if math.isinf(best) else best - TIE * abs(best)
    if second < threshold:
        return first
    return _one_of_tied(memory, scores, available, threshold, key, round)


@routine
def _one_of_tied(memory: Any, scores: Any, available: Any, threshold: Any, key: Any, round: Any) -> Any:
    """One of the arms whose index reaches the threshold: the first if the policy says so, else by address."""
    tied, first = 0, -1
    for a in range(available.shape[0]):
        if available[a] and scores[a, 2] >= threshold:
            tied += 1
            if first < 0:
                first = a
    if tied == 1 or (tied > 1 and first_of_tied(memory)):
        return first
    return _one_by_address(scores, available, threshold, tied, key, round)


@routine
def _one_by_address(scores: Any, available: Any, threshold: Any, tied: Any, key: Any, round: Any) -> Any:
    """One of the `tied` arms by the number at `(key, round)`; of all available where no index is a number."""
    k, every = available.shape[0], tied == 0
    if every:
        for a in range(k):
            tied += available[a]
    left = (np.uint64(word(key, TIES, round)) * np.uint64(tied)) >> _32  # uniform on 0 … tied − 1
    for a in range(k):
        if available[a] and (every or scores[a, 2] >= threshold):
            if left == 0:
                return a
            left -= np.uint64(1)
    return -1


@jit
def learn(memory: Any, arm: Any, reward: Any) -> None:
    """`update`, and the count of pulls that every memory keeps."""
    memory.pulls[arm] += 1
    update(memory, arm, reward)


@entry
def select_once(memories: Any, scores: Any, available: Any, key: Any, round: Any) -> Any:
    """`select` on a length-1 array of memories: passing the record itself costs ten times as much."""
    return select(memories[0], scores, available, key, round)


@entry
def learn_once(memories: Any, arm: Any, reward: Any) -> Any:
    """`learn` on a length-1 array of memories; says whether it is now `due`."""
    learn(memories[0], arm, reward)
    return due(memories[0])


@entry
def skip_once(memories: Any, arm: Any) -> Any:
    """`skip` on a length-1 array of memories; says whether it is now `due`."""
    skip(memories[0], arm)
    return due(memories[0])


@entry
def replay_once(memories: Any, arms: Any, rewards: Any, states: Any, first: Any, last: Any) -> None:
    """Rounds `first` … `last` − 1 of a script: `learn` where the state is `KNOWN`, `skip` where it is not.

    Round n stands at n modulo the length of the arrays, which is a power of two.
    """
    memory, mask = memories[0], arms.shape[0] - 1
    for n in range(first, last):
        i = n & mask
        if states[i] == KNOWN:
            learn(memory, arms[i], rewards[i])
        else:
            skip(memory, arms[i])


@entry
def due_once(memories: Any) -> Any:
    """`due` on a length-1 array of memories."""
    return due(memories[0])


@entry
def score_once(memories: Any, scores: Any, key: Any, round: Any) -> None:
    """The scores (k, 3) of every arm, available or not."""
    memory = memories[0]
    for a in range(memory.pulls.shape[0]):
        scores[a, 0], scores[a, 1], scores[a, 2] = score(memory, a, key, round)
