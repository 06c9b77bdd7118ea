"""Records whose number of arms is known when they are used, not when they are compiled for.

Numba knows every size in a record from its type, and so compiles for every number of arms anew. That makes
short kernels fast and long ones slow to start. Of a record that was `noted` here the type says that one size
is k: where a field begins and how large it is are linear in k, and k follows from the size of the record.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.core.datamodel.models import StructModel
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import Purpose, typeof
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    register_model,
    type_callable,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from kalmanbandits.errors import InvalidArgument

Dtype = np.dtype[np.void]
K = -1  # in a shape


class Linear(NamedTuple):
    """A number of bytes: `fixed` + `each` · k."""

    fixed: int
    each: int


class Part(NamedTuple):
    """A field: the type of its numbers, its shape with `K` for the number of arms, and where it begins."""

    number: types.Type
    shape: tuple[int, ...]
    begin: Linear


class SizedRecord(types.Type):
    """The type of such a record in kernels; `fields` as in Numba's own records."""

    def __init__(self, fields: dict[str, Part], size: Linear) -> None:
        self.fields, self.size = fields, size
        super().__init__(f"Record({list(fields.items())}, {size})")

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """What stands for it in the name of a kernel: not all fields, letter by letter."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16], ()


class SizedMemories(types.Type):
    """The type of an array of one such record."""

    def __init__(self, record: SizedRecord) -> None:
        self.record = record
        super().__init__(f"Memories({record})")


_noted: dict[Dtype, SizedMemories] = {}


def note_sized(dtype: Dtype, two: Dtype, three: Dtype) -> None:
    """Compile for any number of arms at once what is given an array of one record of this type.

    The other types are those of the same memory for two and for three arms. Raises `InvalidArgument` where
    a field is not linear in their number: compiled code would read and write elsewhere.
    """
    fields, size = {}, _through(two.itemsize, three.itemsize)
    k = (dtype.itemsize - size.fixed) // size.each
    for name in dtype.names or ():
        (shape, begin), (of_two, begin_two), (of_three, begin_three) = (
            (one[name].shape, one.fields[name][1]) for one in (dtype, two, three) if one.fields is not None
        )
        any_shape = tuple(K if a != b else a for a, b in zip(of_two, of_three, strict=False))
        part = Part(from_dtype(dtype[name].base), any_shape, _through(begin_two, begin_three))
        linear = begin == part.begin.fixed + k * part.begin.each
        if not linear or shape != tuple(k if n == K else n for n in any_shape):
            raise InvalidArgument(
                f"any_arms must be False for a memory with a field such as {name!r}, got shape {of_two} for "
                f"two arms, {of_three} for three and {shape} here (its size must be linear in their number)"
            )
        fields[name] = part
    _noted[dtype] = SizedMemories(SizedRecord(fields, size))


def _through(two: int, three: int) -> Linear:
    """What is so many bytes for k = 2 and k = 3."""
    return Linear(3 * two - 2 * three, three - two)


def type_of(value: object) -> Any:
    """The type that a kernel is compiled for when it is given `value`."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype in _noted:
        return _noted[value.dtype]
    return typeof(value, Purpose.argument)


@register_model(SizedRecord)
@register_model(SizedMemories)
class SizedModel(StructModel):
    """Where it begins, and k."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("data", types.voidptr), ("k", types.intp)])


@unbox(SizedMemories)
def _unbox(kind: SizedMemories, value: Any, c: Any) -> NativeValue:
    array = make_array(types.Array(types.uint8, 1, "C"))(c.context, c.builder)
    failed = c.pyapi.numba_array_adaptor(value, c.builder.bitcast(array._getpointer(), c.pyapi.voidptr))
    made = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    made.data = array.data
    fixed, each = map(array.itemsize.type, kind.record.size)
    made.k = c.builder.sdiv(c.builder.sub(array.itemsize, fixed), each)
    return NativeValue(made._getvalue(), is_error=cgutils.is_not_null(c.builder, failed))


@type_callable(operator.getitem)
def _type_item(context: Any) -> Any:
    def typer(memories: Any, index: Any) -> Any:
        return memories.record if isinstance(memories, SizedMemories) else None

    return typer


@lower_builtin(operator.getitem, SizedMemories, types.Integer)
def _item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return arguments[0]


@infer_getattr
class SizedAttributes(AttributeTemplate):
    """The types of its fields."""

    key = SizedRecord

    def generic_resolve(self, kind: SizedRecord, name: str) -> Any:  # type: ignore[override]
        """Of one."""
        part = kind.fields.get(name)
        if part is None:
            return None
        return types.Array(part.number, len(part.shape), "C") if part.shape else part.number


def _begin(context: Any, builder: Any, kind: SizedRecord, value: Any, name: str) -> tuple[Any, Any]:
    """Where a field begins, and k."""
    record = cgutils.create_struct_proxy(kind)(context, builder, value)
    fixed, each = kind.fields[name].begin
    place = builder.add(record.k.type(fixed), builder.mul(record.k.type(each), record.k))
    number = context.get_data_type(kind.fields[name].number).as_pointer()
    return builder.bitcast(cgutils.pointer_add(builder, record.data, place), number), record.k


@lower_getattr_generic(SizedRecord)
def _get(context: Any, builder: Any, kind: SizedRecord, value: Any, name: str) -> Any:
    pointer, k = _begin(context, builder, kind, value, name)
    part = kind.fields[name]
    if not part.shape:
        return context.unpack_value(builder, part.number, pointer)
    shape = [k if n == K else k.type(n) for n in part.shape]
    size = k.type(context.get_abi_sizeof(context.get_data_type(part.number)))
    strides = [size]
    for n in shape[:0:-1]:
        strides.insert(0, builder.mul(n, strides[0]))
    array = make_array(types.Array(part.number, len(shape), "C"))(context, builder)
    populate_array(array, pointer, shape, strides, size, None)
    return array._getvalue()


@lower_setattr_generic(SizedRecord)
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> Any:
    kind, number = signature.args
    pointer, _ = _begin(context, builder, kind, arguments[0], name)
    context.pack_value(builder, number, arguments[1], pointer)
