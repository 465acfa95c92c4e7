"""Elements in another arrangement: slices, transposes, joined and split arrays, padding, shifts, diagonals.

They move as units of bytes, so there is one kernel for all dtypes of a size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.arrangement import Axis, division, in_units, merged, strides, unit_count
from atled_cuda_cupy.launching import Launch, Step, queued

_THREADS, _ITEMS = 256, 4  # as in indexing.cuh
_TAKEN, _SPREAD, _NEAREST, _MIRROR, _REFLECT = range(5)  # what an axis does, as in gathering.cuh
_FEW = 8  # a shorter axis would leave most of a tile unused
_MOST_PARTS = 64  # pointers that a launch of `join` takes


def accepts(call: Call) -> bool | str:
    """True for elements of up to 8 bytes, else the reason."""
    for desc in (*call.inputs, *call.outputs):
        if desc is not None and desc.dtype.itemsize not in (1, 2, 4, 8):
            return f"the kernels move elements of 1, 2, 4 or 8 bytes, not {desc.dtype}"
    return True


def accepts_floats(call: Call) -> bool | str:
    """True for dtypes that kernels compute with, else the reason."""
    dtype = call.outputs[0].dtype
    return dtype.name in ("float16", "bfloat16", "float32", "float64") or f"no kernel computes in {dtype}"


def accepts_stored(call: Call) -> bool | str:
    """True for dtypes that kernels store zeros of, else the reason."""
    return has_type(call.outputs[0]) or f"no kernel stores {call.outputs[0].dtype}"


def units_text(name: str) -> str:
    """A kernel that moves units."""
    return template("indexing") + template("units") + template(name)


def is_wide(*sizes: int) -> bool:
    """Whether places are counted in 64 bits; one step of the largest grid lies behind the last element."""
    return any(size >= 2**31 for size in sizes)


def _gather(
    call: Call, axes: Sequence[Axis], base: int = 0, *, mapping: int = _TAKEN, scatters: bool = False
) -> Launch:
    """A launch over x and y; axes, base: of the array that is walked in C order, with strides of the other one.

    That is y, or x where the launch scatters.
    """
    desc = call.outputs[0]
    itemsize = desc.dtype.itemsize
    spreads = mapping == _SPREAD
    walked, base, width = in_units(merged(axes, spreads=spreads), itemsize, base, spreads=spreads)
    units = math.prod(axis.size for axis in walked)
    words = [units, base]
    for axis in walked:
        words += [*division(axis.size), axis.stride]
        if mapping:
            words += [axis.start, axis.held, *division(axis.step)]
    defines: dict[str, object] = {"ITEM": itemsize, "UNIT": itemsize * width, "RANK": len(walked)}
    defines |= {"MAP": mapping, "SCATTER": int(scatters)}
    if spreads:
        defines["T"], defines["A"] = type_names(desc.dtype)
    where = device(call.device_id)
    return Launch(
        where,
        units_text("gathering"),
        "gather",
        where.blocks(units, _THREADS, _ITEMS),
        _THREADS,
        words,
        defines,
        floats=call.float_count,
        # A map reaches two sizes of an axis far.
        wide=_is_wide(call) or (mapping != _TAKEN and is_wide(*(2 * axis.held for axis in walked))),
    )


def _is_wide(call: Call) -> bool:
    return is_wide(*(desc.size for desc in (*call.inputs, *call.outputs) if desc is not None))


def _one(call: Call, launch: Launch) -> Prepared:
    return queued(call, launch)


def prepare_slice(call: Call) -> Prepared:
    """Strides of x times the steps, from the first element on."""
    (x,), y = call.inputs, call.outputs[0]
    assert x is not None
    start, step = call.attributes["start"], call.attributes["step"]
    along = strides(x.shape)
    axes = [Axis(size, stride * by) for size, stride, by in zip(y.shape, along, step, strict=True)]
    return _one(call, _gather(call, axes, sum(map(int.__mul__, start, along)) if y.size else 0))


def prepare_slice_grad(call: Call) -> Prepared:
    """Zeros but for the places that were taken; a negative step goes through gy backwards."""
    (gy,), attributes = call.inputs, call.attributes
    assert gy is not None
    axes, base = [], 0
    for size, taken, stride, start, step in zip(
        attributes["shape"], gy.shape, strides(gy.shape), attributes["start"], attributes["step"], strict=True
    ):
        if step < 0 and taken:
            base += (taken - 1) * stride
            axes.append(Axis(size, -stride, start + (taken - 1) * step, -step, taken))
        else:
            axes.append(Axis(size, stride, start if taken else 0, abs(step), taken))
    return _one(call, _gather(call, axes, base, mapping=_SPREAD))


def prepare_flip(call: Call) -> Prepared:
    """Negative strides, from the last element on."""
    shape, axes, base = call.outputs[0].shape, [], 0
    for axis, (size, stride) in enumerate(zip(shape, strides(shape), strict=True)):
        flips = axis in call.attributes["axes"]
        base += (size - 1) * stride if flips else 0
        axes.append(Axis(size, -stride if flips and size > 1 else stride))
    return _one(call, _gather(call, axes, base if call.outputs[0].size else 0))


def prepare_broadcast_to(call: Call) -> Prepared:
    """Strides of 0 where y is repeated; x is not read."""
    _, y = call.inputs
    z, axis = call.outputs[0], call.attributes["axis"]
    assert y is not None
    first = z.ndim - y.ndim if axis == -1 else axis
    along = [0] * first + strides(y.shape) + [0] * (z.ndim - first - y.ndim)
    launch = _gather(call, [Axis(size, stride) for size, stride in zip(z.shape, along, strict=True)])
    return queued(call, lambda x, y, z: [(launch, (y, z), 0)])


def prepare_diagonal(call: Call) -> Prepared:
    """Diagonals of matrices, and matrices from them: every (N + 1)-th of N N places."""
    size = call.outputs[0].shape[-1]
    rows = math.prod(call.outputs[0].shape[:-1])
    if call.spec.name == "MatrixDiagPart":
        return _one(call, _gather(call, [Axis(rows, size * size), Axis(size, size + 1)]))
    axes = [Axis(rows // max(size, 1), size), Axis(size * size, 1, 0, size + 1, size)]
    return _one(call, _gather(call, axes, mapping=_SPREAD))


def prepare_any_diagonal(call: Call) -> Prepared:
    """One diagonal of matrices, and matrices with it: places a row and an element apart."""
    x, y, offset = call.inputs[0], call.outputs[0], call.attributes["offset"]
    assert x is not None
    rows, columns = (x if call.spec.name == "Diagonal" else y).shape[-2:]
    first = max(offset, 0) + max(-offset, 0) * columns if x.size and y.size else 0
    if call.spec.name == "Diagonal":
        axes = [Axis(math.prod(y.shape[:-1]), rows * columns), Axis(y.shape[-1], columns + 1)]
        return _one(call, _gather(call, axes, first))
    length = x.shape[-1]
    axes = [Axis(math.prod(x.shape[:-1]), length), Axis(rows * columns, 1, first, columns + 1, length)]
    return _one(call, _gather(call, axes, mapping=_SPREAD))


def prepare_repetition(call: Call) -> Prepared:
    """Each axis is two, of which one has the stride 0."""
    (x,), attributes = call.inputs, call.attributes
    assert x is not None
    if call.spec.name == "Tile":
        reps = attributes["reps"]
        shape = (1,) * (len(reps) - x.ndim) + x.shape
        pairs = zip(reps, shape, strides(shape), strict=True)
        axes = [one for count, size, stride in pairs for one in (Axis(count, 0), Axis(size, stride))]
    else:
        axes = [Axis(size, stride) for size, stride in zip(x.shape, strides(x.shape), strict=True)]
        axes.insert(attributes["axis"] + 1, Axis(attributes["repeats"], 0))
    return _one(call, _gather(call, axes))


def prepare_pad(call: Call) -> Prepared:
    """Places of the padding have the constant, or what they mirror."""
    (x,), attributes = call.inputs, call.attributes
    assert x is not None
    widths = attributes["pad_width"]
    reflects = attributes["mode"] == "reflect"
    axes = [
        Axis(size + before + after, stride, before, 1, size)
        for size, stride, before, after in zip(x.shape, strides(x.shape), widths[::2], widths[1::2], strict=True)
    ]
    return _one(call, _gather(call, axes, mapping=_REFLECT if reflects else _SPREAD))


def prepare_shift(call: Call) -> Prepared:
    """Places before the border have what is there, or what they mirror."""
    shape, mirrors = call.outputs[0].shape, call.attributes["border_mode"] == "reflect"
    shifts = [_within(size, shift, mirrors) for size, shift in zip(shape, call.attributes["shifts"], strict=True)]
    axes = [
        Axis(size, stride, shift, 1, size) for size, stride, shift in zip(shape, strides(shape), shifts, strict=True)
    ]
    return _one(call, _gather(call, axes, mapping=_MIRROR if mirrors else _NEAREST))


def _within(size: int, shift: int, mirrors: bool) -> int:
    """The shift that does the same within a period of the mirrored axis, or as far as there is something to see."""
    if not size:
        return 0
    return shift % (2 * size) if mirrors else max(-size, min(shift, size))


def prepare_shift_grad(call: Call) -> Prepared:
    """Axis after axis, each rounded as an array of its own; arrays between are in the workspace."""
    desc, mirrors = call.outputs[0], call.attributes["border_mode"] == "reflect"
    moved = [(axis, _within(desc.shape[axis], far, mirrors)) for axis, far in enumerate(call.attributes["shifts"])]
    moved = [(axis, far) for axis, far in moved if far]
    if not moved or not desc.size:
        return _one(call, _gather(call, [Axis(desc.size, 1)]))
    storage, real = type_names(desc.dtype)
    defines = {"T": storage, "A": real, "REFLECT": int(mirrors)}
    source = template("indexing") + template("shifting")
    where = device(call.device_id)
    launches = [
        Launch(
            where,
            source,
            "shift_back",
            where.blocks(desc.size),
            _THREADS,
            (desc.size, desc.shape[axis], math.prod(desc.shape[axis + 1 :]), far),
            defines,
            wide=is_wide(desc.size, 4 * desc.shape[axis]),  # so far its sums reach
        )
        for axis, far in moved
    ]
    buffers = min(len(moved) - 1, 2)

    def steps(gy: Any, gx: Any, *workspace: Any) -> Sequence[Step]:  # Any: arrays of this device
        between = [workspace[0].data.ptr + number * desc.nbytes for number in range(buffers)]
        places = [gy, *(between[number % buffers] for number in range(len(moved) - 1)), gx]
        return [(launch, places[number : number + 2], 0) for number, launch in enumerate(launches)]

    return queued(call, steps, workspace=buffers * desc.nbytes)


def prepare_transpose(call: Call) -> Prepared:
    """Axes that stay side by side are merged; where the innermost one moves, tiles of it go through shared memory."""
    (x,), y = call.inputs, call.outputs[0]
    assert x is not None
    along = strides(x.shape)
    axes = merged([Axis(x.shape[axis], along[axis]) for axis in call.attributes["axes"]])
    walked, _, width = in_units(axes, y.dtype.itemsize)
    walked = merged(walked)
    inner = next((number for number, axis in enumerate(walked) if axis.stride == 1), len(walked) - 1)
    if inner == len(walked) - 1 or not y.size:
        return _one(call, _gather(call, axes))
    if walked[inner].size < _FEW:  # y has few rows of x side by side: x is walked, and y written here and there
        there = dict(zip(call.attributes["axes"], strides(y.shape), strict=True))
        axes = [Axis(size, there[axis]) for axis, size in enumerate(x.shape)]
        return _one(call, _gather(call, axes, scatters=True))
    if walked[-1].size < _FEW:
        return _one(call, _gather(call, axes))
    return _one(call, _tiles(call, walked, inner, width))


def _tiles(call: Call, walked: Sequence[Axis], inner: int, width: int) -> Launch:
    """A launch that exchanges the last axis of y and the axis `inner`, which is the last one of x."""
    there = strides([axis.size for axis in walked])
    itemsize = call.outputs[0].dtype.itemsize
    unit = width * itemsize
    tile = 64 if unit <= 2 else 32
    last, other = walked[-1], walked[inner]
    counts = -(-last.size // tile), -(-other.size // tile)
    rest = [number for number in reversed(range(len(walked) - 1)) if number != inner]
    tiles = math.prod(counts) * math.prod(walked[number].size for number in rest)
    words = [tiles, last.size, last.stride, other.size, there[inner], *counts]
    for number in rest:
        words += [walked[number].size, walked[number].stride, there[number]]
    defines = {"ITEM": itemsize, "UNIT": unit, "RANK": len(rest)}
    source = units_text("transposing")
    return Launch(device(call.device_id), source, "transpose", tiles, _THREADS, words, defines, wide=_is_wide(call))


def _joining(call: Call, whole: int, parts: Sequence[int], rows: int, *, splits: bool) -> list[tuple[Launch, slice]]:
    """Launches over a whole and its parts, each with the parts that it takes; whole, parts: elements of a row."""
    itemsize = call.outputs[0].dtype.itemsize
    width = unit_count(itemsize, whole, *parts)
    launches, place, where = [], 0, device(call.device_id)
    source = units_text("joining")
    for first in range(0, len(parts), _MOST_PARTS):
        taken = parts[first : first + _MOST_PARTS]
        words = [len(taken), whole // width]
        for run in taken:
            words += [rows * run // width, *division(run // width), place // width]
            place += run
        room = max(4, 1 << (len(taken) - 1).bit_length())  # few texts for all numbers of parts
        words += [0] * (5 * (room - len(taken)))
        each = max(where.blocks(rows * max(taken) // width, _THREADS, _ITEMS) // len(taken), 1)
        defines = {"ITEM": itemsize, "UNIT": itemsize * width, "PARTS": room, "SPLIT": int(splits)}
        launch = Launch(
            where,
            source,
            "join",
            each * len(taken),
            _THREADS,
            words,
            defines,
            wide=is_wide(rows * whole),
        )
        launches.append((launch, slice(first, first + room)))
    return launches


def prepare_joining(call: Call) -> Prepared:
    """Arrays along an axis, or along a new one."""
    axis, y, count = call.attributes["axis"], call.outputs[0], len(call.inputs)
    rows = math.prod(y.shape[:axis])
    runs = [desc.size // rows if rows else 0 for desc in call.inputs if desc is not None]
    return queued(call, partial(_joined_steps, _joining(call, sum(runs), runs, rows, splits=False), count))


def prepare_split(call: Call) -> Prepared:
    """One array per index of an axis."""
    (x,), axis, count = call.inputs, call.attributes["axis"], len(call.outputs)
    assert x is not None
    run = math.prod(x.shape[axis + 1 :])
    launches = _joining(call, count * run, [run] * count, math.prod(x.shape[:axis]), splits=True)
    return queued(call, lambda x, *parts: _joined_steps(launches, count, *parts, x))


def _joined_steps(launches: Sequence[tuple[Launch, slice]], count: int, *arrays: Any) -> Sequence[Step]:
    """arrays: the parts, then the whole; pointers that a launch takes and has no use for are null."""
    parts, whole = (*arrays[:count], *[None] * _MOST_PARTS), arrays[count]
    return [(launch, (whole, *parts[taken]), 0) for launch, taken in launches]


_OPS = {
    prepare_broadcast_to: "BroadcastTo",
    prepare_diagonal: "MatrixDiag MatrixDiagPart",
    prepare_flip: "Flip",
    prepare_joining: "Concatenate Stack",
    prepare_pad: "Pad",
    prepare_shift: "Shift",
    prepare_shift_grad: "ShiftGrad",
    prepare_slice: "Slice",
    prepare_slice_grad: "SliceGrad",
    prepare_split: "Split",
    prepare_transpose: "Transpose",
}
_COMPUTING = (prepare_diagonal, prepare_pad, prepare_shift_grad, prepare_slice_grad)


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for prepare, ops in _OPS.items():
        fits = accepts_floats if prepare in _COMPUTING else accepts
        for op in ops.split():
            registrar.implementation(op, "cuda", prepare, accepts=fits, note="kernel")
    for op, prepare, fits in (
        ("Diagonal", prepare_any_diagonal, accepts),
        ("DiagonalMatrix", prepare_any_diagonal, accepts_stored),
        ("Repeat", prepare_repetition, accepts),
        ("Tile", prepare_repetition, accepts),
    ):
        registrar.implementation(op, "cuda", prepare, accepts=fits, note="kernel", integers=True)
