"""numba intrinsics for 3 x 3 filters of single planes, along a row of windows a vector at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Of wide planes some rows of windows are computed at a time, the last ones again with some of those before: each row of
the plane is loaded once for all of them, and those outside are zeros that the caller has. Of others it is one vector
from the top row down: each row is loaded once for all windows that see it, and those outside are left out. Zeros
are moved into the lanes along a row. Each result is the sum of what is added, then of the products in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.narrow_writer import memory_intrinsic
from atled_cpu_numba.kernels.shared.paired_windows import PairedLanes
from atled_cpu_numba.kernels.shared.short_windows import Lanes, in_parts
from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic


class Filter:
    """The filter of a plane, which is to be kept in registers, and its rows.

    arguments: the first ten of the intrinsics.
    """

    def __init__(self, w: Writer, arguments: Sequence[Any], stride: int) -> None:
        plane, self.height, self.width, self.pad_h, zeros, weight, step, bias, y, self.columns = arguments
        self.w, self.stride = w, stride
        self.plane, self.zeros, self.y = w.pointer(plane), w.pointer(zeros), w.pointer(y)
        builder = w.builder
        self._taps = [w.load_one(w.at(w.pointer(weight), builder.mul(step, w.number(t)))) for t in range(9)]
        self._start = w.load_one(w.pointer(bias))

    def blocks(self, rows: Any, count: int, write: Callable[[list[Any], list[Any]], None]) -> None:
        """Have `write` emit code for `count` rows of windows: the addresses of what they see, and of the results."""
        w, builder = self.w, self.w.builder
        whole = w.number(count)
        last = builder.sub(rows, whole)
        rounds = builder.sdiv(builder.add(rows, w.number(count - 1)), whole)
        with w.counted(rounds, []) as (block, _, _following):
            i = builder.mul(block, whole)
            i = builder.select(builder.icmp_signed("<", i, last), i, last)
            top = builder.sub(builder.mul(i, w.number(self.stride)), self.pad_h)
            seen = [self._row(builder.add(top, w.number(k))) for k in range(self.stride * (count - 1) + 3)]
            lines = [
                w.at(self.y, builder.mul(builder.add(i, w.number(number)), self.columns)) for number in range(count)
            ]
            write(seen, lines)

    def _row(self, row: Any) -> Any:
        w, builder = self.w, self.w.builder
        inside = builder.icmp_unsigned("<", row, self.height)
        return builder.select(inside, w.at(self.plane, builder.mul(row, self.width)), self.zeros)

    def block(self, lanes: Lanes, rows: list[Any], count: int, elements: Callable[[Any], list[Any]]) -> list[Any]:
        """A vector of `count` rows of windows.  elements: of a row, for each column of the kernel."""
        totals = [lanes.splat(self._start)] * count
        for k, row in enumerate(rows):
            values = elements(row)
            for i in range(count):
                if 0 <= k - self.stride * i < 3:
                    totals[i] = self._plus(lanes, totals[i], k - self.stride * i, values)
        return [self._in_order(lanes, total) for total in totals]

    def strip(
        self,
        lanes: Lanes,
        elements: Callable[[Any], list[Any]],
        store: Callable[[Any, Any], None],
        sums: tuple[Any, Any] | None = None,
    ) -> None:
        """A vector of all rows of windows, the first of which sees one row outside.

        elements: as above.  store(total, line): write a vector of the row of windows that begins at `line`.
        sums: the place of what the first row's total starts from, in the order of `elements`, and how many elements
            further the next row's is, to one row beyond the last; None: all start from what is added.
        """
        w, builder = self.w, self.w.builder
        added = lanes.splat(self._start)

        def start(at):
            return added if sums is None else lanes.load(at)

        def plus(total, r, values):
            return self._plus(lanes, total, r, values)

        def write(total, line):
            store(self._in_order(lanes, total) if sums is None else total, line)

        place, step = (self.y, w.number(0)) if sums is None else sums
        second = w.at(place, step)
        if self.stride == 1:
            values = elements(self.plane)
            carried = [plus(start(place), 1, values), plus(start(second), 0, values)]
            carried += [w.at(self.plane, self.width), self.y, w.at(second, step)]
            with w.counted(builder.sub(self.height, w.number(1)), carried) as (_, phis, following):
                upper, lower, row, line, place = phis
                values, begun = elements(row), start(place)
                write(plus(upper, 2, values), line)
                following += [plus(lower, 1, values), plus(begun, 0, values)]
                following += [w.at(row, self.width), w.at(line, self.columns), w.at(place, step)]
            write(following[0], following[3])
            return
        carried = [start(place), self.plane, self.y, second]
        with w.counted(builder.sdiv(self.height, w.number(2)), carried) as (_, phis, following):
            total, row, line, place = phis
            lower, begun = w.at(row, self.width), start(place)
            total, values = plus(total, 1, elements(row)), elements(lower)
            write(plus(total, 2, values), line)
            following += [plus(begun, 0, values), w.at(lower, self.width), w.at(line, self.columns), w.at(place, step)]
        with builder.if_then(builder.trunc(self.height, ir.IntType(1))):
            total, row, line, _ = following
            write(plus(total, 1, elements(row)), line)

    def elements_of(
        self, lanes: Lanes, j: Any, left: Any, first: int, cut: Any, *, ahead: Any = None
    ) -> Callable[[Any], list[Any]]:
        """A function of a row: its elements for each column of the kernel, under a vector of windows from j on.

        left: by how many elements the row's first window is cut.  first, cut: as `in_parts` has `left` and `right`.
        ahead: from here to what will be read next, which is asked for; None if the processor foresees that.
        """
        w, builder = self.w, self.w.builder
        begin = builder.sub(builder.mul(j, w.number(self.stride)), left)
        nothing, end = ir.Constant(lanes.vector, [0.0] * lanes.width), 0 if cut is None else 1

        def elements(row):
            if ahead is not None and lanes.width >= w.width:
                for place in range(0, self.stride * w.width, max(w.width, LINE_BYTES // w.size)):
                    w.prefetch(w.at(row, builder.add(builder.add(begin, w.number(place)), ahead)))
            return lanes.elements(3, self.stride, row, begin, first, end, otherwise=nothing)

        return elements

    def _plus(self, lanes: Lanes, total: Any, r: int, values: list[Any]) -> Any:
        """The total, and what row `r` of the kernel makes of the elements under its columns."""
        for s, value in enumerate(values):
            total = lanes.multiply_add(lanes.splat(self._taps[3 * r + s]), value, total)
        return total

    def _in_order(self, lanes: Lanes, total: Any) -> Any:
        return total if self.stride == 1 else lanes.in_order(total)


def make_filter(stride: int, count: int, dtype: str, words: int = 0) -> Any:
    """An intrinsic for a filtered plane, of any width.

    filter((x, height, width, pad_h, zeros, weight, step, bias, y, columns, rows, left, right)):
    x: plane of height x width.  pad_h: rows of padding above.  zeros: address of a row of them, and two vectors more.
    weight, step: address of the first of nine taps, and from one to the next.  bias: address of what is added.
    y: address of rows x columns results, of which there are `count` rows or more.
    left, right: 0, or 1 if the first or the last window of a row is cut; then there are two or more in a row.
    stride: of the windows, 1 or 2.
    count: rows of windows at a time; 0 for one vector of all rows at a time, where pad_h is 1.
    words: of bfloat16, of how many words of two a vector is; each row has windows for a vector, see `in_parts`.
    """

    def generate(w, *arguments):
        rows, left, right = arguments[10:]
        builder, filtered = w.builder, Filter(w, arguments[:10], stride)
        # Strips are no sequence that the processor would foresee.
        ahead = None if count else builder.mul(filtered.height, filtered.width)

        def elements_of(lanes, j, *cuts):
            return filtered.elements_of(lanes, j, left, *cuts, ahead=ahead)

        def write_strip(lanes, j, *cuts):
            filtered.strip(lanes, elements_of(lanes, j, *cuts), lambda total, line: lanes.store(total, w.at(line, j)))

        def write_block(seen, lines):
            def write(lanes, j, *cuts):
                made = filtered.block(lanes, seen, count, elements_of(lanes, j, *cuts))
                for total, line in zip(made, lines, strict=True):
                    lanes.store(total, w.at(line, j))

            in_parts(w, filtered.columns, left, right, write)

        if count:
            filtered.blocks(rows, count, write_block)
        else:
            lanes_of = [PairedLanes(w, words, stride)] if words else []
            in_parts(w, filtered.columns, left, right, write_strip, lanes_of=lanes_of)

    return memory_intrinsic("filter", 13, generate, "A filtered plane; see make_filter.", dtype)


def make_paired_filter(stride: int, words: int) -> Any:
    """An intrinsic of the arguments of `make_narrow_filter` for bfloat16, whose rows are in so many words of two.

    Whole vectors are read and written, of y from the top row down.
    """

    def generate(w, *arguments):
        filtered, lanes = Filter(w, arguments, stride), PairedLanes(w, words, stride)
        seen = lanes.elements_below(filtered.width)
        filtered.strip(lanes, lambda row: lanes.elements_of_row(row, seen), lanes.store)

    doc = "A filtered narrow plane of bfloat16; see make_paired_filter."
    return memory_intrinsic("paired_filter", 10, generate, doc, "bfloat16")


def make_narrow_filter(stride: int, width: int, dtype: str, *, masked: bool = False) -> Any:
    """An intrinsic narrow((x, height, width, pad_h, zeros, weight, step, bias, y, columns)), as `make_filter`.

    For planes with one row of padding above and one column on the left, whose rows have fewer windows than a vector of
    `width` lanes.
    masked: only what is there is read and written; else whole vectors are, of y too, from the top row down.
    """

    def generate(w, *arguments):
        builder, filtered, lanes = w.builder, Filter(w, arguments, stride), Lanes(w, width)
        # Of every vector of a row the lanes that are in it.
        seen = [lanes.first(builder.sub(filtered.width, w.number(part * width))) for part in range(stride)]
        written, zeros = lanes.first(filtered.columns), ir.Constant(lanes.vector, [0.0] * width)

        def load(row, part, mask):
            at = w.at(row, part * width)
            return lanes.load_masked(at, mask) if masked else builder.select(mask, lanes.load(at), zeros)

        def elements(row):
            vectors = [load(row, part, mask) for part, mask in enumerate(seen)]
            # The last lane is 0, and so takes the place of what is outside on either side.
            if stride == 1:
                return [lanes.rotated(vectors[0], -1), vectors[0], lanes.rotated(vectors[0], 1)]
            even, odd = (lanes.every_second(*vectors, first) for first in (0, 1))
            return [lanes.rotated(odd, -1, paired=True), even, odd]

        def store(total, line):
            if masked:
                lanes.store_masked(total, line, written)
            else:
                lanes.store(total, line)

        filtered.strip(lanes, elements, store)

    return vector_intrinsic("narrow_filter", 10, generate, "A filtered narrow plane; see make_narrow_filter.", dtype)
