"""Pooling over three axes and more: windows of slices over the last two axes, which the kernels for two have pooled.

Each slice of a plane is pooled once; then the slices that a window of the leading axes sees are compared, or added.
An average's gradient goes the other way. Places go between windows and elements directly.
Shares are made of planes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from atled.plugin import ArrayDesc, Call, Native, Prepared
from atled_cpu_numba.kernels.pooling.block import PLACE_OUT_OF_RANGE, window_words
from atled_cpu_numba.kernels.pooling.slice_table import PAIR_WORDS, TARGET_WORDS, Pair, Target, pair_words, place_words
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    piece_starts,
    share_count,
    undivided,
)
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout, size_of
from atled_cpu_numba.kernels.shared.leading_axes import Axis, extents

MOST_BYTE_PLACES = 256  # of a window; with more, MaxPooling numbers them by int32
_ELEMENTS_PER_US = 700.0  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What all kernels read; the table of slices follows, then the block of the inner kernel, if there is one."""

    planes: int
    slices: int  # of a plane of x, gx
    height: int
    width: int
    targets: int  # slices of a plane of y, gy, place
    rows: int  # windows of such a slice
    columns: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    large: int  # address of the larger array: x or gx
    small: int  # address of the smaller one: y, gy or ggx
    place: int  # address
    workspace: int  # address
    share_bytes: int  # of the workspace, per share
    wide: int  # whether places are int32 (1) or bytes (0)
    wide_slices: int  # the same for those of slices
    table: int  # its first word
    inner: int  # address of the inner kernel
    inner_block: int  # first word of its block
    count: int  # words of that block; for places: leading places of a window
    inner_large: int  # words of it: for the larger array,
    inner_small: int
    inner_place: int  # or -1
    inner_workspace: int  # or -1
    inner_workspace_at: int  # where it begins in a share's workspace, in bytes, behind the inner kernel's block
    pooled_at: int  # where the pooled slices begin there
    places_at: int  # where their places begin there
    spreads: int  # whether averages or sums go from windows to elements


# Words of inputs and outputs.
_ARGUMENTS = {
    "MaxPooling": (Block.large, Block.small, Block.place, Block.workspace),
    "MaxPoolingGrad": (Block.small, Block.place, Block.large),
    "MaxPoolingGather": (Block.large, Block.place, Block.small),
    "AveragePooling": (Block.large, Block.small, Block.workspace),
    "AveragePoolingGrad": (Block.small, Block.large, Block.workspace),
    "SumPooling": (Block.large, Block.small, Block.workspace),
    "SumPoolingGrad": (Block.small, Block.large, Block.workspace),
}


def _build_max(dtype: str, places: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import bytes8, call3, ints32, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer

    @piece
    def compare(count, x_at, place_at, wide_source, y_at, to_at, wide, first, begin):
        """y and its places become the maximum of y and x, whose places start at `begin`, or x itself if it is first."""
        x, y = floats(x_at), floats(y_at)
        if not places:
            for i in range(count):
                wins = first or ((x[i] > y[i] or x[i] != x[i]) and y[i] == y[i])
                y[i] = x[i] if wins else y[i]
        elif wide_source != 0:
            found, to = ints32(place_at), ints32(to_at)
            for i in range(count):
                wins = first or ((x[i] > y[i] or x[i] != x[i]) and y[i] == y[i])
                y[i] = x[i] if wins else y[i]
                to[i] = found[i] + np.int32(begin) if wins else to[i]
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
        share = w[Block.workspace] + part * w[Block.share_bytes]
        inner, template = words(share), words(block + 8 * w[Block.inner_block])
        for i in range(w[Block.count]):
            inner[i] = template[i]
        inner[w[Block.inner_small]] = share + w[Block.pooled_at]
        if places:
            inner[w[Block.inner_place]] = share + w[Block.places_at]
        if w[Block.inner_workspace] >= 0:
            inner[w[Block.inner_workspace]] = share + w[Block.inner_workspace_at]
        windows, window = w[Block.rows] * w[Block.columns], w[Block.kernel_h] * w[Block.kernel_w]
        place_size, source_size = 4 if w[Block.wide] != 0 else 1, 4 if w[Block.wide_slices] != 0 else 1
        for plane in range(w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts):
            inner[w[Block.inner_large]] = (
                w[Block.large] + element * plane * w[Block.slices] * w[Block.height] * w[Block.width]
            )
            code = call3(w[Block.inner], share, 0, 1)
            if code != 0:
                return code
            at = w[Block.table]
            for target in range(w[Block.targets]):
                to = (plane * w[Block.targets] + target) * windows
                for pair in range(w[at + Target.count]):
                    begin = w[at + Target.pairs + Pair.number + PAIR_WORDS * pair] * window
                    source = w[at + Target.pairs + Pair.source + PAIR_WORDS * pair] * windows
                    compare(
                        windows,
                        share + w[Block.pooled_at] + element * source,
                        share + w[Block.places_at] + source_size * source,
                        w[Block.wide_slices],
                        w[Block.small] + element * to,
                        w[Block.place] + place_size * to,
                        w[Block.wide],
                        pair == 0,
                        begin,
                    )
                at += TARGET_WORDS + PAIR_WORDS * w[at + Target.count]
        return 0

    return max_slices


def _build_average(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    real = Real(dtype)
    element, floats, number = real.size, real.pointer, real.kind

    @piece
    def add_up(w, targets, source_at, target_at):
        """Slices of windows as sums of others, each divided by the pair's divisor."""
        count, at = w[Block.rows] * w[Block.columns], w[Block.table]
        for target in range(targets):
            y = floats(target_at + element * target * count)
            for i in range(count):
                y[i] = 0.0
            for pair in range(w[at + Target.count]):
                factor = number(1.0) / number(w[at + Target.pairs + Pair.number + PAIR_WORDS * pair])
                x = floats(source_at + element * w[at + Target.pairs + Pair.source + PAIR_WORDS * pair] * count)
                for i in range(count):
                    y[i] += factor * x[i]
            at += TARGET_WORDS + PAIR_WORDS * w[at + Target.count]

    @kernel
    def average_slices(block, part, parts):
        w = words(block)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        inner, template = words(share), words(block + 8 * w[Block.inner_block])
        for i in range(w[Block.count]):
            inner[i] = template[i]
        slices = share + w[Block.pooled_at]
        inner[w[Block.inner_small]] = slices
        if w[Block.inner_workspace] >= 0:
            inner[w[Block.inner_workspace]] = share + w[Block.inner_workspace_at]
        for plane in range(w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts):
            inner[w[Block.inner_large]] = (
                w[Block.large] + element * plane * w[Block.slices] * w[Block.height] * w[Block.width]
            )
            small = w[Block.small] + element * plane * w[Block.targets] * w[Block.rows] * w[Block.columns]
            if w[Block.spreads] != 0:
                add_up(w, w[Block.slices], small, slices)
            code = call3(w[Block.inner], share, 0, 1)
            if code != 0:
                return code
            if w[Block.spreads] == 0:
                add_up(w, w[Block.targets], slices, small)
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
        height, width, rows = w[Block.height], w[Block.width], w[Block.rows]
        columns, kernel_w = w[Block.columns], w[Block.kernel_w]
        inputs, windows = w[Block.slices] * height * width, w[Block.targets] * rows * columns
        window = w[Block.kernel_h] * w[Block.kernel_w]
        first, after = w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts
        narrow_places, wide_places, taps = bytes8(w[Block.place]), ints32(w[Block.place]), w[Block.count]
        lowest, highest = 0, -1
        for j in range(first * windows, after * windows):
            here = wide_places[j] if w[Block.wide] != 0 else narrow_places[j]
            lowest = min(lowest, here)
            highest = max(highest, here)
        if lowest < 0 or highest >= taps * window:
            return PLACE_OUT_OF_RANGE
        for plane in range(first, after):
            large = floats(w[Block.large] + size * plane * inputs)
            small = floats(w[Block.small] + size * plane * windows)
            if not gathering:
                for j in range(inputs):
                    large[j] = number(0)
            for line in range(w[Block.targets] * rows):
                target = line // rows
                i = line - target * rows
                seen = words(block + 8 * (w[Block.table] + target * taps))
                for j in range(columns):
                    at = line * columns + j
                    here = np.uint32(
                        wide_places[plane * windows + at] if w[Block.wide] != 0 else narrow_places[plane * windows + at]
                    )
                    tap = here // np.uint32(window)
                    here -= tap * np.uint32(window)
                    place_row = here // np.uint32(kernel_w)
                    row = i * w[Block.stride_h] - w[Block.pad_h] + np.int64(place_row)
                    column = j * w[Block.stride_w] - w[Block.pad_w] + np.int64(here - place_row * np.uint32(kernel_w))
                    source = seen[np.int64(tap)]
                    inside = source >= 0 and row >= 0 and row < height and column >= 0 and column < width
                    if gathering:
                        small[at] = large[(source * height + row) * width + column] if inside else number(0)
                    elif inside:
                        large[(source * height + row) * width + column] += small[at]
        return 0

    return placed_slices


_AVERAGE = kernels_by_dtype("average_slices", _build_average)
_WITHOUT_PLACES = kernels_by_dtype("max_slices_alone", _build_max, False)
_KERNELS = {
    "MaxPooling": kernels_by_dtype("max_slices", _build_max, True),
    "MaxPoolingGrad": kernels_by_dtype("max_slices_grad", partial(_build_placed, gathering=False)),
    "MaxPoolingGather": kernels_by_dtype("max_slices_gather", partial(_build_placed, gathering=True)),
    "AveragePooling": _AVERAGE,
    "AveragePoolingGrad": _AVERAGE,
    "SumPooling": _AVERAGE,
    "SumPoolingGrad": _AVERAGE,
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
    sizes = {
        "planes": planes,
        "slices": sources,
        "targets": targets,
        **window_words(*planar),
        "wide": int(taps * window > MOST_BYTE_PLACES),
        "wide_slices": int(window > MOST_BYTE_PLACES),
        "table": size_of(Block),
    }
    share_bytes, owner, note, errors = 0, None, "slices", None
    if name in ("MaxPoolingGrad", "MaxPoolingGather"):
        table = place_words(leading, taps)
        words = [*filled(Block, count=taps, **sizes), *table]
        errors = {PLACE_OUT_OF_RANGE: "place out of range"}
    else:
        with undivided():
            inner = prepare_planar(_planar_call(call, sources, planar))
        assert inner.native is not None
        table = pair_words(name, leading, including_pad=call.attributes.get("including_pad", False))
        pieces = {"inner_workspace_at": inner.workspace, "pooled_at": large.dtype.itemsize * sources * windows}
        starts = piece_starts(
            8 * len(inner.native.block), {**pieces, "places_at": large.dtype.itemsize * sources * windows}
        )
        words = _with_inner(name, inner.native, table, {**sizes, **starts})
        share_bytes, owner = starts["share_bytes"], inner.native.owner
        note += f": {inner.note}" if inner.note else ""
    parts = share_count((large.size + small.size) / _ELEMENTS_PER_US, planes)
    parts = fitting_shares(parts, max(1, share_bytes))
    alone = name == "MaxPooling" and not call.wanted[1]
    kernel = (_WITHOUT_PLACES if alone else _KERNELS[name])[large.dtype.name]
    return launch(
        kernel,
        words,
        (Block.large, Block.small, NO_WORD, Block.workspace) if alone else _ARGUMENTS[name],
        parts=parts,
        workspace=share_bytes * parts,
        errors=errors,
        owner=(kernel, owner),
        note=note,
    )


def _planar_call(call: Call, slices: int, planar: Sequence[Axis]) -> Call:
    """The call for one plane's slices over the last two axes."""
    attributes = dict(call.attributes)
    for field in ("kernel", "stride", "pad"):
        attributes[field] = tuple(getattr(axis, field) for axis in planar)
    dtype = call.outputs[0].dtype
    large = ArrayDesc((slices, *(axis.source for axis in planar)), dtype)
    small = ArrayDesc((slices, *(axis.result for axis in planar)), dtype)
    if call.spec.name.endswith("Grad"):
        attributes["shape"] = large.shape[1:]
        return Call(call.spec, (small,), (large,), attributes)
    outputs = [small]
    if call.spec.name == "MaxPooling":
        wide = math.prod(attributes["kernel"]) > MOST_BYTE_PLACES
        outputs.append(small.astype(np.int32 if wide else np.uint8))
    return Call(call.spec, (large,), tuple(outputs), attributes, wanted=call.wanted)


def _with_inner(name: str, native: Native, table: list[int], sizes: dict[str, int]) -> list[int]:
    """The block of a call with an inner kernel; sizes: the words that do not depend on that."""
    words = filled(
        Block,
        inner=native.address,
        inner_block=size_of(Block) + len(table),
        count=len(native.block),
        spreads=int(name.endswith("Grad")),
        **_inner_words(name, native),
        **sizes,
    )
    return [*words, *table, *native.block.tolist()]


def _inner_words(name: str, native: Native) -> dict[str, int]:
    """The words of the inner block for its arguments, by what they are called in ours."""
    large, small, workspace = "inner_large", "inner_small", "inner_workspace"
    names: tuple[str, ...] = (small, large, workspace) if name.endswith("Grad") else (large, small, workspace)
    if name == "MaxPooling":
        names = (large, small, "inner_place", workspace)[: len(native.arguments)]  # some need workspace
    absent = {"inner_place": NO_WORD, "inner_workspace": NO_WORD}
    return {**absent, **dict(zip(names, native.arguments, strict=True))}
