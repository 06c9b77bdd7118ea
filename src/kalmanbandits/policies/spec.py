"""What people write: a frozen, validated description from which a fresh memory is made."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.errors import InvalidArgument, InvalidType, whole
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

Memory = np.ndarray[Any, np.dtype[np.void]]

# One object for equal types: Numba compares others field by field in every call, three times the call itself.
DTYPES: dict[np.dtype[np.void], np.dtype[np.void]] = {}

FORMAT = 1  # of memories: raised when the meaning of a field changes


class Spec:
    """A description of something that plays: its parameters, and the memory they start with.

    A subclass is a frozen dataclass with `arms`, and says what its memory holds: `fields()` lists the NumPy
    fields after `pulls`, `start(memory)` writes the first values into a zeroed record; fields named `work_…`
    are scratch, and nothing in them outlasts a call. `kernel` names the compiled functions; it is the class's
    name unless said otherwise.

    Two promises that `testing.check_policy` holds a policy to: `deterministic`, that scores depend on what
    was seen and not on chance; `scale_free`, that multiplying all rewards by a number changes no choice.
    """

    arms: int
    kernel: ClassVar[str]
    deterministic: ClassVar[bool] = True
    attends_every_round: ClassVar[bool] = False  # `attend` is part of the round, not long work now and then
    lengthens: ClassVar[tuple[str, ...]] = ()  # fields that more arms make longer, and that may be padded
    known: ClassVar[dict[str, type[Spec]]] = {}

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
        Spec.known[cls.__name__] = cls

    @property
    def scale_free(self) -> bool:
        """Whether multiplying all rewards by a number changes no choice."""
        return False

    def fields(self) -> list[tuple[Any, ...]]:
        """The fields of the memory after the kernel's name and `pulls`."""
        return []

    def start(self, memory: Any) -> None:
        """Write the first values into a memory of zeros."""

    def attend(self, memory: Memory) -> None:
        """Do the work that is too long for a kernel, when the kernel's `due` asks for it."""

    def dtype(self) -> np.dtype[np.void]:
        """The type of the memory: 8-byte fields, the first named after the kernel, then `pulls` (arms)."""
        fields = [(self.kernel, "i8"), ("pulls", "i8", (self.arms,)), *self.fields()]
        return np.dtype(fields, align=True)

    def memory(self) -> Memory:
        """A fresh memory: a NumPy array of one record."""
        dtype = self.dtype()
        memory: Memory = np.zeros(1, DTYPES.setdefault(dtype, dtype))
        memory[self.kernel] = FORMAT
        self.start(memory[0])
        return memory

    def with_arms(self, arms: int) -> Self:
        """The same description for another number of arms."""
        if "arms" not in (field.name for field in dataclasses.fields(self)):  # type: ignore[arg-type]
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
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                result[field.name] = value.to_dict() if isinstance(value, LinearGaussianSystem) else value
        return result

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Spec:
        """The description that `to_dict` wrote."""
        parameters = dict(values)
        name = parameters.pop("policy", None)
        if name not in Spec.known:
            raise InvalidArgument(f"policy must name a policy, got {name!r}{nearest(str(name), Spec.known)}")
        cls = Spec.known[name]
        allowed = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
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


def check_arms(arms: Any) -> int:
    """The number of arms, at least one."""
    return whole("arms", arms, 1, "a policy needs something to choose from")


def check_system(system: Any) -> LinearGaussianSystem:
    """A system, for policies that know theirs."""
    if not isinstance(system, LinearGaussianSystem):
        raise InvalidType(
            f"system must be a LinearGaussianSystem, got {system!r} "
            "(a policy that need not know the system: UBSS(arms=…))"
        )
    return system


def nearest(name: str, names: Any) -> str:
    """A hint for a misspelt name."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(sorted(names))})"
