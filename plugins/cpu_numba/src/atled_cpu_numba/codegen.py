"""numba intrinsics that kernels need beyond plain Python: typed pointers from addresses, calls by address, bit casts.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.

    from atled_cpu_numba.codegen import floats32, words

    @layout                                    # of kernels.shared.layout
    class Block:
        count: int
        x: int
        y: int

    def negate(block, part, parts):            # a kernel, see store.Kernel
        w = words(block)
        x, y = floats32(w[Block.x]), floats32(w[Block.y])
        for i in range(w[Block.count] * part // parts, w[Block.count] * (part + 1) // parts):
            y[i] = -x[i]
        return 0

Indexing a pointer has no bounds and no negative indices, so it stays out of the way of the vectorizer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# Without nnan and ninf: NaN and infinity must come through, and the two flags gain nothing measurable. Without reassoc:
# how LLVM splits a sum depends on the processor. `kernels.shared.sums` writes the lanes of sums.
_FASTMATH = {"contract", "nsz", "arcp"}

# error_model="numpy": Python's check for a zero divisor would raise, and keeps loops from being vectorized.
JIT: dict[str, Any] = {"error_model": "numpy", "fastmath": _FASTMATH}

_INT64 = ir.IntType(64)


def _pointer_cast(name: str, item: Any, ir_item: Any) -> Any:  # numba and llvmlite ship no types
    """An intrinsic `name(int64 address) -> CPointer(item)`."""

    def cast(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], ir_item.as_pointer())

        return types.CPointer(item)(types.int64), generate

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The int64 `address` as a pointer to {item}."
    return intrinsic(cast)


words = _pointer_cast("words", types.int64, ir.IntType(64))
ints64 = _pointer_cast("ints64", types.int64, ir.IntType(64))
ints32 = _pointer_cast("ints32", types.int32, ir.IntType(32))
ints16 = _pointer_cast("ints16", types.int16, ir.IntType(16))
bytes8 = _pointer_cast("bytes8", types.uint8, ir.IntType(8))
floats32 = _pointer_cast("floats32", types.float32, ir.FloatType())
floats64 = _pointer_cast("floats64", types.float64, ir.DoubleType())


@intrinsic
def call3(typing_context: Any, address: Any, block: Any, part: Any, parts: Any) -> Any:
    """Call the kernel at the int64 `address`: kernel(block, part, parts) -> int64.

    The address must reach the kernel through its argument block: one written into the code would be stored
    with it and be wrong in the next process.
    """
    signature = types.int64(types.int64, types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kernel_type = ir.FunctionType(_INT64, [_INT64, _INT64, _INT64])
        kernel = builder.inttoptr(arguments[0], kernel_type.as_pointer())
        return builder.call(kernel, arguments[1:])

    return signature, generate


@intrinsic
def add_atomically(typing_context: Any, address: Any, value: Any) -> Any:
    """Add the int64 `value` to the one at `address`, and return what was there before.

    What a thread wrote before its call is seen by the threads whose call comes later.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(arguments[0], _INT64.as_pointer()), arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def float64_of_bits(typing_context: Any, bits: Any) -> Any:
    """The float64 whose bits are those of the int64 `bits`; float attributes come so."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate
