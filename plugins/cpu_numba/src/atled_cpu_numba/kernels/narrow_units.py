"""Which parts of an op's arrays do not depend on each other, so that calls in half and bf16 can take some at a time.

A unit is a row, a plane, a channel or a column. What belongs to some units in a row is, of each array, a piece: rows of
equal length, which `widened_units` casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from atled.plugin import ArrayDesc, Call, NamedTuple
from atled_cpu_numba.kernels.pooling import planes, turned

_FEWEST_COLUMNS = 64  # at a time: shorter rows take longer to call for than to cast
_MOST_ROWS = 256  # of columns at a time: more would leave the cache, or be too short


class Piece(NamedTuple):
    """Where the units of an array are, in elements.

    step: from unit to unit, and of a row for each unit.  far: from the units of one row of them to those of the next.
    rows: a unit has, `row` apart.
    """

    step: int
    far: int = 0
    rows: int = 1
    row: int = 0


class Units(NamedTuple):
    """total: how many there are.  per: of them in a row.  least: as few can be computed together.

    pieces: of each input and output; None where it is the same for all units, or absent.
    of: the call in float32 of so many.
    """

    total: int
    per: int
    least: int
    pieces: tuple[Piece | None, ...]
    of: Callable[[int], Call]


def units_of(wide: Call) -> Units | None:
    """The units of a call in float32, None where the casts are best done of whole arrays."""
    name, attributes = wide.spec.name, wide.attributes
    first = wide.inputs[0] if wide.inputs else None
    if first is None or any(desc is not None and desc.strides for desc in _descs(wide)):
        return None
    if name in _POOLING:
        return _pooling(wide, first)
    if attributes.get("channel_last"):
        return None
    if name == "Softmax":
        return _softmax(wide, first)
    if name in _ROWS:
        return _leading(wide, attributes[_ROWS[name]] % first.ndim)
    if name in _FILTERS or name == "ConvolutionWeightGrad":
        return _filters(wide)
    return None


def _descs(call: Call) -> tuple[ArrayDesc | None, ...]:
    return (*call.inputs, *call.outputs)


def _call(wide: Call, shapes: list[tuple[int, ...] | None], given: Mapping[str, Any]) -> Call:
    """The same call of arrays of other shapes, with some attributes."""
    count = len(wide.inputs)
    descs = [
        desc if desc is None or shape is None else ArrayDesc(shape, desc.dtype)
        for desc, shape in zip(_descs(wide), shapes, strict=True)
    ]
    outputs = [desc for desc in descs[count:] if desc is not None]
    return wide.on(tuple(descs[:count]), tuple(outputs), {**wide.attributes, **given})


def _leading(wide: Call, axes: int) -> Units | None:
    """Units are what the first axes count."""
    if not axes:
        return None
    descs = _descs(wide)
    (total,) = {math.prod(desc.shape[:axes]) for desc in descs if desc is not None}
    pieces = tuple(None if desc is None else Piece(math.prod(desc.shape[axes:])) for desc in descs)
    # As many axes as before, for what the call counts them by.
    ones = (1,) * (axes - 1)

    def of(count: int) -> Call:
        return _call(wide, [None if desc is None else (*ones, count, *desc.shape[axes:]) for desc in descs], {})

    return Units(total, total, 1, pieces, of)


# Ops of rows, or of columns within them, and the attribute that says where these begin.
_ROWS = {"SoftmaxCrossEntropy": "axis", "TopKData": "base_axis", "TopNError": "axis"}
_POOLING = ("MaxPooling", "MaxPoolingGrad", "AveragePooling", "AveragePoolingGrad", "SumPooling", "SumPoolingGrad")


def _pooling(wide: Call, first: ArrayDesc) -> Units | None:
    """Planes, or images whose channels lie behind; small planes are turned all at once."""
    axes = len(wide.attributes["kernel"])
    if wide.attributes.get("channel_last"):
        return _leading(wide, first.ndim - 1 - axes)
    return None if turned.fits(wide, planes.axes_of(wide)) else _leading(wide, first.ndim - axes)


def _softmax(wide: Call, x: ArrayDesc) -> Units | None:
    """Rows; of columns some side by side, unless these are long."""
    axis = wide.attributes["axis"] % x.ndim
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if inner < _FEWEST_COLUMNS:
        return _leading(wide, axis)
    if n > _MOST_ROWS:
        return None
    piece = Piece(1, far=n * inner, rows=n, row=inner)
    return Units(
        math.prod(x.shape[:axis]) * inner,
        inner,
        _FEWEST_COLUMNS,
        (piece, piece),
        lambda count: _call(wide, [(1, n, count)] * 2, {"axis": 1}),
    )


# Of ops with filters, the positions of weight and bias, which a map has for itself.
_FILTERS = {
    "Convolution": (1, 2),
    "DepthwiseConvolution": (1, 2),
    "ConvolutionDataGrad": (1,),
    "Deconvolution": (1, 2),
    "DepthwiseDeconvolution": (1, 2),
}


def _filters(wide: Call) -> Units | None:
    """Channels of depthwise convolutions, and images of others with groups."""
    x, other = wide.inputs[0], wide.inputs[1]
    assert x is not None
    assert other is not None
    axis, descs, is_weight_grad = wide.attributes["base_axis"], _descs(wide), wide.spec.name == "ConvolutionWeightGrad"
    result = other if is_weight_grad else wide.outputs[0]
    groups = wide.attributes.get("group", min(x.shape[axis], result.shape[axis]))
    if groups == 1:
        return None
    if min(x.shape[axis], result.shape[axis]) > groups:
        return _images(wide)
    images, small = math.prod(x.shape[:axis]), _FILTERS.get(wide.spec.name, (2,))
    pieces: list[Piece | None] = []
    shapes: list[Callable[[int], tuple[int, ...]] | None] = []
    for position, desc in enumerate(descs):
        if desc is None:
            pieces.append(None)
            shapes.append(None)
            continue
        at = 0 if position in small else axis
        of_group, rest = desc.shape[at] // groups, desc.shape[at + 1 :]
        step = of_group * math.prod(rest)
        if position in small:
            pieces.append(Piece(step))
        elif is_weight_grad:
            pieces.append(Piece(step, rows=images, row=groups * step))
        else:
            pieces.append(Piece(step, far=groups * step))
        shapes.append(
            _shape_of((), of_group, rest)
            if position in small
            else _shape_of((images if is_weight_grad else 1,), of_group, rest)
        )
    given: dict[str, Any] = {"base_axis": 1}

    def of(count: int) -> Call:
        number = {"group": count} if "group" in wide.attributes else {}
        return _call(wide, [None if shape is None else shape(count) for shape in shapes], {**given, **number})

    # A single channel would be no depthwise convolution any more.
    return Units(groups if is_weight_grad else images * groups, groups, 2, tuple(pieces), of)


def _shape_of(leading: tuple[int, ...], of_group: int, rest: tuple[int, ...]) -> Callable[[int], tuple[int, ...]]:
    return lambda count: (*leading, count * of_group, *rest)


def _images(wide: Call) -> Units | None:
    """Images of a convolution with groups, forward alone: they share weight and bias."""
    axis, descs = wide.attributes["base_axis"], _descs(wide)
    if wide.spec.name != "Convolution" or not axis:
        return None
    shared = range(1, len(wide.inputs))

    def is_shared(position: int) -> bool:
        return position in shared or descs[position] is None

    total = math.prod(wide.outputs[0].shape[:axis])
    pieces = tuple(
        None if desc is None or is_shared(n) else Piece(math.prod(desc.shape[axis:])) for n, desc in enumerate(descs)
    )

    def of(count: int) -> Call:
        shapes = [None if desc is None or is_shared(n) else (count, *desc.shape[axis:]) for n, desc in enumerate(descs)]
        return _call(wide, shapes, {"base_axis": 1})

    return Units(total, total, 1, pieces, of)
