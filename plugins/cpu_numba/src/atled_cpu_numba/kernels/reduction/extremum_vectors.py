"""The extremum of neighbouring numbers and its place in vectors, written out.

LLVM would take narrower ones, compare each for NaN, and look for the place one by one.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.elements import real_of
from atled_cpu_numba.kernels.shared.narrow_vectors import STORED, opaque_one, widened
from atled_cpu_numba.kernels.shared.options import Real
from atled_cpu_numba.kernels.shared.vectors import Writer

_PAIRS = 4  # of vectors in a round, each with an extremum of its own: so many hide how long one takes


@functools.cache
def extremum_of_vectors(dtype: str, sign: int) -> Any:
    """numba's function extremum(x, count) -> the extremum of `count` numbers from the address x on, and a flag.

    sign: 1 for the highest, -1 for the lowest.  count: at least the lanes of a vector.  The flag is an int64, not 0 if
    one of the numbers is NaN; the extremum is any number then. Narrow numbers are read as float32.
    """

    def typing(typing_context: Any, address: Any, count: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return context.make_tuple(builder, signature.return_type, _Writer(builder, dtype, sign).write(*values))

        return types.Tuple((Real(real_of(dtype)).kind, types.int64))(types.int64, types.int64), code

    typing.__name__ = typing.__qualname__ = "extremum"
    typing.__doc__ = "The extremum of neighbouring numbers."
    return intrinsic(typing)


@functools.cache
def place_in_vectors(dtype: str) -> Any:
    """numba's function place(x, count, value) -> the first place in `count` numbers from the address x on of a value.

    value: one that is there; NaN stands for all of them.  count: at least the lanes of a vector.
    """

    def typing(typing_context: Any, address: Any, count: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _Writer(builder, dtype).find(*values)

        kind: Any = Real(real_of(dtype)).kind
        return types.int64(types.int64, types.int64, kind), code

    typing.__name__ = typing.__qualname__ = "place"
    typing.__doc__ = "The first place of a value."
    return intrinsic(typing)


class _Writer(Writer):
    """Writes the code of both; sign: of an extremum."""

    def __init__(self, builder: Any, dtype: str, sign: int = 1) -> None:
        super().__init__(builder, real_of(dtype))
        self._dtype = dtype
        self._one = self.splat(opaque_one(builder)) if dtype == "float16" else None
        self._name = "max" if sign > 0 else "min"
        self._masks = ir.VectorType(ir.IntType(8 * self.size), self.width)

    def write(self, address: Any, count: Any) -> list[Any]:
        """The extremum, and whether there is a NaN."""
        builder, x = self.builder, self._place(address)
        no_nan = ir.Constant(self._masks, [0] * self.width)
        step = 2 * _PAIRS * self.width
        rounds = builder.sdiv(count, self.number(step))
        start = [self.load(x)] * _PAIRS + [no_nan]
        with self.counted(rounds, start) as (i, carried, following):
            at = self.at(x, builder.mul(i, self.number(step)))
            nans = carried[_PAIRS]
            for pair in range(_PAIRS):
                a, b = (self.load(self.at(at, (2 * pair + n) * self.width)) for n in range(2))
                following.append(self._better(carried[pair], self._better(a, b)))
                nans = builder.or_(nans, self._unordered(a, b))  # one comparison finds a NaN in either
            following.append(nans)
        best, *others, nans = following
        for other in others:
            best = self._better(best, other)
        done = builder.mul(rounds, self.number(step))
        last = builder.sub(count, self.number(self.width))  # it may overlap the ones before
        left = builder.sdiv(builder.sub(count, done), self.number(self.width))
        with self.counted(left, [best, nans]) as (i, carried, following):
            value = self.load(self.at(x, builder.add(done, builder.mul(i, self.number(self.width)))))
            following += self._with(carried, value)
        best, nans = self._with(following, self.load(self.at(x, last)))
        whole = builder.bitcast(nans, ir.IntType(8 * self.size * self.width))
        flag = builder.zext(builder.icmp_unsigned("!=", whole, ir.Constant(whole.type, 0)), ir.IntType(64))
        name = f"llvm.vector.reduce.f{self._name}.{self.code}"
        return [builder.call(self.declare(name, self.float, [self.vector]), [best], fastmath=("nnan", "nsz")), flag]

    def find(self, address: Any, count: Any, value: Any) -> Any:
        """The first place of a value, NaN being equal to NaN."""
        builder, x, bits = self.builder, self._place(address), ir.IntType(self.width)
        wanted = self.splat(value)
        is_nan = builder.fcmp_unordered("uno", wanted, wanted)
        last = builder.sub(count, self.number(self.width))  # it may overlap the ones before, where the value is not
        before, look, go_on, end = builder.block, *(builder.append_basic_block(name) for name in ("look", "on", "end"))
        builder.branch(look)
        builder.position_at_end(look)
        at = builder.phi(ir.IntType(64))
        at.add_incoming(self.number(0), before)
        place = builder.select(builder.icmp_signed("<", at, last), at, last)
        here = self.load(self.at(x, place))
        hits = builder.and_(is_nan, builder.fcmp_unordered("uno", here, here))
        hits = builder.bitcast(builder.or_(hits, builder.fcmp_ordered("oeq", here, wanted)), bits)
        builder.cbranch(builder.icmp_unsigned("!=", hits, ir.Constant(bits, 0)), end, go_on)
        builder.position_at_end(go_on)
        at.add_incoming(builder.add(place, self.number(self.width)), go_on)
        builder.branch(look)
        builder.position_at_end(end)
        lane = builder.cttz(hits, ir.Constant(ir.IntType(1), 1))
        return builder.add(place, builder.zext(lane, ir.IntType(64)))

    def _place(self, address: Any) -> Any:
        return self.builder.inttoptr(address, STORED.get(self._dtype, self.float).as_pointer())

    def load(self, pointer: Any) -> Any:
        """A vector of the numbers at `pointer`."""
        if self._dtype not in STORED:
            return super().load(pointer)
        kind = ir.VectorType(STORED[self._dtype], self.width)
        value = self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()), align=2, typ=kind)
        value = widened(self, value, self._dtype, self.width)
        return value if self._one is None else self.builder.fmul(value, self._one)

    def _with(self, carried: list[Any], value: Any) -> list[Any]:
        best, nans = carried
        return [self._better(best, value), self.builder.or_(nans, self._unordered(value, value))]

    def _better(self, a: Any, b: Any) -> Any:
        name = f"llvm.{self._name}num.{self.code}"
        function = self.declare(name, self.vector, [self.vector] * 2)
        return self.builder.call(function, [a, b], fastmath=("nnan", "nsz"))

    def _unordered(self, a: Any, b: Any) -> Any:
        return self.builder.sext(self.builder.fcmp_unordered("uno", a, b), self._masks)
