"""numba intrinsics for filters of single planes with strides of 2: flat loops over planes of phases.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
A plane of phase (a, b) holds the elements of even or odd rows and columns of a padded plane: those of row 2 q + a and
column 2 p + b at (q, p). There each tap of the kernel is one fixed offset, as with stride 1, and rows need no ends:
what is computed between them is not used.
"""

from __future__ import annotations

import itertools
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic
from atled_cpu_numba.kernels.shared.window_rows import load_pairs

_INT32 = ir.IntType(32)
_PHASES = ((0, 0), (0, 1), (1, 0), (1, 1))
_SPREAD_VECTORS = 2  # as many as share the taps, which are read again and again
_MOST_SUMS = 12 if host_lanes().vector == 8 else 25  # in registers, of which AVX2 has half as many


def make_spread(kernel: tuple[int, int], dtype: str) -> Any:
    """An intrinsic for the adjoint of filters of size `kernel` with strides of 2.

    spread((source, pitch, ahead, terms, weight, begin, y, y_ahead, count)):
    source: address of the first of `terms` planes, `ahead` elements apart, with rows of `pitch`.
    weight: address of as many kernels.  begin: address of what is added.
    y, y_ahead: address of the even rows of the result, from them to the odd ones.
    count: positions of a plane, each of which gives two elements of either; all vectors are whole, up to 4 of them.

    What windows at negative places or behind the last ones would bring must be zeros in `source`.
    """

    def generate(w, source, pitch, ahead, terms, weight, begin, y, y_ahead, count):
        builder = w.builder
        source, weight, y = (w.pointer(address) for address in (source, weight, y))
        start = w.splat(w.load_one(w.pointer(begin)))
        step = _SPREAD_VECTORS * w.width
        blocks = builder.sdiv(builder.add(count, w.number(step - 1)), w.number(step))
        low, high = (
            ir.Constant(ir.VectorType(_INT32, w.width), [half + i // 2 + i % 2 * w.width for i in range(w.width)])
            for half in (0, w.width // 2)
        )
        with w.counted(blocks, []) as (block, _, _following):
            first = builder.mul(block, w.number(step))
            sums = [start] * (len(_PHASES) * _SPREAD_VECTORS)
            with w.counted(terms, [*sums, w.at(source, first), weight]) as (_term, phis, following):
                *sums, plane, taps = phis
                for row in range(-(-kernel[0] // 2)):
                    line = w.at(plane, builder.mul(pitch, w.number(-row)))
                    for column in range(-(-kernel[1] // 2)):
                        seen = [w.load(w.at(line, v * w.width - column)) for v in range(_SPREAD_VECTORS)]
                        for phase, (a, b) in enumerate(_PHASES):
                            r, s = 2 * row + a, 2 * column + b
                            if r >= kernel[0] or s >= kernel[1]:
                                continue
                            tap = w.splat(w.load_one(w.at(taps, r * kernel[1] + s)))
                            for v, values in enumerate(seen):
                                i = phase * _SPREAD_VECTORS + v
                                sums[i] = w.multiply_add(tap, values, sums[i])
                following += [*sums, w.at(plane, ahead), w.at(taps, kernel[0] * kernel[1])]
            to = w.at(y, builder.mul(first, w.number(2)))
            for a, v in itertools.product((0, 1), range(_SPREAD_VECTORS)):
                pair = [following[(2 * a + b) * _SPREAD_VECTORS + v] for b in (0, 1)]
                for half, lanes in enumerate((low, high)):
                    place = w.at(to, (2 * v + half) * w.width)
                    w.store(builder.shuffle_vector(*pair, lanes), w.at(place, y_ahead) if a else place)

    name = f"spread_{kernel[0]}_{kernel[1]}"
    return vector_intrinsic(name, 9, generate, "Adjoint of filters with strides of 2; see make_spread.", dtype)


def make_collect(kernel: tuple[int, int], dtype: str) -> Any:
    """An intrinsic for what a plane brings to the gradient of a filter of size `kernel` with strides of 2.

    collect((x, ahead, pitch, gy, count, sums)):
    x: address of the plane of phase (0, 0), then, `ahead` elements apart, (0, 1), (1, 0) and (1, 1); rows of `pitch`.
    gy: address of `count` elements in such rows, with zeros in between; whole vectors are read.
    sums: as many vectors as taps, to whose lanes the products of gy with what each tap sees are added.
    """

    def generate(w, x, ahead, pitch, gy, count, sums):
        builder = w.builder
        x, gy, sums = (w.pointer(address) for address in (x, gy, sums))
        planes = [w.at(x, builder.mul(ahead, w.number(phase))) for phase in range(len(_PHASES))]
        blocks = builder.sdiv(builder.add(count, w.number(w.width - 1)), w.number(w.width))
        taps = list(itertools.product(range(kernel[0]), range(kernel[1])))
        for begin in range(0, len(taps), _MOST_SUMS):
            own = taps[begin : begin + _MOST_SUMS]
            totals = [w.at(sums, (begin + i) * w.width) for i in range(len(own))]
            with w.counted(blocks, [w.load(total) for total in totals]) as (block, phis, following):
                first = builder.mul(block, w.number(w.width))
                values = w.load(w.at(gy, first))
                for (r, s), total in zip(own, phis, strict=True):
                    line = w.at(w.at(planes[2 * (r % 2) + s % 2], first), builder.mul(pitch, w.number(r // 2)))
                    following.append(w.multiply_add(values, w.load(w.at(line, s // 2)), total))
            for value, total in zip(following, totals, strict=True):
                w.store(value, total)

    name = f"collect_{kernel[0]}_{kernel[1]}"
    return vector_intrinsic(name, 6, generate, "Gradient of a filter with strides of 2; see make_collect.", dtype)


def _generate_split(w, x, row_step, width, left, rows, even, ahead, pitch, next_x):
    builder = w.builder
    x, even = w.pointer(x), w.pointer(even)
    widths = w.splat(builder.trunc(width, _INT32), ir.VectorType(_INT32, w.width))
    blocks = builder.sdiv(builder.add(pitch, w.number(w.width - 1)), w.number(w.width))
    with w.counted(blocks, []) as (block, _, _following):
        # The last block first: what it writes beyond a row is replaced by the first one, or by rows that come later.
        first = builder.mul(builder.sub(builder.sub(blocks, w.number(1)), block), w.number(w.width))
        start = builder.add(left, builder.mul(first, w.number(2)))
        with w.counted(rows, [x, w.at(even, first)]) as (_row, (row, to), following):
            values = load_pairs(w, row, start, widths, w.zeros)
            for line in range(0, 2 * w.width, LINE_BYTES // w.size):
                w.prefetch(w.at(w.at(w.at(row, start), next_x), line))
            w.store(values[0], to)
            w.store(values[1], w.at(to, ahead))
            following += [w.at(row, row_step), w.at(to, pitch)]


def make_split_pairs(dtype: str) -> Any:
    """An intrinsic for every second element of rows, and the others.

    split_pairs((x, row_step, width, left, rows, even, ahead, pitch, next_x)):
    x: address of rows of `width`, `row_step` apart.  left: the first column to take, may be negative: zeros outside.
    even, ahead: address of the first elements, from there to the second ones; rows of `pitch`.
    next_x: elements from x to what will be read next.
    """
    return vector_intrinsic("split_pairs", 9, _generate_split, "See make_split_pairs.", dtype)
