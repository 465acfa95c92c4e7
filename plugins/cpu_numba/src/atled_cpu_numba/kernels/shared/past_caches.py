"""numba intrinsics for results that no cache will hold until they are read: whole lines written past the caches.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
So memory is not read before it is overwritten. Lines must be whole, and rows of most arrays are no multiple of a line:
results are collected in a buffer, which begins as far behind a line's start as the results do in memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic

_LINE = 64  # bytes


def _generate_move(w, source, target, count):
    builder = w.builder
    at, after = target, builder.add(target, builder.mul(count, w.number(w.size)))
    mask = w.number(-_LINE)
    first = builder.and_(builder.add(target, w.number(_LINE - 1)), mask)
    first = builder.select(builder.icmp_signed("<", first, after), first, after)
    end = builder.and_(after, mask)
    end = builder.select(builder.icmp_signed("<", end, first), first, end)
    ahead = builder.sub(source, target)

    def copy_rest(begin, stop):
        size = builder.sdiv(builder.sub(stop, begin), w.number(w.size))
        x, y = w.pointer(builder.add(begin, ahead)), w.pointer(begin)
        with w.counted(size, []) as (i, _, _following):
            builder.store(w.load_one(w.at(x, i)), w.at(y, i))

    copy_rest(at, first)
    x, y = w.pointer(builder.add(first, ahead)), w.pointer(first)
    with w.counted(builder.sdiv(builder.sub(end, first), w.number(_LINE)), []) as (i, _, _following):
        line = builder.mul(i, w.number(_LINE // w.size))
        for part in range(0, _LINE // w.size, w.width):
            place = builder.add(line, w.number(part))
            w.stream(w.load(w.at(x, place)), w.at(y, place))
    copy_rest(end, after)


def make_move_lines(dtype: str) -> Any:
    """An intrinsic move_lines((source, target, count)): elements, past the caches where they fill lines of the target.

    source: as far behind the start of a line as `target`, for speed.
    """
    return vector_intrinsic("move_lines", 3, _generate_move, "See make_move_lines.", dtype)


def make_buffer(count: int, dtype: str) -> Any:
    """An intrinsic buffer() -> address of `count` floats on the stack, the same ones each time, on a line's start."""

    def buffer(typing_context):
        def generate(context, builder, signature, arguments):
            with builder.goto_entry_block():  # numba's own way would fill it with zeros
                memory = builder.alloca(ir.ArrayType(ir.IntType(8), SIZES[dtype] * count))
            memory.align = _LINE
            return builder.ptrtoint(memory, ir.IntType(64))

        return types.int64(), generate

    return intrinsic(buffer)


def _generate_settle(w, _nothing):
    w.builder.fence("seq_cst")


settle_lines = vector_intrinsic(
    "settle_lines", 1, _generate_settle, "settle_lines((0,)): let other threads see what was written past the caches."
)
