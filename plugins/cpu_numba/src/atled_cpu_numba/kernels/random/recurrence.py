"""numba intrinsics of MRG31k3p: a step of a stream in 32-bit integers, bits of a float, and the float beside another.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Remainders are taken without division: x mod M of an x below 2 M is the lesser of x and x - M, which wraps around where
x is below M.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from atled_cpu_numba.codegen import JIT

_M1, _M2 = 2147483647, 2147462579
_REST = 21069  # 2**31 - M2
_INT = ir.IntType(32)


class _Writer:
    """Arithmetic on 32-bit integers without a sign."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def constant(self, value: int) -> Any:
        return ir.Constant(_INT, value)

    def split(self, x: Any, bits: int) -> tuple[Any, Any]:
        """The lowest bits moved to the top of 31 bits, and the others moved down."""
        low = self._builder.and_(x, self.constant((1 << bits) - 1))
        return self._builder.shl(low, self.constant(31 - bits)), self._builder.lshr(x, self.constant(bits))

    def reduced(self, x: Any, modulus: int) -> Any:
        """x mod modulus, x below twice that."""
        less = self._builder.sub(x, self.constant(modulus))
        return self._builder.select(self._builder.icmp_unsigned("<", x, less), x, less)

    def sum(self, a: Any, b: Any, modulus: int) -> Any:
        """(a + b) mod modulus, both about modulus at most."""
        return self.reduced(self._builder.add(a, b), modulus)

    def first(self, x12: Any, x13: Any) -> Any:
        """(2^22 x12 + (2^7 + 1) x13) mod M1; modulo M1, 2^31 is 1."""
        (a, b), (c, d) = self.split(x12, 9), self.split(x13, 24)
        add = self._builder.add
        return self.sum(self.sum(add(a, b), add(c, d), _M1), x13, _M1)

    def second(self, x21: Any, x23: Any) -> Any:
        """(2^15 x21 + (2^15 + 1) x23) mod M2; modulo M2, 2^31 is 21069."""
        sums = []
        for x in (x21, x23):
            a, b = self.split(x, 16)
            sums.append(self.sum(a, self._builder.mul(b, self.constant(_REST)), _M2))
        return self.sum(self.sum(sums[1], x23, _M2), sums[0], _M2)

    def combined(self, x1: Any, x2: Any) -> Any:
        """x1 - x2, and M1 more where that is not positive."""
        builder = self._builder
        more = builder.select(builder.icmp_signed(">", x1, x2), self.constant(0), self.constant(_M1))
        return builder.add(builder.sub(x1, x2), more)


@intrinsic
def advanced(typing_context: Any, x12: Any, x13: Any, x21: Any, x23: Any) -> Any:
    """(x1, x2, z) of a stream with x1[n-2], x1[n-3], x2[n-1], x2[n-3], all int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        w = _Writer(builder)
        x1, x2 = w.first(*arguments[:2]), w.second(*arguments[2:])
        return context.make_tuple(builder, signature.return_type, [x1, x2, w.combined(x1, x2)])

    return types.UniTuple(types.int32, 3)(*(types.int32,) * 4), generate


def _cast(name: str, source: Any, target: Any, kind: Any) -> Any:
    """An intrinsic: the bits of a number as another type."""

    def typing(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], kind)

        return target(source), generate

    typing.__name__ = typing.__qualname__ = name
    return intrinsic(typing)


_bits32 = _cast("bits32", types.float32, types.int32, _INT)
_float32 = _cast("float32_of_bits", types.int32, types.float32, ir.FloatType())
bits64 = _cast("bits64", types.float64, types.int64, ir.IntType(64))
_float64 = _cast("float64_of_bits", types.int64, types.float64, ir.DoubleType())


def _beside(bits: Any, of_bits: Any, whole: Any, real: Any) -> Any:
    @njit(**JIT)
    def next_to(x, other):
        if x == other or x != x or other != other:
            return x
        if x == real(0):
            least = of_bits(whole(1))
            return least if other > x else -least
        step = whole(1) if (other > x) == (x > real(0)) else whole(-1)
        return of_bits(whole(bits(x) + step))

    return next_to


_beside32 = _beside(_bits32, _float32, types.int32, types.float32)
_beside64 = _beside(bits64, _float64, types.int64, types.float64)


def beside(dtype: str) -> Any:
    """The numba function `beside(x, other)`, the float next to x towards another one, for "float32" or "float64"."""
    return {"float32": _beside32, "float64": _beside64}[dtype]
