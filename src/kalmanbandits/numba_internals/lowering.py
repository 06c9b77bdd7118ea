"""Numba's compiler without what kernels do not need: most of the time of compiling goes there.

Kernels own no arrays, so references to them need not be counted; they raise nothing, define no functions, and
write no expressions of whole arrays, so the passes that look for such things find none. And an index is never
negative: Numba would compare each one with 0.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, typed_passes, types, untyped_passes
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.datamodel.models import PrimitiveModel
from numba.core.lowering import Lower
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model
from numba.np.arrayobj import load_item, make_array, populate_array, store_item


class KernelLower(Lower):
    """From Numba's representation of a kernel to LLVM's."""

    def setup_function(self, description: Any) -> None:
        """Declare the function, with the attributes by which LLVM is told how to compile it."""
        super().setup_function(description)
        for attribute in getattr(self.func_ir.func_id.func, "attributes", ()):
            self.function.attributes.add(attribute)

    def lower_block(self, block: Any) -> None:
        """All instructions of a block."""
        self.pre_block(block)
        for instruction in block.body:
            self.loc = instruction.loc
            self.lower_inst(instruction)
        self.post_block(block)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Give a variable a value; nobody counts references to the one that it had."""
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Nothing: see `storevar`."""

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """An entry of an array, or a view of it."""
        kind, indices = self.typeof(value.name), self._indices(value, index)
        if indices is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        array = make_array(kind)(self.context, self.builder, self.loadvar(value.name))
        pointer = self._pointer(kind, array, indices)
        if len(indices) == kind.ndim:
            return load_item(self.context, self.builder, kind, pointer)
        view, left = make_array(resty)(self.context, self.builder), slice(len(indices), None)
        shape = cgutils.unpack_tuple(self.builder, array.shape)[left]
        strides = cgutils.unpack_tuple(self.builder, array.strides)[left]
        populate_array(view, pointer, shape, strides, array.itemsize, None)
        return view._getvalue()

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write an entry of an array."""
        kind, indices = self.typeof(target_var.name), self._indices(target_var, index_var)
        if indices is None or len(indices) < kind.ndim:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array = make_array(kind)(self.context, self.builder, self.loadvar(target_var.name))
        given = self.typeof(value_var.name)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), given, kind.dtype)
        store_item(self.context, self.builder, kind, value, self._pointer(kind, array, indices))
        return self.context.get_dummy_value()

    def _indices(self, array: Any, index: Any) -> list[Any] | None:
        """The numbers that an array of numbers is indexed by; None for anything else."""
        kind, place = self.typeof(array.name), self.typeof(index.name)
        if not isinstance(kind, types.Array) or not isinstance(kind.dtype, types.Number | types.Boolean):
            return None
        kinds: list[Any] = [*place] if isinstance(place, types.BaseTuple) else [place]  # type: ignore[misc]
        if not all(isinstance(one, types.Integer) for one in kinds) or kind.layout == "F":
            return None
        value = self.loadvar(index.name)
        values = cgutils.unpack_tuple(self.builder, value) if isinstance(place, types.BaseTuple) else [value]
        return [
            self.context.cast(self.builder, one, of, types.intp)
            for one, of in zip(values, kinds, strict=True)
        ]

    def _pointer(self, kind: Any, array: Any, indices: list[Any]) -> Any:
        """Where in an array an entry or a view begins."""
        builder = self.builder
        if kind.layout == "C":
            shape, place = cgutils.unpack_tuple(builder, array.shape), indices[0]
            for axis in range(1, kind.ndim):
                place = builder.mul(place, shape[axis])
                if axis < len(indices):
                    place = builder.add(place, indices[axis])
            return builder.gep(array.data, [place])
        strides = cgutils.unpack_tuple(builder, array.strides)
        offset = None
        for one, stride in zip(indices, strides, strict=False):
            part = builder.mul(one, stride)
            offset = part if offset is None else builder.add(offset, part)
        return cgutils.pointer_add(builder, array.data, offset)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(typed_passes.BaseNativeLowering):
    """The pass that lowers."""

    _name = "kernel_lowering"  # type: ignore[assignment]

    @property
    def lowering_class(self) -> type[Lower]:
        """Which class does it."""
        return KernelLower


def kernel_passes() -> PassManager:
    """Numba's passes, as far as kernels need them."""
    passes = PassManager("kernel")
    for one in (
        untyped_passes.TranslateByteCode,
        untyped_passes.FixupArgs,
        untyped_passes.IRProcessing,
        untyped_passes.GenericRewrites,
        untyped_passes.ReconstructSSA,
        typed_passes.NopythonTypeInference,
        typed_passes.PreLowerStripPhis,
        KernelLowering,
        typed_passes.NoPythonBackend,
    ):
        passes.add_pass(one, one.__name__)
    passes.finalize()
    return passes


class Reference(types.Type):
    """Of kernels: where a named tuple lies. To call with the tuple itself is to pass each number in it."""

    def __init__(self, held: types.NamedTuple) -> None:
        self.held = held
        super().__init__(f"Reference({held})")


@register_model(Reference)
class ReferenceModel(PrimitiveModel):
    """A pointer."""

    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, manager[kind.held].get_value_type().as_pointer())


@infer_getattr
class ReferenceAttributes(AttributeTemplate):
    """The types of its fields."""

    key = Reference

    def generic_resolve(self, kind: Reference, name: str) -> Any:  # type: ignore[override]
        """Of one."""
        return kind.held.types[kind.held.fields.index(name)]


@lower_getattr_generic(Reference)
def _field(context: Any, builder: Any, kind: Reference, value: Any, name: str) -> Any:
    return builder.load(cgutils.gep_inbounds(builder, value, 0, kind.held.fields.index(name)))


@intrinsic
def reference_to(typing: Any, held: Any) -> Any:
    """Where a named tuple lies, for as long as the function runs that asks."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return cgutils.alloca_once_value(builder, arguments[0])

    return Reference(held)(held), build


@intrinsic
def held_by(typing: Any, reference: Any) -> Any:
    """The named tuple that lies there; a tuple is itself."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(arguments[0]) if isinstance(reference, Reference) else arguments[0]

    return getattr(reference, "held", reference)(reference), build
