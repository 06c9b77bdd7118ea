"""What people write: a frozen, validated description from which a fresh memory is made."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.errors import InvalidArgument, InvalidType, mapping, shown, whole
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

Memory = np.ndarray[Any, np.dtype[np.void]]

# One object for equal types: Numba compares others field by field in every call, three times the call itself.
DTYPES: dict[np.dtype[np.void], np.dtype[np.void]] = {}

FORMAT = 1  # of memories: raised when the meaning of a field changes
PROMISES = ("quiet start", "glitch", "0/1 rewards", "risen arm", "unlucky start")  # see `testing.robustness`
LARGEST = 2**30  # bytes that a memory may take: a record of more than 4 GiB cannot even be addressed

Range = tuple[float, float]  # the least and the largest value a field may hold


class Spec:
    """A description of something that plays: its parameters, and the memory they start with.

    A subclass is a frozen dataclass with `arms`, and says what its memory holds: `fields()` lists the NumPy
    fields after `pulls`, `start(memory)` writes the first values into a zeroed record, and `ranges()` says
    what the fields may hold that are used as an index or a count. Fields named `work_…` are scratch: nothing
    in them outlasts a call. `kernel` names the compiled functions; it is the class's name unless said
    otherwise.

    What `testing.check_policy` holds a policy to: `deterministic`, that scores depend on what was seen and
    not on chance; `scale_free`, that multiplying all rewards by a number changes no choice; `level_free`,
    that adding one does not; and every promise of `testing.robustness` that `unpromised` does not except,
    with the reason.
    """

    arms: int
    kernel: ClassVar[str]
    deterministic: ClassVar[bool] = True
    attends_every_round: ClassVar[bool] = False  # `attend` is part of the round, not long work now and then
    lengthens: ClassVar[tuple[str, ...]] = ()  # fields that more arms make longer, and that may be padded
    known: ClassVar[dict[str, type[Spec]]] = {}
    rounding: ClassVar[float] = 1e-9  # to which scores do not depend on the numbering of the arms

    def __init_subclass__(cls, **keywords: Any) -> None:
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

    def __init__(self, *_: Any, **__: Any) -> None:
        raise _no_dataclass(type(self))

    def __post_init__(self) -> None:
        self.check_size()

    @property
    def scale_free(self) -> bool:
        """Whether multiplying all rewards by a number changes no choice."""
        return False

    @property
    def level_free(self) -> bool:
        """Whether adding a number to all rewards changes no choice."""
        return False

    @property
    def unpromised(self) -> Mapping[str, str]:
        """The promises of `testing.robustness` that are not made, each with the reason."""
        return {}

    def fields(self) -> list[tuple[Any, ...]]:
        """The fields of the memory after the kernel's name and `pulls`."""
        return []

    def ranges(self) -> dict[str, Range]:
        """The least and the largest value of each field that the kernel uses as an index or a count."""
        return {}

    def advice(self) -> str:
        """What to change when the memory would be too large."""
        return "choose smaller parameters, or fewer arms"

    def start(self, memory: Any) -> None:
        """Write the first values into a memory of zeros."""

    def attend(self, memory: Memory) -> None:
        """Do the work that is too long for a kernel, when the kernel's `due` asks for it."""

    def dtype(self) -> np.dtype[np.void]:
        """The type of the memory: 8-byte fields, the first named after the kernel, then `pulls` (arms)."""
        self.check_size()
        dtype = np.dtype(self.layout(), align=True)
        for name in dtype.names or ():
            if dtype[name].base.kind not in "iufb":
                raise InvalidType(
                    f"{type(self).__name__}.fields() must list numbers, got {dtype[name].base} for {name!r} "
                    "(a memory is saved and copied byte by byte)"
                )
        return dtype

    def layout(self) -> list[tuple[Any, ...]]:
        """All fields of the memory, in order."""
        return [(self.kernel, "i8"), ("pulls", "i8", (self.arms,)), *self.fields()]

    def check_size(self) -> None:
        """Refuse parameters whose memory would be larger than 1 GiB, before anything asks for it."""
        size = 0
        for _, kind, *shape in self.layout():
            size += np.dtype(kind).itemsize * math.prod(shape[0] if shape else ())
        if size > LARGEST:
            large = f"{size / 2**30:,.1f} GiB" if size < 2**80 else f"2^{size.bit_length() - 31} GiB"
            raise InvalidArgument(
                f"{type(self).__name__} must have a memory of at most 1 GiB, these parameters need {large} "
                f"({self.advice()})"
            )

    def check_memory(self, memory: Memory) -> None:
        """Refuse a memory that no play of this description could have left: for what comes from outside.

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
        dtype = self.dtype()
        if getattr(memory, "dtype", None) != dtype or memory.shape != (1,):
            raise InvalidArgument(
                f"memory must be one record as {type(self).__name__}.memory() makes it, "
                "got another type or shape"
            )
        limits: dict[str, Range] = {self.kernel: (FORMAT, FORMAT), "pulls": (0, math.inf), **self.ranges()}
        for name in dtype.names or ():
            values = memory[name][0]
            if name.startswith("work_"):
                continue
            if np.isnan(values).any():
                raise InvalidArgument(f"memory[{name!r}] must hold numbers, got NaN (the record is damaged)")
            low, high = limits.get(name, (-math.inf, math.inf))
            wrong = np.extract((values < low) | (values > high), values)
            if wrong.size:
                raise InvalidArgument(
                    f"memory[{name!r}] must lie between {low:g} and {high:g}, got {wrong[0]} "
                    "(the record is damaged)"
                )

    def memory(self) -> Memory:
        """A fresh memory: a NumPy array of one record."""
        dtype = self.dtype()
        memory: Memory = np.zeros(1, DTYPES.setdefault(dtype, dtype))
        memory[self.kernel] = FORMAT
        self.start(memory[0])
        return memory

    def with_arms(self, arms: int) -> Self:
        """The same description for another number of arms."""
        if "arms" not in parameters_of(type(self)):
            raise InvalidArgument(
                f"{type(self).__name__} cannot take another arm: it knows a system of {self.arms} "
                "(describe the larger system and begin a new agent with it)"
            )
        return dataclasses.replace(self, arms=arms)  # type: ignore[type-var]

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """All that `memory` knows, as a memory of `larger`, the same description for more arms.

        Here: fields with one row an arm (and those named in `lengthens`) get fresh rows at their end,
        constants that depend on the number of arms are those of `larger`, all else stays. A policy whose
        memory is laid out otherwise says how itself.
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
        """The description as plain values, for TOML, JSON and save files."""
        result: dict[str, Any] = {"policy": type(self).__name__}
        for name in parameters_of(type(self)):
            value = getattr(self, name)
            if value is not None:
                result[name] = value.to_dict() if isinstance(value, LinearGaussianSystem) else value
        return result

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Spec:
        """The description that `to_dict` wrote."""
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

    def _set(self, **values: Any) -> Self:
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


def _then_checked(own: Callable[[Any], None]) -> Callable[[Any], None]:
    """`__post_init__`, and the size of the memory after it; once, where a class calls that of its parent."""

    @functools.wraps(own)
    def both(self: Spec) -> None:
        own(self)
        if type(self).__post_init__ is both:
            self.check_size()

    return both


def check_arms(arms: Any) -> int:
    """The number of arms, at least one."""
    return whole("arms", arms, 1, "a policy needs something to choose from")


def check_system(system: Any) -> LinearGaussianSystem:
    """A system, for policies that know theirs."""
    if not isinstance(system, LinearGaussianSystem):
        raise InvalidType(
            f"system must be a LinearGaussianSystem, got {shown(system)} "
            "(a policy that need not know the system: UBSS(arms=…))"
        )
    return system


def nearest(name: object, names: Any) -> str:
    """A hint for a misspelt name."""
    close = difflib.get_close_matches(name if isinstance(name, str) else "", list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(sorted(names))})"
