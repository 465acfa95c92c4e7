"""Pooling over three axes and more: windows of slices over the last two axes, which the kernels for two have pooled.

Each slice of a plane is pooled once; then the slices that a window of the leading axes sees are compared, or added.
An average's gradient goes the other way. Places go between windows and elements directly.

Block of all kernels (64-bit words):
    0 planes
    1 slices of a plane, 2 height, 3 width      of x, gx
    4 slices of a plane, 5 rows, 6 columns      windows, of y, gy, place
    7 kernel_h, 8 kernel_w, 9 stride_h, 10 stride_w, 11 pad_h, 12 pad_w
    13 x, y or gx; the larger array             14 y, gy or ggx; the smaller one        15 place
    16 workspace, 17 bytes of it per share
    18 whether places are int32 (1) or bytes (0), 19 the same for those of slices
    20 word where the table of slices starts
    21 inner kernel, 22 word where its block starts, 23 words of it
    24 to 27: words of the inner block for the larger array, the smaller one, place and workspace, or -1
    28 to 30: where the pieces of a share's workspace begin, in bytes: workspace of the inner kernel, pooled slices,
        their places; before them the block of the inner kernel
    31 whether averages go from windows to elements
The table, for maxima and averages: per target slice the number of sources, then pairs: the place of the window's slice
or a divisor, and the source. For places: per slice of windows, for each leading place of the window, the slice of
elements, or -1.
Shares are made of planes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from atled.plugin import ArrayDesc, Call, Native, Prepared
from atled_cpu_numba.kernels.pooling.pairs import PLACE_OUT_OF_RANGE
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count, undivided
from atled_cpu_numba.kernels.shared.leading_axes import OUTSIDE, Axis, extents, leading_phases
from atled_cpu_numba.store import Kernel

MOST_BYTE_PLACES = 256  # of a window; with more, MaxPooling numbers them by int32
_ELEMENTS_PER_US = 700.0  # a cautious rate of one core, for the number of shares
_WORDS = 32

# Words of inputs and outputs.
_ARGUMENTS = {
    "MaxPooling": (13, 14, 15, 16),
    "MaxPoolingGrad": (14, 15, 13),
    "MaxPoolingGather": (13, 15, 14),
    "AveragePooling": (13, 14, 16),
    "AveragePoolingGrad": (14, 13, 16),
}


def _build_max() -> Callable[..., int]:
    from atled_cpu_numba.codegen import bytes8, call3, floats32, ints32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    @piece
    def compare(count, x_at, place_at, wide_source, y_at, to_at, wide, first, begin):
        """y and its places become the maximum of y and x, whose places start at `begin`, or x itself if it is first."""
        x, y = floats32(x_at), floats32(y_at)
        if wide_source != 0:
            places, to = ints32(place_at), ints32(to_at)
            for i in range(count):
                wins = first or ((x[i] > y[i] or x[i] != x[i]) and y[i] == y[i])
                y[i] = x[i] if wins else y[i]
                to[i] = places[i] + np.int32(begin) if wins else to[i]
        elif wide != 0:
            narrow, to = bytes8(place_at), ints32(to_at)
            for i in range(count):
                wins = first or ((x[i] > y[i] or x[i] != x[i]) and y[i] == y[i])
                y[i] = x[i] if wins else y[i]
                to[i] = np.int32(narrow[i]) + np.int32(begin) if wins else to[i]
        else:
            narrow, narrow_to = bytes8(place_at), bytes8(to_at)
            for i in range(count):
                wins = first or ((x[i] > y[i] or x[i] != x[i]) and y[i] == y[i])
                y[i] = x[i] if wins else y[i]
                narrow_to[i] = narrow[i] + np.uint8(begin) if wins else narrow_to[i]

    @kernel
    def max_slices(block, part, parts):
        w = words(block)
        share = w[16] + part * w[17]
        inner, template = words(share), words(block + 8 * w[22])
        for i in range(w[23]):
            inner[i] = template[i]
        inner[w[25]], inner[w[26]] = share + w[29], share + w[30]
        if w[27] >= 0:
            inner[w[27]] = share + w[28]
        windows, window = w[5] * w[6], w[7] * w[8]
        place_size, source_size = 4 if w[18] != 0 else 1, 4 if w[19] != 0 else 1
        for plane in range(w[0] * part // parts, w[0] * (part + 1) // parts):
            inner[w[24]] = w[13] + 4 * plane * w[1] * w[2] * w[3]
            code = call3(w[21], share, 0, 1)
            if code != 0:
                return code
            at = w[20]
            for target in range(w[4]):
                to = (plane * w[4] + target) * windows
                for pair in range(w[at]):
                    begin, source = w[at + 1 + 2 * pair] * window, w[at + 2 + 2 * pair] * windows
                    compare(
                        windows,
                        share + w[29] + 4 * source,
                        share + w[30] + source_size * source,
                        w[19],
                        w[14] + 4 * to,
                        w[15] + place_size * to,
                        w[18],
                        pair == 0,
                        begin,
                    )
                at += 1 + 2 * w[at]
        return 0

    return max_slices


def _build_average() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    @piece
    def add_up(w, targets, source_at, target_at):
        """Slices of windows as sums of others, each divided by the pair's divisor."""
        count, at = w[5] * w[6], w[20]
        for target in range(targets):
            y = floats32(target_at + 4 * target * count)
            for i in range(count):
                y[i] = 0.0
            for pair in range(w[at]):
                factor = np.float32(1.0) / np.float32(w[at + 1 + 2 * pair])
                x = floats32(source_at + 4 * w[at + 2 + 2 * pair] * count)
                for i in range(count):
                    y[i] += factor * x[i]
            at += 1 + 2 * w[at]

    @kernel
    def average_slices(block, part, parts):
        w = words(block)
        share = w[16] + part * w[17]
        inner, template = words(share), words(block + 8 * w[22])
        for i in range(w[23]):
            inner[i] = template[i]
        slices = share + w[29]
        inner[w[25]] = slices
        if w[27] >= 0:
            inner[w[27]] = share + w[28]
        for plane in range(w[0] * part // parts, w[0] * (part + 1) // parts):
            inner[w[24]] = w[13] + 4 * plane * w[1] * w[2] * w[3]
            small = w[14] + 4 * plane * w[4] * w[5] * w[6]
            if w[31] != 0:
                add_up(w, w[1], small, slices)
            code = call3(w[21], share, 0, 1)
            if code != 0:
                return code
            if w[31] == 0:
                add_up(w, w[4], slices, small)
        return 0

    return average_slices


def _build_placed(dtype: str, *, gathering: bool) -> Callable[..., int]:
    """MaxPoolingGather or its adjoint, MaxPoolingGrad: values go between windows and the elements at their places."""
    from atled_cpu_numba.codegen import bytes8, ints32, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def placed_slices(block, part, parts):
        w = words(block)
        height, width, rows, columns, kernel_w = w[2], w[3], w[5], w[6], w[8]
        inputs, windows, window = w[1] * height * width, w[4] * rows * columns, w[7] * w[8]
        first, after = w[0] * part // parts, w[0] * (part + 1) // parts
        narrow_places, wide_places, taps = bytes8(w[15]), ints32(w[15]), w[23]
        lowest, highest = 0, -1
        for j in range(first * windows, after * windows):
            here = wide_places[j] if w[18] != 0 else narrow_places[j]
            lowest = min(lowest, here)
            highest = max(highest, here)
        if lowest < 0 or highest >= taps * window:
            return PLACE_OUT_OF_RANGE
        for plane in range(first, after):
            large, small = floats(w[13] + size * plane * inputs), floats(w[14] + size * plane * windows)
            if not gathering:
                for j in range(inputs):
                    large[j] = number(0)
            for line in range(w[4] * rows):
                target = line // rows
                i = line - target * rows
                seen = words(block + 8 * (w[20] + target * taps))
                for j in range(columns):
                    at = line * columns + j
                    here = np.uint32(
                        wide_places[plane * windows + at] if w[18] != 0 else narrow_places[plane * windows + at]
                    )
                    tap = here // np.uint32(window)
                    here -= tap * np.uint32(window)
                    place_row = here // np.uint32(kernel_w)
                    row = i * w[9] - w[11] + np.int64(place_row)
                    column = j * w[10] - w[12] + np.int64(here - place_row * np.uint32(kernel_w))
                    source = seen[np.int64(tap)]
                    inside = source >= 0 and row >= 0 and row < height and column >= 0 and column < width
                    if gathering:
                        small[at] = large[(source * height + row) * width + column] if inside else number(0)
                    elif inside:
                        large[(source * height + row) * width + column] += small[at]
        return 0

    return placed_slices


_DTYPES = ("float32", "float64")


def _kernels(name: str, *, gathering: bool) -> dict[str, Kernel]:
    return {
        dtype: Kernel(f"{name}_{dtype}", partial(_build_placed, dtype, gathering=gathering), parameters=(dtype,))
        for dtype in _DTYPES
    }


_AVERAGE = {"float32": Kernel("average_slices", _build_average)}
_KERNELS = {
    "MaxPooling": {"float32": Kernel("max_slices", _build_max)},
    "MaxPoolingGrad": _kernels("max_slices_grad", gathering=False),
    "MaxPoolingGather": _kernels("max_slices_gather", gathering=True),
    "AveragePooling": _AVERAGE,
    "AveragePoolingGrad": _AVERAGE,
}


def prepare(call: Call, axes: Sequence[Axis], prepare_planar: Callable[[Call], Prepared]) -> Prepared:
    """Pooling over `axes`, more than two; their source is the larger array.  prepare_planar: the same for two axes."""
    name = call.spec.name
    leading, planar = axes[:-2], axes[-2:]
    taps, sources, targets = extents(leading)
    window, _, windows = extents(planar)
    large, small = call.inputs[0], call.outputs[0]
    assert large is not None
    if name.endswith("Grad"):
        large, small = small, large
    planes = math.prod(large.shape[: -len(axes)])
    words = [planes, sources, *(axis.source for axis in planar), targets, *(axis.result for axis in planar)]
    words += [getattr(axis, field) for field in ("kernel", "stride", "pad") for axis in planar]
    words += [0, 0, 0, 0, 0, int(taps * window > MOST_BYTE_PLACES), int(window > MOST_BYTE_PLACES), _WORDS]
    share_bytes, owner, notes = 0, None, ["slices"]
    if name in ("MaxPoolingGrad", "MaxPoolingGather"):
        table = [dict(seen).get(tap, OUTSIDE) for seen in _seen(leading) for tap in range(taps)]
        words += [0, 0, taps, -1, -1, -1, -1, 0, 0, 0]
    else:
        with undivided():
            inner = prepare_planar(_planar_call(call, sources, planar))
        native = inner.native
        assert native is not None
        starts = [-(-8 * len(native.block) // 64) * 64]
        for size in (inner.workspace, 4 * sources * windows, 4 * sources * windows):
            starts.append(starts[-1] + -(-size // 64) * 64)
        share_bytes = starts.pop()
        table = _pairs(name, leading, including_pad=call.attributes.get("including_pad", False))
        words += [native.address, _WORDS + len(table), len(native.block), *_argument_words(name, native), *starts]
        table += native.block.tolist()
        owner = native.owner
        notes += [inner.note] if inner.note else []
    words.append(int(name == "AveragePoolingGrad"))
    assert len(words) == _WORDS
    words[17] = share_bytes
    parts = share_count((large.size + small.size) / _ELEMENTS_PER_US, planes)
    parts = fitting_shares(parts, max(1, share_bytes))
    kernel = _KERNELS[name][large.dtype.name]
    return launch(
        kernel,
        [*words, *table],
        _ARGUMENTS[name],
        parts=parts,
        workspace=share_bytes * parts,
        errors={PLACE_OUT_OF_RANGE: "place out of range"} if name in ("MaxPoolingGrad", "MaxPoolingGather") else None,
        owner=(kernel, owner),
        note=": ".join(notes),
    )


def _planar_call(call: Call, slices: int, planar: Sequence[Axis]) -> Call:
    """The call for one plane's slices over the last two axes."""
    attributes = dict(call.attributes)
    for field in ("kernel", "stride", "pad"):
        attributes[field] = tuple(getattr(axis, field) for axis in planar)
    large = ArrayDesc((slices, *(axis.source for axis in planar)))
    small = ArrayDesc((slices, *(axis.result for axis in planar)))
    if call.spec.name.endswith("Grad"):
        attributes["shape"] = large.shape[1:]
        return Call(call.spec, (small,), (large,), attributes)
    outputs = [small]
    if call.spec.name == "MaxPooling":
        wide = math.prod(attributes["kernel"]) > MOST_BYTE_PLACES
        outputs.append(small.astype(np.int32 if wide else np.uint8))
    return Call(call.spec, (large,), tuple(outputs), attributes)


def _argument_words(name: str, native: Native) -> tuple[int, int, int, int]:
    """Words of the inner block for the larger array, the smaller one, place and workspace, or -1."""
    if name == "MaxPooling":
        large, small, place = native.arguments
        return large, small, place, -1
    first, second, workspace = native.arguments
    return (second, first, -1, workspace) if name.endswith("Grad") else (first, second, -1, workspace)


def _pairs(name: str, leading: Sequence[Axis], *, including_pad: bool) -> list[int]:
    """The table for maxima and averages."""
    seen = _seen(leading)
    if name == "MaxPooling":
        pairs = seen
    else:
        divisors = [
            math.prod(counts)
            for counts in itertools.product(*(_counted(axis, including_pad=including_pad) for axis in leading))
        ]
        pairs = [[(divisor, source) for _, source in of_one] for divisor, of_one in zip(divisors, seen, strict=True)]
        if name.endswith("Grad"):
            windows: list[list[tuple[int, int]]] = [[] for _ in range(extents(leading)[1])]
            for number, of_one in enumerate(pairs):
                for divisor, source in of_one:
                    windows[source].append((divisor, number))
            pairs = windows
    return [word for of_one in pairs for word in (len(of_one), *itertools.chain.from_iterable(of_one))]


def _counted(axis: Axis, *, including_pad: bool) -> list[int]:
    """Per window of an axis, how many places count; 1 if none does."""
    margin = axis.pad if including_pad else 0
    lefts = [i * axis.stride - axis.pad for i in range(axis.result)]
    return [max(1, min(left + axis.kernel, axis.source + margin) - max(left, -margin)) for left in lefts]


def _seen(leading: Sequence[Axis]) -> list[list[tuple[int, int]]]:
    """Per slice of windows the pairs of a leading place of the window and the slice of elements there."""
    found: dict[int, list[tuple[int, int]]] = {}
    for phase in leading_phases(leading, forward=True, least=1):
        for number, *places in phase.slices:
            found[number] = list(zip(phase.taps, places, strict=True))
    return [found[number] for number in sorted(found)]
