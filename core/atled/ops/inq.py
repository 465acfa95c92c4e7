"""Incremental network quantization: layers whose weights are fixed to powers of two, in steps at given forwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops import philox
from atled.ops.binarized import ReplacedWeight
from atled.ops.convolution import GEOMETRY, Convolution
from atled.ops.linear import Affine
from atled.ops.samples import Exact, Ints, Refused, Sample
from atled.ops.spec import Attribute, Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_SETTINGS = (
    Attribute("num_bits", "int", 4),
    Attribute("inq_iterations", "ints", ()),
    Attribute("selection_algorithm", "str", "largest_abs", choices=("largest_abs", "random")),
    Attribute("seed", "int", -1),
)
_MOST_BITS = 8


class _Incremental(ReplacedWeight, abstract=True):
    """What both layers share: weights some of which are fixed."""

    inputs = (
        Input("x"),
        # As it is, not cast: under half its float32 values must survive the change in place.
        Input("weight", kind="keep"),
        Input("indicator_fixedweights", gradient="none"),
        Input("bias", optional=True),
        # The fixed weights as the last forward left them, NaN where a weight is free.
        Input("kept", kind="state", gradient="none"),
        Input("random_state", kind="random_state", gradient="none"),
    )
    mutates = ("weight", "indicator_fixedweights", "kept")
    random = True
    version = 2  # the fixed weights are kept in a state

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if not 2 <= attributes["num_bits"] <= _MOST_BITS:
            raise self.error(inputs, f"num_bits={attributes['num_bits']}", f"use 2 to {_MOST_BITS}")
        if any(iteration < 0 for iteration in attributes["inq_iterations"]):
            raise self.error(
                inputs, f"inq_iterations={attributes['inq_iterations']}", "count forwards from 0, the first one"
            )
        return super().normalize(attributes, *inputs)

    def first_state(self, name: str, *inputs: ArrayDesc | None) -> np.ndarray:
        weight = inputs[1]
        assert weight is not None
        return np.full(weight.shape, np.nan, np.float32)  # powers of two: exact in any dtype

    def infer(self, *inputs: Any, **attributes: Any) -> ArrayDesc | Sequence[ArrayDesc]:
        x, weight, indicator, bias, kept = inputs
        if kept.shape != weight.shape:
            raise self.error(
                inputs,
                f"weight had shape {list(kept.shape)} before, and its fixed elements are remembered",
                "make a new call of the function for a weight of another shape",
            )
        if indicator.shape != weight.shape:
            raise self.error(
                inputs,
                f"indicator_fixedweights has shape {list(indicator.shape)}",
                f"use {list(weight.shape)}, that of weight",
            )
        return self.plain.infer(x, weight, bias, **self.plain_attributes(attributes))

    def reference(self, *inputs: Any, **attributes: Any) -> np.ndarray | Sequence[np.ndarray]:
        x, weight, indicator, bias, kept, random_state = inputs
        # Undoes what a solver added since the last forward; what the indicator says now does not matter.
        weight[...] = np.where(np.isnan(kept), weight, kept)
        is_fixed = (indicator != 0) | _selected(random_state, weight, indicator != 0, attributes)
        weight[...] = np.where(is_fixed, _quantized(weight, attributes["num_bits"]), weight)
        indicator[...] = is_fixed
        kept[...] = np.where(is_fixed, weight, np.nan)
        return self.plain.reference(x, weight, bias, **self.plain_attributes(attributes))

    def gradient(self, g: GradientCall, *inputs: Any, **attributes: Any) -> Sequence[IRValue | None]:
        x, weight, _, bias, _ = inputs
        gx, gw, gb = self.plain_gradient(g, x, weight, bias, attributes)
        return gx, gw, None, gb


class INQAffine(_Incremental):
    """Affine map `y = x weight + b` whose weights are fixed step by step to powers of two or 0.

    The forwards of this function are counted from 0. At those that inq_iterations lists, a half of the weights that are
    still free is fixed, at the last one listed all of them; a fixed weight has 1 in indicator_fixedweights and is
    changed in place. With M the largest |weight|, the powers are `2^n2` to `2^n1`, where
    `n1 = floor(log2(4 M / 3))` and `n2 = n1 + 1 - 2^(num_bits - 2)`: a weight goes to the nearest one, or to 0
    if |weight| is below `2^n2 / 2`.

    Solvers change fixed weights, too; each forward undoes that, and sets them back to the values of the last forward.
    M and with it the powers move with the free weights; fixed ones follow where they leave the range.

    The gradients are those of `Affine` with the changed weight.

    Source: Zhou, Yao, Guo, Xu, Chen, "Incremental Network Quantization", ICLR 2017.

    Args:
        x: (B..., I...) float; base_axis leading axes are kept.
        weight: (D, L...) float; D = product of x.shape[base_axis:]; changed in place.
        indicator_fixedweights: shape of weight, float; 1 where the weight is fixed, else 0; changed in place. No
            gradient.
        bias: (L...) float, optional.
        kept: shape of weight, float32; the fixed weights as the last forward left them; supplied by the engine.
        random_state: (2,) int64, key and call count; supplied by the engine.
        base_axis: how many leading axes of x count as the batch; negative counts from the end.
        num_bits: of a weight, sign and 0 included; 2 to 8.
        inq_iterations: the forwards at which weights are fixed, the last one being that of the rest.
        selection_algorithm: "largest_abs": the larger half; "random": each with probability 1/2.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: (B..., L...) float.

    Raises:
        ValueError: shapes that do not match, an attribute is out of range.
    """

    function = "inq_affine"
    layer = Affine
    attributes = (*Affine.attributes, *_SETTINGS)

    def samples(self) -> Sequence[Sample]:
        x, weight = (3, 4), (4, 5)
        free = Ints(weight, 1)
        spread = Exact([[0.1, -0.9], [0.02, 1.3], [-0.5, 0.0625], [0.7, -0.3]])
        samples = (
            Sample(x, weight, free, (5,), _nothing(4, 5)),
            Sample(x, weight, free, None, _nothing(4, 5), inq_iterations=(0, 2)),
            Sample(x, weight, free, (5,), _nothing(4, 5), inq_iterations=(0, 2), selection_algorithm="random", seed=5),
            Sample(x, spread, Ints((4, 2), 1), None, _nothing(4, 2), inq_iterations=[0]),
            Sample(x, spread, Ints((4, 2), 2), (2,), Exact([[np.nan, 2], [0.25, 1]] * 2), num_bits=3),
            Sample((2, 3, 4), (12, 2, 3), Ints((12, 2, 3), 2), (2, 3), _nothing(12, 2, 3), inq_iterations=(0, 1)),
            Sample(
                (2, 3, 4),
                (4, 2),
                Ints((4, 2), 1),
                (2,),
                _nothing(4, 2),
                base_axis=-1,
                num_bits=2,
                inq_iterations=(3, 0),
            ),
            Sample((0, 4), Ints(weight, 1), free, None, _nothing(4, 5), inq_iterations=(0,)),
        )
        return tuple(sample.no_gradient() for sample in samples)

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "weight takes 5", (3, 4), (5, 6), (5, 6), None, (5, 6)),
            Refused(ValueError, "indicator_fixedweights has shape", (3, 4), (4, 5), (4, 6), None, (4, 5)),
            Refused(ValueError, "weight had shape", (3, 4), (4, 5), (4, 5), None, (4, 6)),
            Refused(ValueError, "num_bits=1", (3, 4), (4, 5), (4, 5), None, (4, 5), num_bits=1),
            Refused(ValueError, "count forwards from 0", (3, 4), (4, 5), (4, 5), None, (4, 5), inq_iterations=(-1, 2)),
            Refused(ValueError, "unknown value", (3, 4), (4, 5), (4, 5), None, (4, 5), selection_algorithm="smallest"),
        )


class INQConvolution(_Incremental):
    """Convolution whose weights are fixed step by step to powers of two or 0, as those of `INQAffine` are.

    Source: Zhou, Yao, Guo, Xu, Chen, "Incremental Network Quantization", ICLR 2017.

    Args:
        x: (B..., C, S...) float; base_axis leading axes B are kept.
        weight: (O, C / group, K...) float; changed in place.
        indicator_fixedweights: shape of weight, float; 1 where the weight is fixed, else 0; changed in place. No
            gradient.
        bias: (O,) float, optional.
        kept: shape of weight, float32; the fixed weights as the last forward left them; supplied by the engine.
        random_state: (2,) int64, key and call count; supplied by the engine.
        base_axis, pad, stride, dilation, group: as `Convolution`.
        num_bits, inq_iterations, selection_algorithm, seed: as `INQAffine`.

    Returns:
        y: (B..., O, T...) float; T as `Convolution`.

    Raises:
        ValueError: shapes that do not match, an attribute is out of range.
    """

    function = "inq_convolution"
    layer = Convolution
    attributes = (*GEOMETRY, *_SETTINGS)

    def samples(self) -> Sequence[Sample]:
        w, grouped, line, few = (4, 3, 3, 2), (6, 2, 3, 3), (4, 3, 3), (2, 3, 3, 3)
        random = {"inq_iterations": (0, 1), "selection_algorithm": "random", "seed": 5}
        strided = {"stride": (2,), "dilation": (2,)}
        samples = (
            Sample((2, 3, 5, 6), w, Ints(w, 1), (4,), _nothing(*w), inq_iterations=(0, 5)),
            Sample((2, 4, 7, 5), grouped, Ints(grouped, 2), None, _nothing(*grouped), pad=(1, 0), group=2, **random),
            Sample((2, 3, 9), line, Ints(line, 1), (4,), _nothing(*line), inq_iterations=(0,), **strided),
            Sample((0, 3, 5, 5), few, Ints(few, 1), (2,), _nothing(*few)),
        )
        return tuple(sample.no_gradient() for sample in samples)

    def refused(self) -> Sequence[Refused]:
        good = (4, 3, 3, 3)
        return (
            Refused(ValueError, "weight takes 2", (2, 3, 5, 5), (4, 2, 3, 3), (4, 2, 3, 3), None, (4, 2, 3, 3)),
            Refused(ValueError, "indicator_fixedweights has shape", (2, 3, 5, 5), good, (4, 3), None, good),
            Refused(ValueError, "num_bits=9", (2, 3, 5, 5), good, good, None, good, num_bits=9),
        )


def _nothing(*shape: int) -> Exact:
    """The state before the first forward."""
    return Exact(np.full(shape, np.nan))


def _selected(
    random_state: np.ndarray, weight: np.ndarray, fixed: np.ndarray, attributes: dict[str, Any]
) -> np.ndarray:
    """Which free weights this forward fixes: a bool array of the weight's shape."""
    iterations = attributes["inq_iterations"]
    forwards = int(random_state[1])
    if forwards not in iterations:
        return np.zeros(weight.shape, bool)
    if forwards == iterations[-1]:
        return ~fixed
    if attributes["selection_algorithm"] == "random":
        return ~fixed & (philox.uniform(random_state, weight.shape) < 0.5)
    free = np.flatnonzero(~fixed)
    # Stable, so that of equal weights the first is fixed first.
    by_size = free[np.argsort(-np.abs(weight.reshape(-1)[free]), kind="stable")]
    chosen = np.zeros(weight.size, bool)
    chosen[by_size[: max(1, len(free) // 2)]] = True
    return chosen.reshape(weight.shape)


def _range(weight: np.ndarray, num_bits: int) -> tuple[float, float]:
    """The smallest and the largest power of two for weights of this size."""
    most = float(np.abs(weight).max(initial=0.0))
    if not 0 < most < np.inf:
        return 0.0, 0.0
    largest = float(_power_of_two(np.array(most)))
    return largest * 2.0 ** (1 - 2 ** (num_bits - 2)), largest


def _power_of_two(size: np.ndarray) -> np.ndarray:
    """The nearest power of two of positive numbers, in float64: 2^floor(log2(4 / 3 size))."""
    _, exponent = np.frexp(size.astype(np.float64) * 4 / 3)
    return np.ldexp(1.0, exponent - 1)


def _quantized(weight: np.ndarray, num_bits: int) -> np.ndarray:
    """The nearest of 0 and the powers of two from the smallest to the largest for weights of this size."""
    smallest, largest = _range(weight, num_bits)
    size = np.abs(weight)
    power = np.clip(_power_of_two(size), smallest, largest)
    return np.where(size < smallest / 2, 0.0, np.sign(weight) * power)
