"""Ops that are formulas and sums one after the other: activations of two halves, a divergence, norms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, Program, is_narrow, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels import padding
from atled_cpu_numba.kernels.reduction import any_axes
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.launch import REALS, narrow_dtypes, refuse_floats

_MOST_MAPS = 31  # of LRN: each is an input of the formula


def _prepare_doubled(call: Call) -> Prepared:
    """CReLU, CELU: x -> y, of which both halves are written at once."""
    x, axis = call.inputs[0], call.attributes["axis"]
    assert x is not None
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    half = ArrayDesc((outer, inner), x.dtype, (2 * inner, 1))
    rows = Rows(call)
    source, y = rows.arguments
    program, flat = _DOUBLED[call.spec.name], ArrayDesc((outer, inner), x.dtype)
    made = elementwise.prepare_program(program, (flat,), (half, half), "float32" if is_narrow(x.dtype) else None)
    rows.add(made, source, y, y._replace(offset=inner * x.dtype.itemsize))
    return rows.finished("formula")


def _prepare_divergence(call: Call) -> Prepared:
    """KLMultinomial: p, q -> D; p and q may be narrow where D is float32."""
    p, total = call.inputs[0], call.outputs[0]
    assert p is not None
    given = ArrayDesc((total.size, p.size // max(1, total.size)), p.dtype)
    made = given.astype(total.dtype)
    rows = Rows(call)
    *inputs, result = rows.arguments
    terms = elementwise.prepare_program(_DIVERGENCE, (given, given), (made,))
    rows.add_carrying(terms, inputs, made, any_axes.prepare(_sum(made, (1,))), result)
    return rows.finished("formula; sums of rows")


def _prepare_scaled(call: Call) -> Prepared:
    """ScaleToNorm: x -> y, norm; by squares in float64, as the norm of what float32 holds may be beyond it.

    x and y may be narrow where the norm is float32.
    """
    x, norm = call.inputs[0], call.outputs[1]
    assert x is not None
    if is_narrow(x.dtype):
        return _prepare_narrow_scaled(call, x, norm)
    double = np.dtype(np.float64)
    squares, total = x.astype(double), norm.astype(double)
    rows = Rows(call)
    source, y, norms = rows.arguments
    made, factor = rows.between(total), rows.between(total)
    square = elementwise.prepare_program(_SQUARE, (x,), (squares,), "float64")
    rows.add_carrying(square, (source,), squares, any_axes.prepare(_sum(squares, call.attributes["axes"])), made)
    rows.add(elementwise.prepare_program(_FACTOR, (total,), (total, norm), "float64"), made, factor, norms)
    rows.add(elementwise.prepare_program(_SCALED, (x, total), (x,), "float64"), source, factor, y)
    return rows.finished("sum of squares; formula")


def _prepare_narrow_scaled(call: Call, x: ArrayDesc, norm: ArrayDesc) -> Prepared:
    """ScaleToNorm of narrow x and y: squares of half, sums of them too, are within float32; so are the results."""
    summed = np.dtype(np.float32 if x.dtype == np.float16 else np.float64)
    squares, total = x.astype(summed), norm.astype(summed)
    rows = Rows(call)
    source, y, norms = rows.arguments
    made, root = rows.between(total), rows.between(norm)
    square = elementwise.prepare_program(_SQUARE, (x,), (squares,), summed.name)
    rows.add_carrying(square, (source,), squares, any_axes.prepare(_sum(squares, call.attributes["axes"])), made)
    rows.add(elementwise.prepare_program(_ROOT, (total,), (norm, norm), "float64"), made, root, norms)
    rows.add(elementwise.prepare_program(_SCALED_TWICE, (x, norm), (x,), "float32"), source, root, y)
    return rows.finished("sum of squares; formula")


def _prepare_local_response(call: Call) -> Prepared:
    """LRN: x -> y, denom; between maps of zeros, each map reads those around it as further inputs of one formula."""
    x, size, axis = call.inputs[0], call.attributes["size"], call.attributes["axis"]
    assert x is not None
    outer, maps, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    beyond = size // 2
    flat, padded = ((outer, count, inner) for count in (maps, maps + 2 * beyond))
    given, wide = ArrayDesc(flat, x.dtype), ArrayDesc(padded, x.dtype)
    pad = {"pad_width": (0, 0, beyond, beyond, 0, 0), "mode": "constant", "constant_value": 0.0}
    window = ArrayDesc((outer, maps * inner), x.dtype, (padded[1] * inner, 1))
    result = ArrayDesc((outer, maps * inner), x.dtype)
    rows = Rows(call)
    source, y, denom = rows.arguments
    made = rows.between(wide)
    rows.add(padding.prepare(Call(op_spec("Pad"), (given,), (wide,), pad)), source, made, constant_value=0.0)
    formula = elementwise.prepare_program(_local_response(size), (window,) * size, (result, result))
    step = inner * x.dtype.itemsize
    rows.add(formula, *[made._replace(offset=number * step) for number in range(size)], y, denom)
    return rows.finished("pad; formula")


@functools.cache
def _local_response(size: int) -> Program:
    """y and denom of an element from those at its place on `size` maps, of which its own is the one in the middle."""
    names = tuple(f"x{number}" for number in range(size))
    denom = f"bias + scale / {size} * ({' + '.join(f'{name} * {name}' for name in names)})"
    outputs = (("y", f"x{size // 2} / ({denom}) ** power"), ("denom", denom))
    return Program(names, ("scale", "power", "bias"), outputs)


def _prepare_error(call: Call) -> Prepared:
    """BinaryError: x, target -> output, each float32, float64 or narrow."""
    descs = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    flat = [ArrayDesc((desc.size,), desc.dtype) for desc in descs]
    compute = "float32" if is_narrow(descs[-1].dtype) else None
    return elementwise.prepare_program(_ERROR, flat[:-1], flat[-1:], compute)


def _sum(desc: ArrayDesc, axes: tuple[int, ...]) -> Call:
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(desc.shape))
    return Call(op_spec("Sum"), (desc,), (ArrayDesc(kept, desc.dtype),), {"axes": axes, "keep_dims": True})


_DOUBLED: Mapping[str, Program] = {
    "CReLU": Program(("x",), (), (("y", "maximum(x, 0)"), ("z", "maximum(-x, 0)"))),
    "CELU": Program(
        ("x",),
        ("alpha",),
        (("y", "where(x >= 0, x, alpha * expm1(x))"), ("z", "where(x <= 0, -x, alpha * expm1(-x))")),
    ),
}
# The logarithms of neighbours cancel, so theirs is log(1 + d) by the difference d, with what rounding took from 1 + d;
# of a p far below q the quotient itself has more digits. Each is the logarithm of one number.
_IS_FAR, _INVERSE = "2 * p < q", "(1 / (q + 1e-8))"
_DIFFERENCE = f"((p - q) * {_INVERSE})"
_QUOTIENT = f"where({_IS_FAR}, (p + 1e-8) * {_INVERSE}, 1 + {_DIFFERENCE})"
_ROUNDED = f"({_DIFFERENCE} - ({_QUOTIENT} - 1)) / {_QUOTIENT}"
_DIVERGENCE = Program(
    ("p", "q"),
    (),
    (("y", f"p * (log({_QUOTIENT}) + where({_IS_FAR} or {_DIFFERENCE} >= 1, 0, {_ROUNDED}))"),),
)
_IS_RIGHT = "(x >= 0.5 and target >= 0.5) or not (x >= 0.5 or target >= 0.5)"
_ERROR = Program(("x", "target"), (), (("output", f"where({_IS_RIGHT}, 0, 1)"),))
_SQUARE = Program(("x",), (), (("y", "x * x"),))
_FACTOR = Program(("total",), ("clip_norm",), (("factor", "clip_norm / sqrt(total)"), ("norm", "sqrt(total)")))
_SCALED = Program(("x", "factor"), (), (("y", "x * factor"),))
# Twice its root, for the factor itself may be beyond float32 where neither x nor the result is.
_ROOT = Program(("total",), ("clip_norm",), (("root", "sqrt(clip_norm / sqrt(total))"), ("norm", "sqrt(total)")))
_SCALED_TWICE = Program(("x", "root"), (), (("y", "x * root * root"),))

_PREPARED: Mapping[str, Callable[[Call], Prepared]] = {
    "BinaryError": _prepare_error,
    "CELU": _prepare_doubled,
    "CReLU": _prepare_doubled,
    "KLMultinomial": _prepare_divergence,
    "LRN": _prepare_local_response,
    "ScaleToNorm": _prepare_scaled,
}


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64 and there are some, a norm's axes are those of a sum, and maps are few."""
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)), empty=False)
    if not refused and call.spec.name == "LRN":
        return call.attributes["size"] <= _MOST_MAPS or f"counts up to {_MOST_MAPS} maps"
    if refused or call.spec.name != "ScaleToNorm":
        return refused or True
    x, axes = call.inputs[0], call.attributes["axes"]
    assert x is not None
    return any_axes.accepts(_sum(x, axes)) if axes else "takes a norm over some axes"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: what formulas read or write of the size of x."""
    name = call.spec.name
    if name == "BinaryError":
        return 0, 1, 2
    if name == "ScaleToNorm":
        x = call.inputs[0]
        assert x is not None
        return (0, 1) if x.dtype.name in narrow_dtypes() else ()
    return (0, 1) if name in _DOUBLED or name == "KLMultinomial" else ()


def prepare(call: Call) -> Prepared:
    """The call as a loop over the kernels of the others."""
    return _PREPARED[call.spec.name](call)
