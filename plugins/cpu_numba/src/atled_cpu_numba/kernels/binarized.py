"""Layers that compute with the signs of their weights: a formula of the weight, then the kernel of the plain layer."""

from __future__ import annotations

from atled.plugin import ArrayDesc, Call, Prepared, Program, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.products import matmul
from atled_cpu_numba.kernels.reduction import any_axes
from atled_cpu_numba.kernels.rows_of_kernels import Array, Rows
from atled_cpu_numba.kernels.shared.launch import REALS, refuse_floats

_LAYERS = {"Affine": matmul, "Convolution": convolution}
_IS_ABOVE = "weight > 0"
_SIGNS = Program(("weight",), (), (("signs", f"where({_IS_ABOVE}, 1, -1)"),))
_SIGNS_TWICE = Program(("weight",), (), (("signs", f"where({_IS_ABOVE}, 1, -1)"), ("wide", "signs")))
_SIZES = Program(("weight",), (), (("size", "abs(weight)"),))
_MEANS = Program(("total",), ("count",), (("mean", "total / count"), ("alpha", "mean")))
_SCALED = Program(
    ("weight", "mean"),
    (),
    (("signs", f"where({_IS_ABOVE}, 1, -1)"), ("scaled", f"where({_IS_ABOVE}, mean, -mean)")),
)


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64, there are some, and the plain layer's kernel takes the call."""
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)), empty=False)
    return refused or _LAYERS[_layer(call)].accepts(_plain(call))


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: the weight, its signs, and their scale."""
    return (1, 2, 3) if _is_scaled(call) else (1, 2)


def prepare(call: Call) -> Prepared:
    """BinaryConnect: x, weight, signs, bias? -> y.  BinaryWeight: x, weight, signs, alpha, bias? -> y.

    The weight, its signs and alpha may be narrow (`narrow_arguments`).
    """
    rows, plain = Rows(call), _plain(call)
    inner = _LAYERS[_layer(call)].prepare(plain)
    weight = _add_scaled(rows, call) if _is_scaled(call) else _add_signs(rows, call)
    *_, bias, y = rows.arguments
    rows.add(inner, rows.arguments[0], weight, bias, y)
    return rows.finished(f"signs; {inner.note}" if inner.note else "signs")


def _is_scaled(call: Call) -> bool:
    return call.spec.name.startswith("BinaryWeight")


def _layer(call: Call) -> str:
    return "Affine" if call.spec.name.endswith("Affine") else "Convolution"


def _plain(call: Call) -> Call:
    """The plain layer with the signs for a weight, in the dtype of x."""
    x, weight, bias = call.inputs[0], call.inputs[1], call.inputs[-1]
    assert x is not None
    assert weight is not None
    return Call(
        op_spec(_layer(call)),
        (x, ArrayDesc(weight.shape, x.dtype), bias),
        call.outputs,
        call.attributes,
        type_config=call.type_config,
        deterministic=call.deterministic,
        local_errors=call.local_errors,
    )


def _add_signs(rows: Rows, call: Call) -> Array:
    """Rows that write the signs; the array of them in the dtype of x."""
    x, weight, signs = call.inputs[:3]
    assert x is not None
    assert weight is not None
    assert signs is not None
    flat, written = ArrayDesc((weight.size,), weight.dtype), ArrayDesc((weight.size,), signs.dtype)
    if signs.dtype == x.dtype:
        rows.add(elementwise.prepare_program(_SIGNS, (flat,), (written,)), *rows.arguments[1:3])
        return rows.arguments[2]
    wide = ArrayDesc((weight.size,), x.dtype)
    made = rows.between(wide)
    rows.add(
        elementwise.prepare_program(_SIGNS_TWICE, (flat,), (written, wide), x.dtype.name), *rows.arguments[1:3], made
    )
    return made


def _add_scaled(rows: Rows, call: Call) -> Array:
    """Rows that write the signs and their scale; an array of their product, in the dtype of x."""
    x, weight, signs, alpha = call.inputs[:4]
    assert x is not None
    assert weight is not None
    assert signs is not None
    assert alpha is not None
    outputs = alpha.size
    others, is_first = weight.size // outputs, _layer(call) == "Convolution"
    shape, scales, axis = ((outputs, others), (outputs, 1), 1) if is_first else ((others, outputs), (1, outputs), 0)
    sizes, mean = ArrayDesc(shape, x.dtype), ArrayDesc(scales, x.dtype)
    given, written = ArrayDesc(shape, weight.dtype), ArrayDesc(shape, signs.dtype)
    total, factor, scaled = rows.between(mean), rows.between(mean), rows.between(sizes)
    summed = Call(op_spec("Sum"), (sizes,), (mean,), {"axes": (axis,), "keep_dims": True})
    size = elementwise.prepare_program(_SIZES, (given,), (sizes,), x.dtype.name)
    rows.add_carrying(size, (rows.arguments[1],), sizes, any_axes.prepare(summed), total)
    means = elementwise.prepare_program(_MEANS, (mean,), (mean, ArrayDesc(scales, alpha.dtype)), x.dtype.name)
    rows.add(means, total, factor, rows.arguments[3], count=others)
    product = elementwise.prepare_program(_SCALED, (given, mean), (written, sizes), x.dtype.name)
    rows.add(product, rows.arguments[1], factor, rows.arguments[2], scaled)
    return scaled
