"""A memory on the GPU: its record with short integers, and in two parts.

How many runs a multiprocessor plays at once depends on how much of its shared memory each of them takes. What
a round seldom touches (constants, the opening) lies in local memory instead: the fields that `Spec.seldom`
names, at the end of the record. Kernels see one memory: `two_parts(often, seldom)` has the fields of both.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from kalmanbandits.compilation import FOREIGN
from kalmanbandits.numba_internals.interfaces import gpu_extension
from kalmanbandits.policies.spec import Memory
from kalmanbandits.simulation.gpu_compiler import INSTALLED, SIMULATED, Source


def word_type(precision: str) -> np.dtype[np.uint64] | np.dtype[np.uint32]:
    """Memories travel as words as wide as their numbers."""
    return np.dtype(np.uint64) if precision == "float64" else np.dtype(np.uint32)


@functools.cache
def gpu_dtype(
    dtype: np.dtype[np.void], precision: str, seldom: tuple[str, ...] = (), rewrites: bool = False
) -> np.dtype[np.void]:
    """The type of a record on the GPU: in single precision its 8-byte numbers take 4.

    Of a policy that rewrites much of its memory the integers take 4 bytes in any case, so that more of them
    fit; they come first, behind the kernel's name, and the fields of `seldom` last. (A filter's memory is to
    go into registers, which parts of words cannot; and who knows what the integers of a policy count that is
    not the library's.)
    """
    kernel, *others = dtype.names or ()
    long, packed = precision == "float64", rewrites and kernel not in FOREIGN
    if long and not packed:
        return dtype
    keeps = ("f", "u") if long else ()

    def short(name: str) -> tuple[str, np.dtype[np.generic], tuple[int, ...]]:
        base, shape = dtype[name].subdtype or (dtype[name], ())
        kept = base.itemsize != 8 or base.kind in keeps
        return name, base if kept else np.dtype(f"{base.kind}4"), shape

    def place(field: tuple[str, np.dtype[np.generic], tuple[int, ...]]) -> tuple[bool, bool]:
        rare, real = field[0] in seldom, field[1].kind == "f"
        return rare, real != rare  # reals begin what is seldom used, so that it begins at a whole word

    # The first stays long, so that a record is a whole number of words.
    first = (kernel, dtype[kernel]) if long else short(kernel)
    rest = [short(name) for name in others]
    return np.dtype([first, *(sorted(rest, key=place) if packed else rest)], align=True)


def parts(dtype: np.dtype[np.void], words: int, word: int) -> tuple[np.dtype[np.void], np.dtype[np.void]]:
    """The types of a record's parts when its last `words` words of `word` bytes lie apart."""
    names, begin = dtype.names or (), dtype.itemsize - words * word
    fields = dict(dtype.fields or {})
    often = [(name, fields[name][0]) for name in names if fields[name][1] < begin]
    rest = [(name, fields[name][0]) for name in names if fields[name][1] >= begin]
    return np.dtype(often, align=True), np.dtype(rest, align=True)


def words_apart(dtype: np.dtype[np.void], seldom: tuple[str, ...], word: int) -> int:
    """How many words at the end of a record the fields of `seldom` take."""
    begins = [place for name, (_, place, *_) in (dtype.fields or {}).items() if name in seldom]
    return (dtype.itemsize - min(begins)) // word if begins else 0


def gpu_record(
    record: Memory, precision: str, seldom: tuple[str, ...] = (), rewrites: bool = False
) -> Memory:
    """A record (an array of one) as the GPU has it."""
    result: Memory = np.zeros(1, gpu_dtype(record.dtype, precision, seldom, rewrites))
    for name in record.dtype.names or ():
        result[name] = record[name]
    return result


class TwoParts(types.Type):
    """The type of a memory whose fields lie in two records."""

    def __init__(self, often: types.Record, seldom: types.Record) -> None:
        self.records = often, seldom
        super().__init__(name=f"TwoParts({often}, {seldom})")

    def part(self, field: str) -> int:
        """The number of the record that has a field."""
        return 0 if field in self.records[0].fields else 1


def _teach_compiler() -> Source:
    """Tell numba-cuda of `TwoParts`; returns the function that makes one of two records."""
    extending: Any
    templates: Any
    extending, templates, lowering, typing = gpu_extension()

    @extending.register_model(TwoParts)
    class Model(extending.models.StructModel):  # type: ignore[misc]
        def __init__(self, manager: object, kind: TwoParts) -> None:
            super().__init__(manager, kind, list(zip(("often", "seldom"), kind.records, strict=True)))

    @typing.register_attr
    class Fields(templates.AttributeTemplate):  # type: ignore[misc]
        key = TwoParts

        def generic_resolve(self, kind: TwoParts, field: str) -> types.Type:
            return kind.records[kind.part(field)].typeof(field)

    def get(context: Any, builder: ir.IRBuilder, kind: TwoParts, value: ir.Value, field: str) -> ir.Value:
        part = kind.part(field)
        record = kind.records[part]
        found = context.get_getattr(record, field)
        return found(context, builder, record, builder.extract_value(value, part), field)

    def put(context: Any, builder: ir.IRBuilder, signature: Any, values: Any, field: str) -> ir.Value:
        kind, given = signature.args
        part = kind.part(field)
        written = context.get_setattr(field, signature.return_type(kind.records[part], given))
        return written(builder, (builder.extract_value(values[0], part), values[1]))

    def two_parts(context: object, often: types.Record, seldom: types.Record) -> tuple[object, Source]:
        kind = TwoParts(often, seldom)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, records: Any) -> ir.Value:
            both = context.get_value_type(kind)(ir.Undefined)
            for part in range(2):
                both = builder.insert_value(both, records[part], part)
            return both

        return kind(often, seldom), generate

    lowering.lower_getattr_generic(TwoParts)(get)
    lowering.lower_setattr_generic(TwoParts)(put)
    made: Source = extending.intrinsic(two_parts)
    return made


def _in_one(often: object, seldom: object) -> object:
    """What stands for `two_parts` on the simulator, where memories lie in one part, or without numba-cuda."""
    return often


two_parts = _teach_compiler() if INSTALLED and not SIMULATED else _in_one
