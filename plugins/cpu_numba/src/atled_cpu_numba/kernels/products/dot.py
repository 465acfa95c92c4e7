"""Dot as a product of matrices: the last axis of x is side by side in memory, and so are the others together."""

from __future__ import annotations

import math

from atled.plugin import ArrayDesc, Call, Prepared, op_spec
from atled_cpu_numba.kernels.products import matmul


def _product(call: Call) -> Call:
    """The same arrays as matrices."""
    (x, y), z = call.inputs, call.outputs[0]
    assert x is not None
    assert y is not None
    if (x.ndim, y.ndim) != (2, 2):
        rows, depth, columns = math.prod(x.shape[:-1]), x.shape[-1], math.prod(y.shape[1:])
        x, y = ArrayDesc((rows, depth), x.dtype), ArrayDesc((depth, columns), y.dtype)
        z = ArrayDesc((rows, columns), z.dtype)
    attributes = {"transpose_a": False, "transpose_b": False}
    return Call(
        op_spec("BatchMatmul"), (x, y), (z,), attributes, type_config=call.type_config, by_operands=call.by_operands
    )


def accepts(call: Call) -> bool | str:
    """Whether y is a matrix or a vector, and the product is one that the kernels compute."""
    x, y = call.inputs
    assert x is not None
    assert y is not None
    if not x.ndim or y.ndim not in (1, 2):
        return f"takes y of one or two axes and x of at least one, not {y.ndim} and {x.ndim}"
    if (x.ndim, y.ndim) != (2, 2) and not all(desc.is_contiguous for desc in (x, y, call.outputs[0])):
        return "takes strides of matrices only"
    return matmul.accepts(_product(call))


def prepare(call: Call) -> Prepared:
    """Dot: x, y -> z."""
    return matmul.prepare(_product(call))
