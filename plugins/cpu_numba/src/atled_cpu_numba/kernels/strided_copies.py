"""Ops that copy an array, or to or from a part of one with strides: slices of any axes and steps, mirrors, diagonals.

And those of bytes whose own kernels move wider elements: joins, flips, axes in another order. The copies are the
formula compiler's, of whole numbers as wide as the elements, so that all dtypes are moved as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from atled.plugin import ArrayDesc, Call, NamedTuple, Prepared, Program
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.rows_of_kernels import Array, Rows
from atled_cpu_numba.kernels.shared.launch import has_empty

_COPY = Program(("x",), (), (("y", "x"),))
_ZERO = Program((), (), (("y", "0"),))
_WIDTHS = (1, 2, 4, 8)  # bytes of an element


class _Part(NamedTuple):
    """Elements of an array: how many along each axis, elements from one to the next, and the first one's place."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0


class _Copies:
    """The rows of a call whose arrays have one dtype."""

    def __init__(self, call: Call) -> None:
        self._dtype = _whole(call.outputs[0].dtype)
        self.rows = Rows(call)
        *self.inputs, self.y = self.rows.arguments

    def zero(self, array: Array, size: int) -> None:
        """Fills an array."""
        self.rows.add(elementwise.prepare_program(_ZERO, (), (ArrayDesc((size,), self._dtype),)), array)

    def copy(self, source: Array, taken: _Part, target: Array, put: _Part) -> None:
        """Copies a part of one array to a part of one, of the same shape."""
        descs = [ArrayDesc(part.shape, self._dtype, part.strides) for part in (taken, put)]
        places = [
            array._replace(offset=part.first * self._dtype.itemsize) for array, part in ((source, taken), (target, put))
        ]
        self.rows.add(prepare_copy(*descs), *places)


def prepare_copy(source: ArrayDesc, target: ArrayDesc) -> Prepared:
    """Copies an array to one of its shape and dtype, each with strides or without."""
    read, written = (ArrayDesc(desc.shape, _whole(desc.dtype), desc.strides) for desc in (source, target))
    return elementwise.prepare_program(_COPY, (read,), (written,))


def _whole(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"int{8 * dtype.itemsize}")


def _steps(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _all(shape: Sequence[int]) -> _Part:
    return _Part(tuple(shape), _steps(shape))


def _sliced(shape: Sequence[int], call: Call) -> _Part:
    """What a slice takes of an array."""
    bounds = zip(*(call.attributes[name] for name in ("start", "stop", "step")), strict=True)
    ranges = [range(*slice(*bound).indices(size)) for size, bound in zip(shape, bounds, strict=True)]
    steps = _steps(shape)
    return _Part(
        tuple(map(len, ranges)),
        tuple(step * places.step for step, places in zip(steps, ranges, strict=True)),
        sum(step * places.start for step, places in zip(steps, ranges, strict=True)),
    )


def _whole_array(call: Call, copies: _Copies) -> None:
    every = _all((call.outputs[0].size,))
    copies.copy(copies.inputs[0], every, copies.y, every)


def _slice(call: Call, copies: _Copies) -> None:
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    copies.copy(copies.inputs[0], _sliced(x.shape, call), copies.y, _all(y.shape))


def _slice_grad(call: Call, copies: _Copies) -> None:
    gy, gx = call.inputs[0], call.outputs[0]
    assert gy is not None
    copies.zero(copies.y, gx.size)
    copies.copy(copies.inputs[0], _all(gy.shape), copies.y, _sliced(gx.shape, call))


def _mirror(call: Call, copies: _Copies) -> None:
    """The array in the middle, then axis by axis what is before and behind: from the rows that are complete by then."""
    x, y, widths = call.inputs[0], call.outputs[0], call.attributes["pad_width"]
    assert x is not None
    before, steps = widths[::2], _steps(y.shape)
    middle = sum(step * width for step, width in zip(steps, before, strict=True))
    copies.copy(copies.inputs[0], _all(x.shape), copies.y, _Part(x.shape, steps, middle))
    for axis, (size, step) in enumerate(zip(x.shape, steps, strict=True)):
        # The axes before this one are complete: they begin with their first element.
        middle -= step * before[axis]
        back = (*steps[:axis], -step, *steps[axis + 1 :])
        lowest, highest = middle + step * before[axis], middle + step * (before[axis] + size - 1)
        for width, end, inwards in ((before[axis], lowest, step), (widths[2 * axis + 1], highest, -step)):
            if width:
                shape = (*y.shape[:axis], width, *x.shape[axis + 1 :])
                # Away from the end on one side, and on the other.
                inner, outer = (steps, back) if inwards > 0 else (back, steps)
                copies.copy(copies.y, _Part(shape, inner, end + inwards), copies.y, _Part(shape, outer, end - inwards))


def _diagonals(shape: Sequence[int]) -> _Part:
    """Of the square matrices in an array."""
    side = shape[-1]
    return _Part((math.prod(shape[:-2]), side), (side * side, side + 1))


def _diagonal(call: Call, copies: _Copies) -> None:
    x = call.inputs[0]
    assert x is not None
    taken = _diagonals(x.shape)
    copies.copy(copies.inputs[0], taken, copies.y, _all(taken.shape))


def _on_diagonal(call: Call, copies: _Copies) -> None:
    y = call.outputs[0]
    put = _diagonals(y.shape)
    copies.zero(copies.y, y.size)
    copies.copy(copies.inputs[0], _all(put.shape), copies.y, put)


def _flip(call: Call, copies: _Copies) -> None:
    shape, axes = call.outputs[0].shape, call.attributes["axes"]
    steps = _steps(shape)
    back = tuple(-step if axis in axes else step for axis, step in enumerate(steps))
    last = sum(steps[axis] * (shape[axis] - 1) for axis in axes)
    copies.copy(copies.inputs[0], _Part(shape, back, last), copies.y, _all(shape))


def _transpose(call: Call, copies: _Copies) -> None:
    x, y, axes = call.inputs[0], call.outputs[0], call.attributes["axes"]
    assert x is not None
    steps = _steps(x.shape)
    copies.copy(copies.inputs[0], _Part(y.shape, tuple(steps[axis] for axis in axes)), copies.y, _all(y.shape))


def _pieces(call: Call, whole: ArrayDesc, pieces: Sequence[ArrayDesc | None]) -> Iterator[tuple[_Part, _Part]]:
    """Each of several arrays, and where it is in the one that holds them all: rows, as of `joining`."""
    rows, first = math.prod(whole.shape[: call.attributes["axis"]]), 0
    for piece in pieces:
        assert piece is not None
        length = piece.size // rows
        yield _all((rows, length)), _Part((rows, length), (whole.size // rows, 1), first)
        first += length


def _join(call: Call, copies: _Copies) -> None:
    for source, (taken, put) in zip(copies.inputs, _pieces(call, call.outputs[0], call.inputs), strict=True):
        copies.copy(source, taken, copies.y, put)


def _split(call: Call, copies: _Copies) -> None:
    whole, *pieces = copies.rows.arguments
    assert call.inputs[0] is not None
    for target, (put, taken) in zip(pieces, _pieces(call, call.inputs[0], call.outputs), strict=True):
        copies.copy(whole, taken, target, put)


_COPYING: Mapping[str, Callable[[Call, _Copies], None]] = {
    "ClipGradByNorm": _whole_array,
    "ClipGradByValue": _whole_array,
    "Concatenate": _join,
    "Flip": _flip,
    "MatrixDiag": _on_diagonal,
    "MatrixDiagPart": _diagonal,
    "Pad": _mirror,
    "Slice": _slice,
    "SliceGrad": _slice_grad,
    "Split": _split,
    "Stack": _join,
    "Transpose": _transpose,
}


def accepts(call: Call) -> bool | str:
    """Whether arrays are of one dtype with elements as wide as whole numbers, and not empty; mirrored, if padded."""
    descs = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    if len({desc.dtype for desc in descs}) > 1 or descs[0].dtype.itemsize not in _WIDTHS:
        return "takes arrays of one dtype, of 1, 2, 4 or 8 bytes"
    if call.spec.name == "Pad" and call.attributes["mode"] != "reflect":
        return "pads by what it mirrors"
    return "an array is empty" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """Slice, Pad and others of one array: x -> y.  SliceGrad: gy -> gx.  ClipGrad...: x, bounds -> y.

    Concatenate, Stack: x... -> y.  Split: x -> y...
    """
    copies = _Copies(call)
    _COPYING[call.spec.name](call, copies)
    return copies.rows.finished("strided copies")
