"""Local response normalization across maps, and its gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from atled.errors import four_parts
from atled.keyed import Description
from atled.neon.calls.described import Described, DescribedCalls, image_call
from atled.neon.calls.layer_objects import LayerObject, check_layer, checked_sizes
from atled.neon.calls.operands import Operand, added, as_number, check_operands, give, scaled, taken

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor
    from atled_contexts import Context

_IMAGES = "C D H W N"


class LRNLayer(LayerObject):
    """Sizes of a local response normalization: images (C, D, H, W, N), J maps around each one.

    DHW: sizes of image and output.  dimI, dimO: shapes as above; dimI2, dimO2: with two axes; sizeI, sizeO: counts of
    elements.  nOut: elements that the layer gives per image.
    """

    maker = "lrn_layer"

    def __init__(self, dtype: Any, N: int, C: int, image: tuple[int, ...], J: int) -> None:
        super().__init__(dtype, N)
        self.C = self.K = C
        self.D, self.H, self.W = self.DHW = image
        self.M, self.P, self.Q = self.MPQ = image
        self.J = J
        self.dimI = self.dimO = (C, *image, N)
        self.sizeI = self.sizeO = math.prod(self.dimI)
        self.nOut = self.sizeO // N
        self.dimI2 = self.dimO2 = (self.nOut, N)
        self.maps = (C, math.prod(image), N)  # how ops see them


class LocalResponseCalls(DescribedCalls):
    """Normalizes by the squares of neighbouring maps."""

    if TYPE_CHECKING:
        context: Context

    def lrn_layer(self, dtype: Any, N: int, C: int, D: int = 1, H: int = 1, W: int = 1, J: int = 1) -> LRNLayer:
        """The parameter object of a local response normalization.

        dtype: of its tensors.  N: images of a batch.  C, D, H, W: maps, depth, height, width.
        J: how many maps count, J // 2 on either side; odd.

        TypeError, ValueError: sizes that are none, an even J.
        """
        sizes = checked_sizes("lrn_layer", 1, {"N": N, "C": C, "D": D, "H": H, "W": W, "J": J})
        if J % 2 == 0:
            raise ValueError(four_parts(f"lrn_layer(J={J})", "it is even", "", "use an odd number of maps"))
        return LRNLayer(dtype, sizes[0], sizes[1], tuple(sizes[2:5]), sizes[5])

    @image_call
    def fprop_lrn(
        self,
        layer: LRNLayer,
        I: Tensor,  # noqa: E741  the API's name
        O: Tensor,  # noqa: E741  the API's name
        denom: Tensor,
        alpha: float | None = None,
        beta: float | None = None,
        ascale: float = 1,
        bpower: float = 1,
    ) -> Described:
        """Elements divided by a power of what is around them.

            denom = 1 + ascale / J * sum of I^2 over the J maps around;  O = alpha * I * denom^-bpower + beta * O

        Args:
            layer: of `lrn_layer`.
            I: (C, D, H, W, N) float.  O, denom: (C, D, H, W, N); are overwritten.
            alpha, beta: None for 1 and 0.

        Raises:
            TypeError: layer or tensors that are none.  ValueError: a tensor of another size or backend.
        """
        check_layer("fprop_lrn", layer, LRNLayer)
        _check(self, "fprop_lrn", layer, I=I, O=O, denom=denom)
        alpha, beta, scale, power = _numbers("fprop_lrn", alpha, beta, ascale, bpower)
        d = Description(self.context)
        x = taken(d, I, layer.maps)
        shares = d.call("Mul2", _around(d, layer, d.call("Mul2", x, x)), d.number(scale / layer.J))
        below = d.call("Add2", shares, d.number(1.0))
        value = d.call("Mul2", x, d.call("Pow2", below, d.number(-power)))
        give(d, denom, layer.maps, below)
        give(d, O, layer.maps, added(d, scaled(d, value, alpha), beta, O, layer.maps))
        return Described(d)

    @image_call
    def bprop_lrn(
        self,
        layer: LRNLayer,
        I: Tensor,  # noqa: E741  the API's name
        O: Tensor,  # noqa: E741  the API's name
        E: Tensor,
        delta: Tensor,
        denom: Tensor,
        alpha: float | None = None,
        beta: float | None = None,
        ascale: float = 1,
        bpower: float = 1,
    ) -> Described:
        """Gradient of `fprop_lrn` with respect to I, from what that gave.

            gradient = E * denom^-bpower - 2 bpower ascale / J * I * (sum of O * E / denom over the J maps around)
            delta = alpha * gradient + beta * delta

        Args:
            layer: of `lrn_layer`.
            I, O, E, denom: (C, D, H, W, N) float.  delta: (C, D, H, W, N); is overwritten.
            alpha, beta: None for 1 and 0.

        Raises as `fprop_lrn`.
        """
        check_layer("bprop_lrn", layer, LRNLayer)
        _check(self, "bprop_lrn", layer, I=I, O=O, E=E, delta=delta, denom=denom)
        alpha, beta, scale, power = _numbers("bprop_lrn", alpha, beta, ascale, bpower)
        d = Description(self.context)
        x, y, error, below = (taken(d, each, layer.maps) for each in (I, O, E, denom))
        sums = _around(d, layer, d.call("Div2", d.call("Mul2", y, error), below))
        direct = d.call("Mul2", error, d.call("Pow2", below, d.number(-power)))
        by_squares = d.call("Mul2", d.call("Mul2", x, sums), d.number(2 * power * scale / layer.J))
        value = d.call("Sub2", direct, by_squares)
        give(d, delta, layer.maps, added(d, scaled(d, value, alpha), beta, delta, layer.maps))
        return Described(d)


def _check(backend: Any, call: str, layer: LRNLayer, **tensors: Any) -> None:
    check_operands(backend, call, *(Operand(name, each, _IMAGES, layer.dimI) for name, each in tensors.items()))


def _around(d: Description, layer: LRNLayer, value: int) -> int:
    """Sums over the maps around each one."""
    # Not the core's op for all of it: sums of windows and formulas have kernels on every backend, and it takes no
    # denominator in its gradient.
    window = {"kernel": (layer.J, 1), "stride": (1, 1), "pad": (layer.J // 2, 0), "channel_last": True}
    return d.call("WindowSum", value, average=False, **window)


def _numbers(call: str, alpha: Any, beta: Any, scale: Any, power: Any) -> list[float]:
    given = {
        "alpha": 1.0 if alpha is None else alpha,
        "beta": 0.0 if beta is None else beta,
        "ascale": scale,
        "bpower": power,
    }
    return [as_number(call, name, value) for name, value in given.items()]
