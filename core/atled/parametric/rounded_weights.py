"""Layers that compute with rounded weights: signs, multiples of a step, powers of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from atled import functions
from atled.arrays.array import NdArray
from atled.parametric.arguments import Argument, first_value
from atled.parametric.base_layers import Affine, BaseLayer, Convolution
from atled.parametric.layer import Array, without_gradient
from atled.parametric.weight_transform import WeightTransform
from atled.variable import Variable

_NO_CHANNEL_LAST = ("channel_last",)  # nor has NNabla


class BinaryConnect(WeightTransform[BaseLayer]):
    """{layer} with the signs of a weight: `y = {x} sign(W) + b`, where sign(0) = -1."""

    prefix, scope = "binary_connect_", "bicon_"
    without = _NO_CHANNEL_LAST
    before: ClassVar = {"b_init": (first_value("wb_init", "Wb", "as that of W; forward overwrites it"),)}
    parameters: ClassVar = {
        "W": "{W}; trained as if it were used itself",
        "Wb": "the shape of W, float; the signs of W, written by forward; gets no gradient",
        "b": "{b}",
    }
    source = "Courbariaux, Bengio, David, BinaryConnect, 2015."

    def more(self, layer: BaseLayer) -> Sequence[Variable]:
        return (without_gradient("Wb", layer.w_shape, layer.default(layer.given.wb_init)),)


class BinaryWeight(BinaryConnect):
    """{layer} with the signs of a weight and one size per output: `y = {x} (alpha sign(W)) + b`, where sign(0) = -1."""

    prefix, scope = "binary_weight_", "bwn_"
    parameters: ClassVar = {
        **BinaryConnect.parameters,
        "alpha": "the shape of b, float; the mean of abs(W) for each output, written by forward; gets no gradient",
    }
    source = "Rastegari, Ordonez, Redmon, Farhadi, XNOR-Net, 2016, section 3.1."

    def more(self, layer: BaseLayer) -> Sequence[Variable]:
        return *super().more(layer), without_gradient("alpha", layer.b_shape)


class IncrementalQuantization(WeightTransform[BaseLayer]):
    """{layer} whose weights are fixed to powers of two, more and more of them as training goes on."""

    prefix = scope = "inq_"
    without = _NO_CHANNEL_LAST
    settings = (
        Argument("num_bits", "int", 4, "bits of a fixed weight"),
        Argument(
            "inq_iterations",
            "Sequence[int]",
            (),
            "the counts of forwards at which half of the free weights are fixed; at the last one all are",
        ),
        Argument("selection_algorithm", "str", "random", 'which are fixed: "random" or "largest_abs"'),
        Argument("seed", "int", -1, "of the random choice; -1: fresh entropy"),
    )
    before: ClassVar = {
        "w_init": settings,
        "b_init": (first_value("i_init", "I", "0, all free"),),
    }
    parameters: ClassVar = {
        "W": "{W}",
        "I": "the shape of W, float; 1 where a weight is fixed, else 0; written by forward; gets no gradient",
        "b": "{b}",
    }
    source = "Zhou, Yao, Guo, Xu, Chen, Incremental Network Quantization, 2017."

    def more(self, layer: BaseLayer) -> Sequence[Variable]:
        return (without_gradient("I", layer.w_shape, layer.given.i_init),)

    def attributes(self, layer: BaseLayer) -> Mapping[str, Any]:
        return {setting.name: getattr(layer.given, setting.name) for setting in self.settings}


class _Quantized(WeightTransform[BaseLayer], abstract=True):
    """Rounds weight and bias by a function, and computes as the base layer does.

    Class attributes:
        quantize: name of the function in `atled.functions`.
        settings: what it takes beside the array.
    """

    quantize: ClassVar[str]
    settings: ClassVar[tuple[Argument, ...]]
    parameters: ClassVar = {
        "W": "{W}; trained as if it were used itself",
        "W_q": "the shape of W, float; W rounded, written by forward; gets no gradient; not there without quantize_w",
        "b": "{b}; trained as if it were used itself",
        "b_q": "the shape of b, float; b rounded, written by forward; gets no gradient; not there without quantize_b",
    }

    def call(self, layer: BaseLayer) -> Any:
        w = self.rounded("W", layer.weight(), layer)
        bias = layer.bias()
        b = None if bias is None else self.rounded("b", bias, layer)
        return getattr(functions, layer.function)(layer.inp, w, b, **layer.attributes)

    def rounded(self, name: str, parameter: Variable, layer: BaseLayer) -> Array:
        """What to compute with instead of a parameter: of its shape, float; stored as parameter W_q or b_q."""
        of = name.lower()
        given = vars(layer.given)
        if not given[f"quantize_{of}"]:
            return parameter
        settings = {setting.name: given[f"{setting.name}_{of}"] for setting in self.settings}
        written = without_gradient(f"{name}_q", parameter.shape)
        x = parameter.data if isinstance(layer.inp, NdArray) else parameter  # computed at once where inp is
        result: Array = getattr(functions, self.quantize)(x, **settings, outputs=[written.data])
        if isinstance(result, Variable):
            result.persistent = True
        return result


def _of_w_and_b(*settings: Argument) -> tuple[Argument, ...]:
    """The arguments of a layer that round W, then those that round b; `{}` in what they say is the parameter."""
    quantize = Argument("quantize", "bool", True, "whether {} is rounded")
    return tuple(
        Argument(f"{a.name}_{parameter.lower()}", a.annotation, a.default, a.doc.format(parameter))
        for parameter in "Wb"
        for a in (quantize, *settings)
    )


_BITS = Argument("n", "int", 8, "bits of a rounded value of {}")
_NO_GRADIENT_BEYOND = Argument(
    "ste_fine_grained", "bool", True, "whether values of {} beyond the largest rounded one get no gradient"
)


class FixedPointQuantized(_Quantized):
    """{layer} with weight and bias rounded to multiples of delta."""

    prefix, scope = "fixed_point_quantized_", "fp_quantized_"
    quantize = "fixed_point_quantize"
    settings = (
        Argument("sign", "bool", True, "whether negative values of {} stay negative; else they become 0"),
        _BITS,
        Argument("delta", "float", 2**-4, "distance between neighbouring rounded values of {}"),
        _NO_GRADIENT_BEYOND,
    )
    before: ClassVar = {"": _of_w_and_b(*settings)}


_SIGN = Argument("sign", "bool", True, "whether negative values of {} stay negative")
_WITH_ZERO = Argument("with_zero", "bool", False, "whether small values of {} become 0")
_LARGEST = Argument("m", "int", 2, "the largest rounded value of {} is 2 to this power")


class Pow2QuantizedAffine(_Quantized):
    """{layer} with weight and bias rounded to powers of two."""

    prefix = scope = "pow2_quantized_"
    without = _NO_CHANNEL_LAST
    bases: ClassVar[tuple[type[BaseLayer], ...]] = (Affine,)
    quantize = "pow2_quantize"
    settings = (_SIGN, _WITH_ZERO, _BITS, _LARGEST, _NO_GRADIENT_BEYOND)
    before: ClassVar = {"": _of_w_and_b(*settings)}


class Pow2QuantizedConvolution(Pow2QuantizedAffine):
    """{layer} with weight and bias rounded to powers of two."""

    bases = (Convolution,)
    settings = (_WITH_ZERO, _SIGN, _BITS, _LARGEST, _NO_GRADIENT_BEYOND)  # NNabla's order
    before: ClassVar = {"": _of_w_and_b(*settings)}
