"""Matrix products: affine maps and batched products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import from_front
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Affine(OpSpec):
    """Affine map, the fully connected layer: `y = x W + b`.

    The axes of `x` from `base_axis` on are flattened to D.

    Args:
        x: (B..., I...) float; base_axis leading axes are kept.
        weight: (D, L...) float; D = product of x.shape[base_axis:].
        bias: (L...) float, optional.
        base_axis: how many leading axes of x count as the batch; negative counts from the end.

    Returns:
        y: (B..., L...) float.

    Raises:
        ValueError: the first axis of weight is not D, bias has not the shape L, base_axis is out of range.
    """

    function = "affine"
    category = "layer"
    products = True
    integers = "exact"
    inputs = (Input("x"), Input("weight"), Input("bias", optional=True))
    attributes = (Attribute("base_axis", "int", 1),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"base_axis": from_front(self, inputs, "base_axis", attributes["base_axis"], inputs[0].ndim)}

    def infer(self, x: ArrayDesc, weight: ArrayDesc, bias: ArrayDesc | None, *, base_axis: int) -> ArrayDesc:
        inputs = (x, weight, bias)
        depth = math.prod(x.shape[base_axis:])
        if weight.ndim < 2:
            raise self.error(inputs, f"weight has {weight.ndim} axes", "give it at least two: (D, L...)")
        if weight.shape[0] != depth:
            raise self.error(
                inputs,
                f"x has {depth} elements from axis {base_axis} on, weight takes {weight.shape[0]}",
                f"use a weight of shape ({depth}, ...) or another base_axis",
            )
        if bias is not None and bias.shape != weight.shape[1:]:
            raise self.error(inputs, f"bias has shape {bias.shape}", f"use shape {weight.shape[1:]}")
        return ArrayDesc(x.shape[:base_axis] + weight.shape[1:], x.dtype)

    def reference(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, *, base_axis: int) -> np.ndarray:
        rows = math.prod(x.shape[:base_axis])
        depth = weight.shape[0]
        y = x.reshape(rows, depth) @ weight.reshape(depth, math.prod(weight.shape[1:]))
        if bias is not None:
            y = y + bias.reshape(-1)
        return y.reshape(x.shape[:base_axis] + weight.shape[1:])

    def gradient(
        self, g: GradientCall, x: IRValue, weight: IRValue, bias: IRValue | None, *, base_axis: int
    ) -> Sequence[IRValue | None]:
        rows = math.prod(x.shape[:base_axis])
        depth = weight.shape[0]
        width = math.prod(weight.shape[1:])
        gy = g.reshape(g.gy, (rows, width))
        gx = gw = gb = None
        if g.needs[0]:
            gx = g.op("BatchMatmul", gy, g.reshape(weight, (depth, width)), transpose_b=True)
            gx = g.reshape(gx, x.shape)
        if g.needs[1]:
            gw = g.op("BatchMatmul", g.reshape(x, (rows, depth)), gy, transpose_a=True)
            gw = g.reshape(gw, weight.shape)
        if bias is not None and g.needs[2]:
            gb = g.reshape(g.op("Sum", gy, axes=(0,)), bias.shape)
        return gx, gw, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4), (4, 5), (5,)),
            Sample((3, 4), (4, 5), None),
            Sample((2, 3, 4, 5), (20, 2, 3), (2, 3), base_axis=2),
            Sample((2, 3, 4), (4, 2), (2,), base_axis=-1),
            Sample((0, 4), (4, 5), (5,)),
            Sample((33, 70), (70, 65), (65,)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "weight takes 5", (3, 4), (5, 6), None),
            Refused(ValueError, "bias has shape", (3, 4), (4, 5), (4,)),
            Refused(ValueError, "base_axis=2 is out of range", (3, 4), (4, 5), None, base_axis=2),
            Refused(TypeError, "base_axis", (3, 4), (4, 5), None, base_axis=1.5),
        )


class BatchMatmul(OpSpec):
    """Matrix product of the last two axes, one per batch entry: `y = op(a) op(b)`, op transposing on request.

    Args:
        a: (B..., M, K) float, or (B..., K, M) with transpose_a.
        b: (C..., K, N) float, or (C..., N, K) with transpose_b; the product of C... equals that of B....
        transpose_a, transpose_b: whether to swap the last two axes first.

    Returns:
        y: (B..., M, N) float; the leading axes are those of a.

    Raises:
        ValueError: fewer than two axes, unequal K, unequal batch sizes.
    """

    function = "batch_matmul"
    category = "math"
    products = True
    integers = "exact"
    inputs = (Input("a"), Input("b"))
    attributes = (Attribute("transpose_a", "bool", False), Attribute("transpose_b", "bool", False))

    def infer(self, a: ArrayDesc, b: ArrayDesc, *, transpose_a: bool, transpose_b: bool) -> ArrayDesc:
        if a.ndim < 2 or b.ndim < 2:
            raise self.error((a, b), "both inputs need at least two axes", "add axes of size 1 by reshape")
        rows, inner = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
        inner_b, columns = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
        if inner != inner_b:
            raise self.error(
                (a, b), f"the inner sizes differ: {inner} and {inner_b}", "check transpose_a and transpose_b"
            )
        if math.prod(a.shape[:-2]) != math.prod(b.shape[:-2]):
            raise self.error((a, b), "the batch sizes differ", "make the product of the leading axes equal")
        return ArrayDesc((*a.shape[:-2], rows, columns), a.dtype)

    def reference(self, a: np.ndarray, b: np.ndarray, *, transpose_a: bool, transpose_b: bool) -> np.ndarray:
        leading = a.shape[:-2]
        batch = math.prod(leading)
        a = a.reshape(batch, *a.shape[-2:])
        b = b.reshape(batch, *b.shape[-2:])
        a = a.swapaxes(1, 2) if transpose_a else a
        b = b.swapaxes(1, 2) if transpose_b else b
        y = np.matmul(a, b)
        return y.reshape(*leading, *y.shape[1:])

    def gradient(
        self, g: GradientCall, a: IRValue, b: IRValue, *, transpose_a: bool, transpose_b: bool
    ) -> Sequence[IRValue | None]:
        gy = g.gy
        ga = gb = None
        if g.needs[0]:
            if transpose_a:
                ga = g.op("BatchMatmul", b, gy, transpose_a=transpose_b, transpose_b=True)
            else:
                ga = g.op("BatchMatmul", gy, b, transpose_b=not transpose_b)
            ga = g.reshape(ga, a.shape)
        if g.needs[1]:
            if transpose_b:
                gb = g.op("BatchMatmul", gy, a, transpose_a=True, transpose_b=transpose_a)
            else:
                gb = g.op("BatchMatmul", a, gy, transpose_a=not transpose_a)
            gb = g.reshape(gb, b.shape)
        return ga, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4), (4, 5)),
            Sample((2, 3, 4, 5), (2, 3, 5, 6)),
            Sample((6, 5, 4), (2, 3, 5, 6), transpose_a=True),
            Sample((2, 4, 5), (2, 6, 5), transpose_b=True),
            Sample((2, 5, 4), (2, 6, 5), transpose_a=True, transpose_b=True),
            Sample((0, 3, 4), (0, 4, 5)),
            Sample((65, 40), (40, 70)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "inner sizes differ", (3, 4), (5, 6)),
            Refused(ValueError, "at least two axes", (4,), (4, 5)),
            Refused(ValueError, "batch sizes differ", (2, 3, 4), (3, 4, 5)),
        )
