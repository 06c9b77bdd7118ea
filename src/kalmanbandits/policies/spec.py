"""Specs: frozen, validated descriptions of policies, from which fresh memories are made."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from kalmanbandits.compilation import Field
from kalmanbandits.errors import InvalidArgument, InvalidType, mapping, nearest, shown, whole
from kalmanbandits.numba_internals.records import note_sized
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

Memory = np.ndarray[Any, np.dtype[np.void]]

# One object for equal types: Numba compares others field by field in every call, three times the call itself.
DTYPES: dict[np.dtype[np.void], np.dtype[np.void]] = {}

FORMAT = 1  # of memories: raised when the meaning of a field changes
PROMISES = ("quiet start", "outlier", "0/1 rewards", "risen arm", "unlucky start")  # see `testing.robustness`
LARGEST = 2**30  # bytes that a memory may take: a record of more than 4 GiB cannot even be addressed

Range = tuple[float, float]  # the least and the largest value a field may hold
COUNT: Range = (0, 2**52)  # beyond it a count plus one is no longer told apart as a float64
BEYOND = 1e150  # what no round of ours leaves in a field without a range: its square is still a number
REWARDS: Range = (-1e113, 1e113)  # one reward, of at most 1e100, or the sum of a great many
SQUARES: Range = (0, 1e226)  # of such
POSITIVE: Range = (0, BEYOND)
WEIGHT: Range = (1e-300, BEYOND)  # by which something is divided


class BackgroundWork(NamedTuple):
    """Work that a thread can do while its agent plays on."""

    work: Callable[[], object]
    urgent: bool  # its result is needed before the next choice


class Spec:
    """The parameters of a policy or an oracle, and the memory that it starts with.

    A subclass is a frozen dataclass with `arms`. It describes its memory: `fields()` lists the NumPy fields
    after `pulls`, `start(memory)` writes the first values into a record of zeros, and `ranges()` bounds the
    fields that are used as an index or a count. Fields named `work_…` are scratch space: nothing in them
    outlasts a call. `kernel` names the compiled functions; it is the class's name unless set.

    `testing.check_policy` holds a policy to what it declares: that its scores depend on the rewards seen and
    not on random numbers (`deterministic`), that multiplying all rewards by a positive number changes no
    choice (`scale_free`), nor does adding a number (`level_free`), and all promises of `testing.robustness`
    but those that `unpromised` lists, each with its reason.
    """

    arms: int
    kernel: ClassVar[str]
    deterministic: ClassVar[bool] = True
    attends_every_round: ClassVar[bool] = False  # `attend` is part of the round, not long work now and then
    lengthens: ClassVar[tuple[str, ...]] = ()  # fields that more arms make longer, and that may be padded
    constants: ClassVar[tuple[str, ...]] = ()  # fields that `start` writes and no round changes
    rewrites: ClassVar[bool] = False  # a round reads and writes much of the memory, not a few words of it
    any_arms: ClassVar[bool] = False  # one machine code serves every number of arms: for long kernels
    known: ClassVar[dict[str, type[Spec]]] = {}
    rounding: ClassVar[float] = 1e-9  # to which scores do not depend on the numbering of the arms

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if "kernel" not in cls.__dict__:
            cls.kernel = cls.__name__
        taken = Spec.known.get(cls.__name__)
        if taken is not None and is_ours(taken) and not is_ours(cls):
            raise InvalidArgument(
                f"a policy of your own must not be named {cls.__name__!r}, as one of the library is "
                "(save files and studies could not tell them apart: rename the class)"
            )
        if "__post_init__" in cls.__dict__:
            setattr(cls, "__post_init__", _then_checked(cls.__dict__["__post_init__"]))  # noqa: B010 - or mypy objects
        Spec.known[cls.__name__] = cls

    def __init__(self, *_: object, **__: object) -> None:
        raise _no_dataclass(type(self))

    def __post_init__(self) -> None:
        self.check_size()

    @property
    def seldom(self) -> tuple[str, ...]:
        """Fields that most rounds leave alone or only read: on a GPU they lie in slower memory."""
        return ()

    @property
    def scale_free(self) -> bool:
        """Whether multiplying all rewards by a number changes no choice."""
        return False

    @property
    def level_free(self) -> bool:
        """Whether adding a number to all rewards changes no choice."""
        return False

    @property
    def has_long_work(self) -> bool:
        """Whether the policy stops now and then for work that is too long for a kernel (`attend`)."""
        return type(self).attend is not Spec.attend

    @property
    def unpromised(self) -> Mapping[str, str]:
        """The promises of `testing.robustness` that are not made, each with the reason."""
        return {}

    def fields(self) -> list[Field]:
        """List what the memory holds after the kernel's name and `pulls`.

        Returns
        -------
        list of tuple
            Name, NumPy type and, for an array, shape of each field, as `numpy.dtype` takes them; 8-byte
            numbers only.
        """
        return []

    def ranges(self) -> dict[str, Range]:
        """Bound the fields that the kernel uses as an index or a count.

        Returns
        -------
        dict of str to (float, float)
            The least and the largest value that each may hold; `check_memory` refuses others.
        """
        return {}

    def advice(self) -> str:
        """Say what to change when the memory would be too large.

        Returns
        -------
        str
            The end of the error message.
        """
        return "choose smaller parameters, or fewer arms"

    def start(self, memory: np.void) -> None:
        """Write what is known before the first round.

        Parameters
        ----------
        memory : numpy.void
            A record of zeros with the fields of `layout()`; changed in place.
        """

    def attend(self, memory: Memory) -> None:
        """Do the work that is too long for a kernel, when the kernel's `due` asks for it.

        Parameters
        ----------
        memory : ndarray of shape (1,)
            As `memory()` makes it; changed in place.
        """

    def background_work(self, memory: Memory) -> BackgroundWork | None:
        """Give the part of the work that a thread can do while the agent waits for rewards or plays on.

        When the result is needed, `attend(memory, result)` is called; if no thread has computed one,
        `attend(memory)` is, and computes the same itself. So no choice depends on threads.

        Parameters
        ----------
        memory : ndarray of shape (1,)
            As `memory()` makes it. The method may note in it that the work has begun; the work reads a copy.

        Returns
        -------
        BackgroundWork or None
            The work, and whether its result is needed before the next choice; None if there is none.
        """
        return None

    def dtype(self) -> np.dtype[np.void]:
        """Give the type of the memory.

        Returns
        -------
        numpy.dtype
            A structured type: a field named after the kernel, `pulls` of shape (arms,), then `fields()`.
        """
        self.check_size()
        dtype = np.dtype(self.layout(), align=True)
        for name in dtype.names or ():
            kind = dtype[name].base
            unfit = kind.kind not in "iufb" or kind in (np.float16, np.longdouble) or not kind.isnative
            if unfit or (kind.kind == "b" and dtype[name].shape):  # Numba has no arrays of truths in records
                raise InvalidType(
                    f"{type(self).__name__}.fields() must list numbers, got {kind} for {name!r} "
                    "(such as can be compiled, saved and copied byte by byte: 'f8', 'i8')"
                )
        if self.any_arms and dtype not in DTYPES:
            two, three = (np.dtype(self.with_arms(k).layout(), align=True) for k in (2, 3))
            note_sized(dtype, two, three)
        return DTYPES.setdefault(dtype, dtype)

    def layout(self) -> list[Field]:
        """List all fields of the memory, in order.

        Returns
        -------
        list of tuple
            As `fields()`, with the kernel's name and `pulls` in front.
        """
        own = self.fields()
        if not isinstance(own, (list, tuple)):
            raise self._no_field(own)
        return [(self.kernel, "i8"), ("pulls", "i8", (self.arms,)), *own]

    def _no_field(self, found: object) -> InvalidType:
        return InvalidType(
            f"{type(self).__name__}.fields() must list fields such as ('mean', 'f8') and "
            f"('sum', 'f8', (arms,)), got {shown(found)}"
        )

    def check_size(self) -> None:
        """Refuse parameters whose memory would be larger than 1 GiB, before anything asks for it."""
        size, names = 0, set[str]()
        for field in self.layout():
            try:
                name, kind, *shape = field
                np.dtype([(name, kind)])  # it says what is wrong with a name or a type
                lengths = tuple(map(operator.index, *shape or [()]))
                if min(lengths, default=0) < 0:
                    raise ValueError("a length below 0")
                size += np.dtype(kind).itemsize * math.prod(lengths)
            except (TypeError, ValueError) as error:
                raise self._no_field(field) from error
            if name in names:
                raise InvalidArgument(
                    f"{type(self).__name__}.fields() must have names of their own, got {name!r} twice "
                    f"({self.kernel!r} and 'pulls' are there already)"
                )
            names.add(name)
        if size > LARGEST:
            large = f"{size / 2**30:,.1f} GiB" if size < 2**80 else f"2^{size.bit_length() - 31} GiB"
            raise InvalidArgument(
                f"{type(self).__name__} must have a memory of at most 1 GiB, these parameters need {large} "
                f"({self.advice()})"
            )

    def check_layout(self, memory: Memory) -> None:
        """Refuse anything but a memory of this policy: compiled code would read and write out of bounds.

        Parameters
        ----------
        memory : ndarray of shape (1,)
            One record of type `dtype()`, from `memory()`, `grow()` or a file.

        Raises
        ------
        InvalidArgument
            If its type or shape differs.
        """
        if not isinstance(memory, np.ndarray) or memory.dtype != self.dtype() or memory.shape != (1,):
            raise InvalidArgument(
                f"memory must be one record as {type(self).__name__}.memory() makes it, "
                "got another type or shape"
            )

    def check_memory(self, memory: Memory) -> None:
        """Refuse a memory that no sequence of rounds could have led to: for records read from a file.

        Parameters
        ----------
        memory : ndarray of shape (1,)
            As `memory()` makes it, of type `dtype()`.

        Raises
        ------
        InvalidArgument
            With the field, the value and what it may be, if a field is outside its range (`ranges`) or holds
            NaN. What passes can be played on without reading or writing out of bounds.
        """
        self.check_layout(memory)
        dtype, fresh = self.dtype(), self.memory()
        limits: dict[str, Range] = {self.kernel: (FORMAT, FORMAT), "pulls": COUNT, **self.ranges()}
        for name in dtype.names or ():
            values, first = memory[name][0], fresh[name][0]
            if name.startswith("work_"):
                continue
            if np.isnan(values).any():
                raise InvalidArgument(f"memory[{name!r}] must hold numbers, got NaN (the record is damaged)")
            # Equal but for the rounding of another machine.
            if name in self.constants and (abs(values - first) > 1e-9 * np.max(abs(first), initial=0)).any():
                raise InvalidArgument(
                    f"memory[{name!r}] must be as the parameters of {type(self).__name__} give it "
                    "(the record is damaged)"
                )
            low, high = limits.get(name) or self._undeclared(first)
            wrong = np.extract((values < low) | (values > high), values)
            if wrong.size:
                raise InvalidArgument(
                    f"memory[{name!r}] must lie between {low:g} and {high:g}, got {wrong[0]} "
                    "(the record is damaged)"
                )

    def _undeclared(self, fresh: Any) -> Range:
        """What a field without a range may hold: in a policy of your own any number but NaN."""
        if not is_ours(type(self)):
            return -math.inf, math.inf
        if fresh.dtype.kind != "f":
            return COUNT
        most = max(BEYOND, 1e3 * float(np.max(abs(fresh), initial=0.0)))
        return -most, most

    def memory(self) -> Memory:
        """Make a fresh memory.

        Returns
        -------
        ndarray of shape (1,)
            One record of type `dtype()`, as before the first round.
        """
        memory: Memory = np.zeros(1, self.dtype())
        memory[self.kernel] = FORMAT
        self.start(memory[0])
        return memory

    def with_arms(self, arms: int) -> Self:
        """Give the same parameters for another number of arms.

        Parameters
        ----------
        arms : int
            Their number.

        Returns
        -------
        Spec
            A copy of this one, of its own class.
        """
        if "arms" not in parameters_of(type(self)):
            raise InvalidArgument(
                f"{type(self).__name__} cannot take another arm: it knows a system of {self.arms} "
                "(describe the larger system and begin a new agent with it)"
            )
        return dataclasses.replace(self, arms=arms)  # type: ignore[type-var]

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """Carry a memory over to more arms, with all that was learned.

        Fields with one row per arm (and those named in `lengthens`) get fresh rows at their end, constants
        that depend on the number of arms are those of `larger`, and the rest is copied. A policy whose memory
        is laid out in another way overrides this method.

        Parameters
        ----------
        memory : ndarray of shape (1,)
            A memory of this spec; not changed.
        larger : Spec
            `with_arms` of more arms.

        Returns
        -------
        ndarray of shape (1,)
            A memory of `larger`.
        """
        before, grown = self.memory(), larger.memory()
        for name in memory.dtype.names or ():
            old, new = memory[name][0], grown[name][0]
            rows = (np.shape(old)[:1], np.shape(new)[:1]) == ((self.arms,), (larger.arms,))
            if np.shape(old) != np.shape(new):
                if np.shape(old)[1:] != np.shape(new)[1:] or not (rows or name in self.lengthens):
                    raise InvalidArgument(
                        f"{type(self).__name__} cannot take another arm while it plays: "
                        f"nothing says what becomes of {name!r} in its memory (begin a new agent)"
                    )
                new[: len(old)] = old
            elif np.array_equal(before[name], grown[name]):
                grown[name] = memory[name]
            elif not np.array_equal(memory[name], before[name]):
                raise InvalidArgument(
                    f"{type(self).__name__} cannot take another arm while it plays: "
                    f"{name!r} in its memory depends on their number (begin a new agent)"
                )
        return grown

    def to_dict(self) -> dict[str, Any]:
        """Write the parameters as plain values, for TOML, JSON and save files.

        Returns
        -------
        dict
            `"policy"`, the name of the class, and every parameter that is not None.
        """
        result: dict[str, Any] = {"policy": type(self).__name__}
        for name in parameters_of(type(self)):
            value = getattr(self, name)
            if value is not None:
                result[name] = value.to_dict() if isinstance(value, LinearGaussianSystem) else value
        return result

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Spec:
        """Read what `to_dict` wrote.

        Parameters
        ----------
        values : dict
            `"policy"`, the name of a class of the library or of one defined since, and its parameters.

        Returns
        -------
        Spec
            An instance of that class.
        """
        parameters = dict(mapping("values", values, "such as what to_dict returns"))
        name = parameters.pop("policy", None)
        if not isinstance(name, str) or name not in Spec.known:
            raise InvalidArgument(f"policy must name a policy, got {shown(name)}{nearest(name, Spec.known)}")
        cls = Spec.known[name]
        allowed = parameters_of(cls)
        for parameter in parameters:
            if parameter not in allowed:
                raise InvalidArgument(f"{name} has no parameter {parameter!r}{nearest(parameter, allowed)}")
        if "system" in parameters and isinstance(parameters["system"], dict):
            parameters["system"] = LinearGaussianSystem.from_dict(parameters["system"])
        return cls(**parameters)

    def _set(self, **values: object) -> Self:
        """Put validated values into a frozen dataclass during `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
        return self


class Policy(Spec):
    """A `Spec` that needs only what an agent sees: runs in `Agent` and in `simulate`."""


def is_ours(cls: type) -> bool:
    """Whether a class comes with the library."""
    return cls.__module__.startswith("kalmanbandits.")


def parameters_of(cls: type[Spec]) -> list[str]:
    """The names of a description's parameters."""
    if not dataclasses.is_dataclass(cls):
        raise _no_dataclass(cls)
    return [field.name for field in dataclasses.fields(cls)]


def _no_dataclass(cls: type[Spec]) -> InvalidType:
    return InvalidType(
        f"{cls.__name__} must be a dataclass "
        "(put @dataclass(frozen=True, kw_only=True) above the class, and its parameters as fields)"
    )


def _then_checked(own: Callable[[Spec], None]) -> Callable[[Spec], None]:
    """`__post_init__`, and the size of the memory after it; once, where a class calls that of its parent."""

    @functools.wraps(own)
    def both(self: Spec) -> None:
        own(self)
        if type(self).__post_init__ is both:
            self.check_size()

    return both


def check_arms(arms: object) -> int:
    """The number of arms, at least one."""
    return whole("arms", arms, 1, "a policy needs something to choose from")
