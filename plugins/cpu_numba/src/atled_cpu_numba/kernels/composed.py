"""Ops that are formulas and sums one after the other: activations of two halves, a divergence, a norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, Program, is_narrow, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.reduction import any_axes
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.launch import REALS, refuse_floats


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
    """KLMultinomial: p, q -> D."""
    p, total = call.inputs[0], call.outputs[0]
    assert p is not None
    flat = ArrayDesc((total.size, p.size // max(1, total.size)), p.dtype)
    rows = Rows(call)
    *inputs, result = rows.arguments
    terms = elementwise.prepare_program(_DIVERGENCE, (flat, flat), (flat,))
    rows.add_carrying(terms, inputs, flat, any_axes.prepare(_sum(flat, (1,))), result)
    return rows.finished("formula; sums of rows")


def _prepare_scaled(call: Call) -> Prepared:
    """ScaleToNorm: x -> y, norm; by squares in float64, as the norm of what float32 holds may be beyond it."""
    x, norm = call.inputs[0], call.outputs[1]
    assert x is not None
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
# The logarithms of neighbours cancel; of those that are not the quotient may be rounded to -1.
_DIVERGENCE = Program(
    ("p", "q"),
    (),
    (("y", "p * where(2 * p < q, log(p + 1e-8) - log(q + 1e-8), log1p((p - q) / (q + 1e-8)))"),),
)
_SQUARE = Program(("x",), (), (("y", "x * x"),))
_FACTOR = Program(("total",), ("clip_norm",), (("factor", "clip_norm / sqrt(total)"), ("norm", "sqrt(total)")))
_SCALED = Program(("x", "factor"), (), (("y", "x * factor"),))

_PREPARED: Mapping[str, Callable[[Call], Prepared]] = {
    "CELU": _prepare_doubled,
    "CReLU": _prepare_doubled,
    "KLMultinomial": _prepare_divergence,
    "ScaleToNorm": _prepare_scaled,
}


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64 and there are some, and a norm is over axes that sums take."""
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)), empty=False)
    if refused or call.spec.name != "ScaleToNorm":
        return refused or True
    x, axes = call.inputs[0], call.attributes["axes"]
    assert x is not None
    return any_axes.accepts(_sum(x, axes)) if axes else "takes a norm over some axes"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x and y of a formula of float32 alone."""
    return (0, 1) if call.spec.name in _DOUBLED else ()


def prepare(call: Call) -> Prepared:
    """The call as a loop over the kernels of the others."""
    return _PREPARED[call.spec.name](call)
