"""Ops whose backward is no derivative: it writes into an array (VATNoise), or sends given numbers up (Sink)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.errors import four_parts
from atled.ops.axes import begin_from_front
from atled.ops.samples import Ints, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_FLOAT32 = np.dtype(np.float32)


class VATNoise(OpSpec):
    """The noise of virtual adversarial training: `y = eps x / sqrt(sum(x^2) + 1e-8)`, the sum being over a sample.

    Backward writes `eps dy` into the data of w, whichever of the inputs asks for a gradient, and sends no gradient up.
    So the w of one backward, given as x, is the direction of the steepest ascent there.

    Source: Miyato and others, "Virtual adversarial training", arXiv 1704.03976.

    Args:
        x: (B..., S...) float; the noise before it is scaled; the elements from base_axis on are one sample.
        w: shape of x, any dtype; not read.
        base_axis: first axis of a sample; negative counts from the end.
        eps: the length of the noise of one sample.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: x and w differ in shape, base_axis is out of range.
    """

    function = "vat_noise"
    category = "special"
    # w as it is, not cast: backward writes into the array itself.
    inputs = (Input("x"), Input("w", kind="keep"))
    attributes = (Attribute("base_axis", "int", 1), Attribute("eps", "float", 1.0))

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "base_axis": begin_from_front(self, attributes, inputs)}

    def infer(self, x: ArrayDesc, w: ArrayDesc, **_: Any) -> ArrayDesc:
        if x.shape != w.shape:
            raise self.error((x, w), "x and w differ in shape", "give both the same shape")
        return x

    def reference(self, x: np.ndarray, w: np.ndarray, *, base_axis: int, eps: float) -> np.ndarray:
        axes = tuple(range(base_axis, x.ndim))
        squares = np.square(x, dtype=np.float64).sum(axis=axes, keepdims=True)
        return np.asarray(eps * x / np.sqrt(squares + 1e-8)).astype(x.dtype)

    def gradient(
        self, g: GradientCall, x: IRValue, w: IRValue, *, base_axis: int, eps: float
    ) -> Sequence[IRValue | None]:
        g.op("VATNoiseGrad", g.gy, w, eps=eps)
        return None, None

    def samples(self) -> Sequence[Sample]:
        samples = (
            Sample((3, 4), (3, 4)),
            Sample((3, 2, 4), (3, 2, 4), eps=2.5),
            Sample((3, 2, 4), (3, 2, 4), base_axis=-1, eps=0.5),
            Sample((3, 4), (3, 4), base_axis=0),
            Sample((3,), (3,)),
            Sample((0, 4), (0, 4)),
        )
        return tuple(sample.no_gradient() for sample in samples)

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (3, 4), (4, 3)),
            Refused(ValueError, "base_axis=3 is out of range", (3, 4), (3, 4), base_axis=3),
            Refused(TypeError, "eps", (3, 4), (3, 4), eps="small"),
        )


class VATNoiseGrad(OpSpec):
    """What backward of `VATNoise` does: `w <- eps gy`. It has no output, and so no gradient of its own.

    Args:
        gy: (...) float.
        w: shape of gy, any dtype; overwritten.
        eps: the factor.

    Raises:
        ValueError: the shapes differ.
    """

    category = "special"
    inputs = (Input("gy"), Input("w", kind="keep"))
    attributes = (Attribute("eps", "float", 1.0),)
    outputs = ()
    mutates = ("w",)
    overwrites = mutates
    no_gradient = "raises"

    def infer(self, gy: ArrayDesc, w: ArrayDesc, **_: Any) -> Sequence[ArrayDesc]:
        if gy.shape != w.shape:
            raise self.error((gy, w), "gy and w differ in shape", "give both the same shape")
        return ()

    def reference(self, gy: np.ndarray, w: np.ndarray, *, eps: float) -> Sequence[np.ndarray]:
        w[...] = eps * gy
        return ()

    def samples(self) -> Sequence[Sample]:
        return Sample((3, 4), (3, 4), eps=2.5), Sample((), ()), Sample((0, 4), (0, 4))

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (3, 4), (4, 3)),
            Refused(TypeError, "eps", (3, 4), (3, 4), eps="small"),
        )


class Sink(OpSpec):
    """One root for several ends of a graph: a single 0, whose forward computes all inputs.

    Backward ignores the gradient of y. With one_input_grad it sends 1 up each input; without, each input that a
    function computes sends up what was put into its `g`.

    Args:
        x: (...) any dtype, at least one.
        one_input_grad: whether backward sends 1 up each input, or what each holds.

    Returns:
        y: () dtype of the first x, or float32 where that is not a floating-point one; 0.
    """

    function = "sink"
    category = "special"
    inputs = (Input("x", kind="keep", variadic=True),)
    attributes = (Attribute("one_input_grad", "bool", True),)

    def infer(self, *x: ArrayDesc, one_input_grad: bool) -> ArrayDesc:
        return ArrayDesc((), _float(x[0].dtype))

    def reference(self, *x: np.ndarray, one_input_grad: bool) -> np.ndarray:
        return np.zeros((), _float(x[0].dtype))

    def gradient(self, g: GradientCall, *x: IRValue, one_input_grad: bool) -> Sequence[IRValue | None]:
        if one_input_grad:
            return [
                g.op("Constant", val=1.0, shape=each.shape) if need else None
                for each, need in zip(x, g.needs, strict=True)
            ]
        if g.is_recorded and any(g.needs):
            raise RuntimeError(
                four_parts(
                    "grad through Sink with one_input_grad=False",
                    "what its inputs hold in their gradients is no function of anything",
                    "",
                    "call backward() instead, or grad on the inputs of the sink with grad_outputs",
                )
            )
        return [None for _ in x]  # those that the inputs hold are there from the start

    def resumes(self, attributes: Mapping[str, Any]) -> bool:
        return not attributes["one_input_grad"]

    def samples(self) -> Sequence[Sample]:
        samples = (
            Sample((3, 4)),
            Sample((3, 4), (), (0, 2)),
            Sample(Ints((3,), 9), (2, 2)),
            Sample((3, 4), (2,), one_input_grad=False),
        )
        return tuple(sample.no_gradient() for sample in samples)

    def refused(self) -> Sequence[Refused]:
        return (Refused(TypeError, "one_input_grad", (3, 4), one_input_grad="no"),)


def _float(dtype: np.dtype) -> np.dtype:
    return dtype if is_float(dtype) else _FLOAT32
