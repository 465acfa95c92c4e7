"""Intrinsics on vectors of floats whose arrays may be float16 or bfloat16: widened as they are loaded, rounded once.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.narrow_vectors import STORED, pair_to_floats, rounded, widened
from atled_cpu_numba.kernels.shared.vectors import Writer, generate_transpose, make_transpose_block, vector_intrinsic

_INT16, _INT32 = ir.IntType(16), ir.IntType(32)


class NarrowWriter(Writer):
    """Computes in vectors of float32 on memory of float16 or bfloat16: pointers and offsets are in its elements.

    What is stored must come of nothing but what has been loaded, and of constants: `from_narrow` of `rounded`.

    dtype: of the memory.  moves: whether what is stored has been loaded or is 0, so that nothing is to be rounded.
    compared: whether what is loaded is compared with each other. LLVM compares numbers that it knows to be widened
        float16 as they were before, and widens them for that once more, each time.
    size: of a float as it is computed with.
    """

    def __init__(self, builder: Any, dtype: str, *, moves: bool, compared: bool = False) -> None:
        super().__init__(builder)
        self._is_hidden = compared and dtype == "float16"
        self.has_pairs = dtype == "bfloat16"
        self._dtype, self._stored, self._moves = dtype, STORED[dtype], moves
        self._stored_vector = ir.VectorType(self._stored, self.width)

    def pointer(self, address: Any) -> Any:
        return self.builder.inttoptr(address, self._stored.as_pointer())

    def load_one(self, pointer: Any) -> Any:
        return widened(self, self.builder.load(pointer, align=2, typ=self._stored), self._dtype, 1)

    def load_lanes(self, pointer: Any, lanes: int) -> Any:
        if lanes == 1:
            return self.builder.bitcast(self.load_one(pointer), ir.VectorType(self.float, 1))
        kind = ir.VectorType(self._stored, lanes)
        place = self.builder.bitcast(pointer, kind.as_pointer())
        return self._hidden(widened(self, self.builder.load(place, align=2, typ=kind), self._dtype, lanes))

    def store_lanes(self, value: Any, pointer: Any, lanes: int) -> None:
        if lanes == 1:
            value = self.builder.bitcast(value, self.float)
        kind = self._stored if lanes == 1 else ir.VectorType(self._stored, lanes)
        self.builder.store(self._narrowed(value, lanes), self.builder.bitcast(pointer, kind.as_pointer()), align=2)

    def load(self, pointer: Any) -> Any:
        place = self.builder.bitcast(pointer, self._stored_vector.as_pointer())
        return self._widened(self.builder.load(place, align=2, typ=self._stored_vector))

    def store(self, value: Any, pointer: Any) -> None:
        place = self.builder.bitcast(pointer, self._stored_vector.as_pointer())
        self.builder.store(self._narrowed(value, self.width), place, align=2)

    def load_masked(self, pointer: Any, mask: Any, otherwise: Any = None) -> Any:
        # As whole numbers: LLVM has no masks for halves everywhere.
        numbers = ir.VectorType(_INT16, self.width)
        place, nothing = self.builder.bitcast(pointer, numbers.as_pointer()), ir.Constant(numbers, [0] * self.width)
        function = self.declare(
            f"llvm.masked.load.v{self.width}i16.p0", numbers, [place.type, _INT32, mask.type, numbers]
        )
        value = self.builder.call(function, [place, ir.Constant(_INT32, 2), mask, nothing])
        value = self._widened(self.builder.bitcast(value, self._stored_vector))
        return value if otherwise is None else self.builder.select(mask, value, otherwise)

    def store_masked(self, value: Any, pointer: Any, mask: Any) -> None:
        numbers = ir.VectorType(_INT16, self.width)
        place = self.builder.bitcast(pointer, numbers.as_pointer())
        value = self.builder.bitcast(self._narrowed(value, self.width), numbers)
        kind = [numbers, place.type, _INT32, mask.type]
        function = self.declare(f"llvm.masked.store.v{self.width}i16.p0", ir.VoidType(), kind)
        self.builder.call(function, [value, place, ir.Constant(_INT32, 2), mask])

    def load_pairs(self, pointer: Any, mask: Any) -> tuple[Any, Any]:
        """Of bfloat16 the even and the odd elements of twice a vector, by a shift and a mask of words.

        mask: of the pairs that are read, 0 elsewhere; None for all.
        """
        builder, words = self.builder, self._words
        place = builder.bitcast(pointer, words.as_pointer())
        if mask is None:
            value = builder.load(place, align=2, typ=words)
        else:
            kind = [place.type, _INT32, mask.type, words]
            function = self.declare(f"llvm.masked.load.v{self.width}i32.p0", words, kind)
            value = builder.call(function, [place, ir.Constant(_INT32, 2), mask, ir.Constant(words, [0] * self.width)])
        return pair_to_floats(builder, value)

    def store_pairs(self, even: Any, odd: Any, pointer: Any, mask: Any) -> None:
        """The other way."""
        builder, words = self.builder, self._words
        lower, upper = (builder.zext(self._narrowed(value, self.width), words) for value in (even, odd))
        value = builder.or_(lower, builder.shl(upper, self._number(16)))
        place = builder.bitcast(pointer, words.as_pointer())
        if mask is None:
            builder.store(value, place, align=2)
            return
        kind = [words, place.type, _INT32, mask.type]
        function = self.declare(f"llvm.masked.store.v{self.width}i32.p0", ir.VoidType(), kind)
        builder.call(function, [value, place, ir.Constant(_INT32, 2), mask])

    @property
    def _words(self) -> Any:
        return ir.VectorType(_INT32, self.width)

    def _number(self, value: int) -> Any:
        return ir.Constant(self._words, [value] * self.width)

    def _widened(self, value: Any) -> Any:
        return self._hidden(widened(self, value, self._dtype, self.width))

    def _hidden(self, value: Any) -> Any:
        """A vector, of which LLVM is not to know what it was, if that matters; no instruction."""
        if not self._is_hidden:
            return value
        function = self.declare(f"llvm.arithmetic.fence.v{value.type.count}f32", value.type, [value.type])
        return self.builder.call(function, [value])

    def _narrowed(self, value: Any, lanes: int) -> Any:
        if not (self._moves and self.has_pairs):
            return rounded(self, value, self._dtype, lanes, from_narrow=True)
        words, kind = (element if lanes == 1 else ir.VectorType(element, lanes) for element in (_INT32, self._stored))
        sixteen = ir.Constant(words, 16 if lanes == 1 else [16] * lanes)
        return self.builder.trunc(self.builder.lshr(self.builder.bitcast(value, words), sixteen), kind)


def memory_intrinsic(
    name: str,
    argument_count: int,
    generate: Callable[..., None],
    doc: str,
    dtype: str,
    *,
    moves: bool = False,
    compared: bool = False,
) -> Any:
    """As `vector_intrinsic`, of arrays of any float; what generate writes reads and writes through its writer alone.

    moves, compared: as of `NarrowWriter`.
    """
    if dtype in SIZES:
        return vector_intrinsic(name, argument_count, generate, doc, dtype)

    def typing(typing_context, arguments):
        signature = types.void(types.Tuple([types.int64] * argument_count))

        def code(context, builder, signature, values):
            given = (builder.extract_value(values[0], i) for i in range(argument_count))
            generate(NarrowWriter(builder, dtype, moves=moves, compared=compared), *given)
            return context.get_dummy_value()

        return signature, code

    typing.__name__ = typing.__qualname__ = name
    typing.__doc__ = doc
    return intrinsic(typing)


def make_widening_transpose_block(dtype: str) -> Any:
    """As `make_transpose_block`, of rows of any float; what is narrow becomes float32."""
    if dtype in SIZES:
        return make_transpose_block(dtype)

    def generate(w, *arguments):
        generate_transpose(w, *arguments, reader=NarrowWriter(w.builder, dtype, moves=True))

    return vector_intrinsic("widening_transpose_block", 5, generate, "See make_widening_transpose_block.")
