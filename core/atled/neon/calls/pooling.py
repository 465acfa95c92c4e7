"""Poolings and their gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keyed import Description
from atled.neon.calls.described import Described, DescribedCalls, image_call
from atled.neon.calls.layer_objects import check_layer
from atled.neon.calls.operands import Operand, added, as_number, asked_of, check_operands, give, scaled, taken
from atled.neon.calls.pooling_layers import PoolLayer
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context

_IMAGES, _OUTPUTS = "C D H W N", "K M P Q N"


class PoolingCalls(DescribedCalls):
    """Computes poolings: of windows over maps, depth, height and width, cut to the image."""

    if TYPE_CHECKING:
        context: Context

    @image_call
    def fprop_pool(
        self,
        layer: PoolLayer,
        I: Tensor,  # noqa: E741  the API's name
        O: Tensor,  # noqa: E741  the API's name
        argmax: Tensor | None = None,
        beta: float = 0.0,
    ) -> Described:
        """Maximum, mean, or root of the sum of squares of the elements of each window.

        Args:
            layer: of `pool_layer`.
            I: (C, D, H, W, N) float.
            O: (K, M, P, Q, N); becomes the result + beta * itself.
            argmax: (K, M, P, Q, N) of whole numbers, or None; of op "max", which element of its window, counted in C
                order over those that exist, is the maximum, of equal ones the first.

        Raises:
            TypeError: layer or tensors that are none.
            ValueError: a tensor of another size or backend; a dtype of argmax that does not hold its numbers.
        """
        check_layer("fprop_pool", layer, PoolLayer)
        operands = [Operand("I", I, _IMAGES, layer.dimI), Operand("O", O, _OUTPUTS, layer.dimO)]
        if argmax is not None:
            operands.append(Operand("argmax", argmax, _OUTPUTS, layer.dimO))
        check_operands(self, "fprop_pool", *operands)
        beta = as_number("fprop_pool", "beta", beta)
        d = Description(self.context)
        value = _pooled(d, layer, taken(d, I, layer.images))
        if argmax is not None and layer.op == "max":
            _check_place("fprop_pool", layer, operands)
            give(d, argmax, layer.outputs, d.output(value, 1))
        give(d, O, layer.outputs, added(d, value, beta, O, layer.outputs))
        return Described(d)

    @image_call
    def bprop_pool(
        self,
        layer: PoolLayer,
        I: Tensor | None = None,  # noqa: E741  the API's name
        O: Tensor | None = None,  # noqa: E741  the API's name
        argmax: Tensor | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        *,
        E: Tensor | None = None,
        grad_I: Tensor | None = None,
    ) -> Described:
        """Gradient of a pooling with respect to its images, in either form of neon.

            bprop_pool(layer, I, E, grad_I)                 its documents: I are the images
            bprop_pool(layer, error, delta, argmax=argmax)  its code

        A third tensor of whole numbers is argmax, of floats grad_I.

        Args:
            layer: of `pool_layer`.
            I: (C, D, H, W, N) float, the images; in the other form the error, as E.
            E: (K, M, P, Q, N) float; gradient with respect to the result.
            grad_I, or delta: (C, D, H, W, N); becomes alpha * gradient + beta * itself.
            argmax: as `fprop_pool` gives it; needed for op "max" where the images are not given.

        Raises as `fprop_pool`, and:
            ValueError: "max" with neither images nor argmax; "l2" without images.
            IndexError: a number in argmax that a window does not have.
        """
        check_layer("bprop_pool", layer, PoolLayer)
        if argmax is not None and grad_I is None and E is None and _is_float(argmax):
            argmax, grad_I = None, argmax
        if E is None and grad_I is None:
            gradient = _Gradient(self, layer, ("I", "O"), None, I, O, argmax)
        else:
            error = O if E is None else E
            target, place = (argmax, None) if grad_I is None else (grad_I, argmax)
            gradient = _Gradient(self, layer, ("E", "grad_I"), I, error, target, place)
        alpha, beta = as_number("bprop_pool", "alpha", alpha), as_number("bprop_pool", "beta", beta)
        d = Description(self.context)
        value = scaled(d, gradient.describe(d), alpha)
        give(d, gradient.target, layer.images, added(d, value, beta, gradient.target, layer.images))
        return Described(d)


class _Gradient:
    """The gradient of a pooling, from whatever it is computed of.

    names: of the error and the target, as they were given.  images: None where they were not.
    """

    def __init__(
        self, backend: Any, layer: PoolLayer, names: tuple[str, str], images: Any, error: Any, target: Any, place: Any
    ) -> None:
        self.layer, self.images, self.error, self.target = layer, images, error, target
        self.place = place if layer.op == "max" else None
        operands = [
            Operand(names[0], error, _OUTPUTS, layer.dimO),
            Operand(names[1], target, _IMAGES, layer.dimI),
        ]
        if images is not None:
            operands.insert(0, Operand("I", images, _IMAGES, layer.dimI))
        if place is not None:
            operands.append(Operand("argmax", place, _OUTPUTS, layer.dimO))
        check_operands(backend, "bprop_pool", *operands)
        if self.place is not None:
            _check_place("bprop_pool", layer, operands)
        elif images is None and layer.op != "avg":
            raise ValueError(_missing(layer, operands))

    def describe(self, d: Description) -> int:
        """Its value."""
        layer = self.layer
        error, geometry = taken(d, self.error, layer.outputs), {**layer.geometry, "shape": layer.sizes}
        if layer.op == "avg":
            return d.call("WindowSumGrad", error, average=True, **geometry)
        if self.place is not None:
            return d.call("WindowMaxGrad", error, _place(d, layer, self.place), **geometry)
        x = taken(d, self.images, layer.images)
        (value,) = d.gradients(_pooled(d, layer, x), [x], error)
        return value


def _is_float(given: Any) -> bool:
    return isinstance(given, Tensor) and given.dtype.kind not in "iub"


def _pooled(d: Description, layer: PoolLayer, x: int) -> int:
    if layer.op == "avg":
        return d.call("WindowSum", x, average=True, **layer.geometry)
    return d.call("WindowMax" if layer.op == "max" else "WindowNorm", x, **layer.geometry)


def _place(d: Description, layer: PoolLayer, argmax: Tensor) -> int:
    """Places in the dtype in which the core has them."""
    wanted = np.dtype(np.uint8 if math.prod(layer.JTRS) <= 256 else np.int32)
    value = taken(d, argmax, layer.outputs)
    return value if argmax.dtype == wanted else d.call("Cast", value, dtype=wanted)


def _check_place(call: str, layer: PoolLayer, operands: list[Operand]) -> None:
    """Refuse a dtype that does not hold all places of a window."""
    dtype, count = operands[-1].tensor.dtype, math.prod(layer.JTRS)
    if dtype.kind in "iu" and np.iinfo(dtype).max >= count - 1:
        return
    enough = np.min_scalar_type(count - 1)
    wrong = f"argmax is {dtype}, and windows have {count} elements"
    raise ValueError(four_parts(asked_of(call, operands), wrong, "", f"give one of {enough}"))


def _missing(layer: PoolLayer, operands: list[Operand]) -> str:
    """The message where the gradient of a pooling depends on what the call did not get."""
    is_max = layer.op == "max"
    wrong = "neither images nor argmax are given" if is_max else "the gradient of l2 depends on the images"
    remedy = "pass the images: bprop_pool(layer, I, E, grad_I)"
    return four_parts(
        asked_of("bprop_pool", operands),
        wrong,
        "",
        f"{remedy}, or argmax= of fprop_pool" if is_max else remedy,
    )
