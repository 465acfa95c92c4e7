"""Dot as a product of matrices: the last axis of x is side by side in memory, and so are the others together."""

from __future__ import annotations

import math

from atled.plugin import ArrayDesc, Call, Prepared, op_spec
from atled_cpu_numba.kernels.products import matmul


def _product(call: Call) -> Call:
    """The same arrays as matrices."""
    x, y = call.inputs
    assert x is not None
    assert y is not None
    rows, depth, columns = math.prod(x.shape[:-1]), x.shape[-1], math.prod(y.shape[1:])
    return Call(
        op_spec("BatchMatmul"),
        (ArrayDesc((rows, depth), x.dtype), ArrayDesc((depth, columns), y.dtype)),
        (ArrayDesc((rows, columns), call.outputs[0].dtype),),
        {"transpose_a": False, "transpose_b": False},
        type_config=call.type_config,
    )


def accepts(call: Call) -> bool | str:
    """Whether y is a matrix or a vector, and the product is one that the kernels compute."""
    x, y = call.inputs
    assert x is not None
    assert y is not None
    if not x.ndim or y.ndim not in (1, 2):
        return f"takes y of one or two axes and x of at least one, not {y.ndim} and {x.ndim}"
    return matmul.accepts(_product(call))


def prepare(call: Call) -> Prepared:
    """Dot: x, y -> z."""
    return matmul.prepare(_product(call))
