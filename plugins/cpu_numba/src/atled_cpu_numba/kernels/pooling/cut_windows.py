"""Pooling of windows cut to the array, over up to four axes: maxima, sums, averages, norms and their gradients.

An image lies as (outer, four axes, inner), inner being what a last channel axis has: mostly the batch. Loops over it
are innermost; `cut_lanes` has the kernels for it. Gradients are sums over the windows that
see an element, so shares never write the same one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, op_spec
from atled_cpu_numba.kernels.pooling import cut_lanes, planes
from atled_cpu_numba.kernels.pooling.cut_block import (
    AXES,
    GATHER,
    MAX,
    NORM,
    PLACE_OUT_OF_RANGE,
    SUM,
    Block,
    write_geometry,
)
from atled_cpu_numba.kernels.pooling.cut_rows import ELEMENTS, WINDOWS
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled

_ERRORS = {PLACE_OUT_OF_RANGE: "place out of range"}
_ELEMENTS_PER_US = 400.0  # a cautious rate of one core, for the number of shares
_MOST_BYTE_PLACES = 256


def _build_windows(dtype: str, way: int) -> Callable[..., int]:
    """One result per window: its maximum, sum, average or norm, or the element at its place."""
    from atled_cpu_numba.codegen import bytes8, ints32, words
    from atled_cpu_numba.kernels.pooling.cut_axes import along
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel

    real = Real(dtype)
    number, floats = real.kind, real.pointer

    @inlined
    def cut(w, axis, window):
        start = window * w[Block.stride + axis] - w[Block.pad + axis]
        return max(start, 0), min(start + w[Block.kernel + axis], w[Block.sizes + axis])

    @kernel
    def pool_windows(block, part, parts):
        w = words(block)
        inner = w[Block.inner]
        windows1, windows2, windows3 = (
            along(w, Block.windows, 1),
            along(w, Block.windows, 2),
            along(w, Block.windows, 3),
        )
        sizes1, sizes2, sizes3 = along(w, Block.sizes, 1), along(w, Block.sizes, 2), along(w, Block.sizes, 3)
        each = w[Block.windows] * windows1 * windows2 * windows3
        elements = w[Block.sizes] * sizes1 * sizes2 * sizes3
        x, y = floats(w[Block.large]), floats(w[Block.small])
        narrow, broad, wide = bytes8(w[Block.place]), ints32(w[Block.place]), w[Block.wide]
        first, after = w[Block.outer] * each * part // parts, w[Block.outer] * each * (part + 1) // parts
        for window in range(first, after):
            image = window // each
            rest = window - image * each
            begin3, end3 = cut(w, 3, rest % windows3)
            rest //= windows3
            begin2, end2 = cut(w, 2, rest % windows2)
            rest //= windows2
            begin1, end1 = cut(w, 1, rest % windows1)
            begin0, end0 = cut(w, 0, rest // windows1)
            to = window * inner
            count = (end0 - begin0) * (end1 - begin1) * (end2 - begin2) * (end3 - begin3)
            if way == GATHER:
                for n in range(to, to + inner):
                    here = broad[n] if wide != 0 else np.int32(narrow[n])
                    if here < 0 or here >= count:
                        return PLACE_OUT_OF_RANGE
            if way != MAX:
                for n in range(to, to + inner):
                    y[n] = number(0)
            seen = np.int32(0)
            for at0 in range(begin0, end0):
                for at1 in range(begin1, end1):
                    for at2 in range(begin2, end2):
                        row = image * elements + ((at0 * sizes1 + at1) * sizes2 + at2) * sizes3
                        for at3 in range(begin3, end3):
                            at = (row + at3) * inner
                            if way == SUM:
                                for n in range(inner):
                                    y[to + n] += x[at + n]
                            elif way == NORM:
                                for n in range(inner):
                                    y[to + n] += x[at + n] * x[at + n]
                            elif way == GATHER:
                                if wide != 0:
                                    for n in range(inner):
                                        y[to + n] = x[at + n] if broad[to + n] == seen else y[to + n]
                                else:
                                    for n in range(inner):
                                        y[to + n] = x[at + n] if np.int32(narrow[to + n]) == seen else y[to + n]
                            elif seen == 0:
                                for n in range(inner):
                                    y[to + n] = x[at + n]
                                    if wide != 0:
                                        broad[to + n] = np.int32(0)
                                    else:
                                        narrow[to + n] = np.uint8(0)
                            elif wide != 0:
                                for n in range(inner):
                                    value, best = x[at + n], y[to + n]
                                    wins = (value > best) | ((value != value) & (best == best))
                                    y[to + n] = value if wins else best
                                    broad[to + n] = seen if wins else broad[to + n]
                            else:
                                for n in range(inner):
                                    value, best = x[at + n], y[to + n]
                                    wins = (value > best) | ((value != value) & (best == best))
                                    y[to + n] = value if wins else best
                                    narrow[to + n] = np.uint8(seen) if wins else narrow[to + n]
                            seen += np.int32(1)
            if way == SUM and w[Block.average] != 0:
                for n in range(to, to + inner):
                    y[n] /= number(count)
            if way == NORM:
                for n in range(to, to + inner):
                    y[n] = np.sqrt(y[n])
        return 0

    return pool_windows


def _build_elements(dtype: str, *, placed: bool) -> Callable[..., int]:
    """One result per element: the sum of the gradients of the windows that see it, or whose place it is."""
    from atled_cpu_numba.codegen import bytes8, ints32, words
    from atled_cpu_numba.kernels.pooling.cut_axes import along, cut, seeing
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel

    real = Real(dtype)
    number, floats = real.kind, real.pointer

    @inlined
    def are_places(w, first, after, each):
        """Whether all places of some windows are those of elements of them."""
        inner, narrow, broad = w[Block.inner], bytes8(w[Block.place]), ints32(w[Block.place])
        for window in range(first, after):
            rest = window % each
            count = cut(w, 3, rest % along(w, Block.windows, 3))[1]
            rest //= along(w, Block.windows, 3)
            count *= cut(w, 2, rest % along(w, Block.windows, 2))[1]
            rest //= along(w, Block.windows, 2)
            count *= cut(w, 1, rest % along(w, Block.windows, 1))[1] * cut(w, 0, rest // along(w, Block.windows, 1))[1]
            for n in range(window * inner, (window + 1) * inner):
                here = broad[n] if w[Block.wide] != 0 else np.int32(narrow[n])
                if here < 0 or here >= count:
                    return False
        return True

    @kernel
    def pool_elements(block, part, parts):
        w = words(block)
        inner = w[Block.inner]
        windows1, windows2, windows3 = (
            along(w, Block.windows, 1),
            along(w, Block.windows, 2),
            along(w, Block.windows, 3),
        )
        sizes1, sizes2, sizes3 = along(w, Block.sizes, 1), along(w, Block.sizes, 2), along(w, Block.sizes, 3)
        each = w[Block.windows] * windows1 * windows2 * windows3
        elements = w[Block.sizes] * sizes1 * sizes2 * sizes3
        gx, gy = floats(w[Block.large]), floats(w[Block.small])
        narrow, broad, wide = bytes8(w[Block.place]), ints32(w[Block.place]), w[Block.wide]
        if placed:
            all_windows = w[Block.outer] * each
            if not are_places(w, all_windows * part // parts, all_windows * (part + 1) // parts, each):
                return PLACE_OUT_OF_RANGE
        first, after = w[Block.outer] * elements * part // parts, w[Block.outer] * elements * (part + 1) // parts
        for element in range(first, after):
            image = element // elements
            rest = element - image * elements
            at3 = rest % sizes3
            rest //= sizes3
            at2 = rest % sizes2
            rest //= sizes2
            at1 = rest % sizes1
            at0 = rest // sizes1
            to = element * inner
            for n in range(to, to + inner):
                gx[n] = number(0)
            low0, high0 = seeing(w, 0, at0)
            low1, high1 = seeing(w, 1, at1)
            low2, high2 = seeing(w, 2, at2)
            low3, high3 = seeing(w, 3, at3)
            for i0 in range(low0, high0):
                begin0, extent0 = cut(w, 0, i0)
                for i1 in range(low1, high1):
                    begin1, extent1 = cut(w, 1, i1)
                    for i2 in range(low2, high2):
                        begin2, extent2 = cut(w, 2, i2)
                        row = image * each + ((i0 * windows1 + i1) * windows2 + i2) * windows3
                        number2 = ((at0 - begin0) * extent1 + at1 - begin1) * extent2 + at2 - begin2
                        for i3 in range(low3, high3):
                            begin3, extent3 = cut(w, 3, i3)
                            at = (row + i3) * inner
                            if placed:
                                own = np.int32(number2 * extent3 + at3 - begin3)
                                if wide != 0:
                                    for n in range(inner):
                                        gx[to + n] += gy[at + n] if broad[at + n] == own else number(0)
                                else:
                                    for n in range(inner):
                                        gx[to + n] += gy[at + n] if np.int32(narrow[at + n]) == own else number(0)
                            elif w[Block.average] != 0:
                                count = number(extent0 * extent1 * extent2 * extent3)
                                for n in range(inner):
                                    gx[to + n] += gy[at + n] / count
                            else:
                                for n in range(inner):
                                    gx[to + n] += gy[at + n]
        return 0

    return pool_elements


_KERNELS = {
    "WindowMax": kernels_by_dtype("window_max", partial(_build_windows, way=MAX)),
    "WindowMaxGather": kernels_by_dtype("window_max_gather", partial(_build_windows, way=GATHER)),
    "WindowMaxGrad": kernels_by_dtype("window_max_grad", partial(_build_elements, placed=True)),
    "WindowNorm": kernels_by_dtype("window_norm", partial(_build_windows, way=NORM)),
    "WindowSum": kernels_by_dtype("window_sum", partial(_build_windows, way=SUM)),
    "WindowSumGrad": kernels_by_dtype("window_sum_grad", partial(_build_elements, placed=False)),
}
_ARGUMENTS = {
    "WindowMax": (Block.large, Block.small, Block.place),
    "WindowMaxGather": (Block.large, Block.place, Block.small),
    "WindowMaxGrad": (Block.small, Block.place, Block.large),
    "WindowNorm": (Block.large, Block.small),
    "WindowSum": (Block.large, Block.small),
    "WindowSumGrad": (Block.small, Block.large),
}


_WHOLE = {
    "WindowMax": "MaxPooling",
    "WindowMaxGather": "MaxPoolingGather",
    "WindowMaxGrad": "MaxPoolingGrad",
    "WindowSum": "AveragePooling",
    "WindowSumGrad": "AveragePoolingGrad",
}
"""The poolings that are the same where no window is cut, or of averages where their number is rounded down."""


def accepts(call: Call) -> bool | str:
    """Whether the floats are float32 or float64, and there are at most four axes."""
    refused = refuse_floats(call, REALS, floats=(0,))
    if refused:
        return refused
    axes = len(call.attributes["kernel"])
    if axes > AXES:
        return f"takes windows over up to {AXES} axes, not {axes}"
    places = (*call.inputs[1:], *call.outputs[1:])
    wanted = np.uint8 if math.prod(call.attributes["kernel"]) <= _MOST_BYTE_PLACES else np.int32
    return not places or (places[0] is not None and places[0].dtype == wanted) or f"takes places as {np.dtype(wanted)}"


def prepare(call: Call) -> Prepared:
    """WindowMax: x -> y, place.  WindowSum, WindowNorm: x -> y.  WindowMaxGather: x, place -> y.

    WindowMaxGrad: gy, place -> gx.  WindowSumGrad: gy -> gx.
    """
    name, attributes = call.spec.name, call.attributes
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    large, small = (result, first) if name.endswith("Grad") else (first, result)
    axes, is_last = len(attributes["kernel"]), call.channel_last
    plain = None if is_last else _plain(call, large.shape[-axes:], small.shape[-axes:])
    if plain is not None and planes.accepts(plain) is True:
        return planes.prepare(plain)
    words = filled(
        Block,
        outer=math.prod(large.shape[: large.ndim - axes - is_last]),
        inner=large.shape[-1] if is_last else 1,
        average=int(attributes.get("average", False)),
        divisor=int(not attributes.get("average", False)),
        wide=int(math.prod(attributes["kernel"]) > _MOST_BYTE_PLACES),
    )
    write_geometry(words, _spatial(large, axes, is_last), _spatial(small, axes, is_last), attributes)
    seen = small.size * math.prod(attributes["kernel"])
    errors = _ERRORS if name in ("WindowMaxGather", "WindowMaxGrad") else None  # what cannot fail writes in place
    if is_last and cut_lanes.fits(name, words):
        return cut_lanes.prepare(name, large.dtype.name, words, _ARGUMENTS[name], seen + large.size, errors)
    by_row = {**WINDOWS, **ELEMENTS}.get(name) if not is_last else None
    kernel = (by_row or _KERNELS[name])[large.dtype.name]
    units = result.size // max(result.shape[-1], 1)  # rows, or what lies between channels
    parts = share_count((seen + large.size) / _ELEMENTS_PER_US, max(units, 1))
    return launch(kernel, words, _ARGUMENTS[name], parts=parts, errors=errors)


def _plain(call: Call, sizes: Sequence[int], counts: Sequence[int]) -> Call | None:
    """The same by a pooling that has kernels in vectors along rows; None where there is none."""
    attributes = call.attributes
    name = _WHOLE.get(call.spec.name)
    along = list(zip(sizes, counts, *(attributes[one] for one in ("kernel", "stride", "pad")), strict=True))
    if name is None or ("average" in attributes and not attributes["average"]):
        return None
    if name.startswith("Max") and any(p or (count - 1) * s + k > n for n, count, k, s, p in along):
        return None
    if any(count != (n + 2 * p - k) // s + 1 for n, count, k, s, p in along):
        return None
    given = {one: attributes[one] for one in ("kernel", "stride", "pad", "shape") if one in attributes}
    given["ignore_border"] = True
    if name.startswith("Average"):
        given["including_pad"] = False
    return Call(op_spec(name), call.inputs, call.outputs, given, type_config=call.type_config)


def _spatial(desc: ArrayDesc, axes: int, is_last: bool) -> Sequence[int]:
    end = desc.ndim - is_last
    return desc.shape[end - axes : end]
