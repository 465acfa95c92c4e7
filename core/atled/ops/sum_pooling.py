"""Sums of windows over the trailing axes, and unpooling, which spreads each element over a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.call import ArrayDesc
from atled.ops.pooling import WindowSums, WindowSumsGrad
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec
from atled.ops.windows import per_axis

if TYPE_CHECKING:
    from atled.graph.gradient import GradientCall
    from atled.graph.ir import IRValue


class SumPooling(WindowSums):
    """Sum of each window over the trailing axes; padding adds nothing.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel, stride, ignore_border, pad: as `MaxPooling`.

    Returns:
        y: (B..., T...) float; T as `MaxPooling`.

    Raises:
        ValueError: no window fits.
    """

    function = "sum_pooling"
    gradient_name = "SumPoolingGrad"

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4, 6), kernel=(2, 2)),
            Sample((2, 2, 5, 7), kernel=(3, 2), stride=(2, 1)),
            Sample((2, 2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample((2, 5, 7), kernel=(2, 3), ignore_border=False),
            Sample((2, 5, 6), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1)),
            Sample((2, 3, 3), kernel=(1, 2), pad=(2, 2)),
            Sample((2, 1, 9), kernel=(3,), stride=(2,), pad=(1,)),
            Sample((2, 4, 3, 4), kernel=(2, 2, 2), stride=(1, 1, 2)),
            Sample((7,), kernel=(7,)),
            Sample((0, 3, 4, 4), kernel=(2, 2)),
            Sample((3, 8, 17, 19), kernel=(3, 3), stride=(2, 2), pad=(1, 1)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "pad=.* below 0", (2, 3, 4), kernel=(2, 2), pad=(-1, 0)),
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(TypeError, "kernel is missing", (3, 4)),
        )


class SumPoolingGrad(WindowSumsGrad):
    """Gradient of sum pooling: each `gy` is added to all real elements of its window.

    Args:
        gy: (B..., T...) float.
        kernel, stride, ignore_border, pad: as `SumPooling`.
        shape: S, the spatial shape of x.

    Returns:
        gx: (B..., S...) float.

    Raises:
        ValueError: gy has not the shape of the pooling's output.
    """

    attributes = (*SumPooling.attributes, Attribute("shape", "ints"))
    sums = SumPooling

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2, 3), kernel=(2, 2), shape=(4, 6)),
            Sample((2, 3, 2, 3), kernel=(2, 2), shape=(5, 7)),
            Sample((2, 2, 3, 5), kernel=(3, 3), stride=(2, 2), pad=(1, 2), shape=(5, 7)),
            Sample((2, 4, 4), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1), shape=(5, 6)),
            Sample((2, 5), kernel=(3,), stride=(2,), pad=(1,), shape=(9,)),
            Sample((0, 2, 2), kernel=(2, 2), shape=(4, 4)),
            Sample((3, 8, 9, 10), kernel=(3, 3), stride=(2, 2), pad=(1, 1), shape=(17, 19)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has spatial shape", (2, 3, 2, 3), kernel=(2, 2), shape=(6, 6)),
            Refused(ValueError, "shape=.* has 1 entries", (2, 3, 2, 3), kernel=(2, 2), shape=(6,)),
        )


class Unpooling(OpSpec):
    """Every element repeated over a window: nearest-neighbour enlargement of the trailing axes.

    `y[..., i] = x[..., i // kernel]` on each of the axes.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel: how often each element is repeated, per spatial axis.

    Returns:
        y: (B..., S kernel...) float.

    Raises:
        ValueError: more entries in kernel than axes in x, or one below 1.
    """

    function = "unpooling"
    category = "layer"
    inputs = (Input("x"),)
    attributes = (Attribute("kernel", "ints"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        axes = len(attributes["kernel"])
        if not 1 <= axes <= inputs[0].ndim:
            raise self.error(
                inputs,
                f"kernel={attributes['kernel']} has {axes} entries",
                f"give one per axis to enlarge, the trailing ones: 1 to {inputs[0].ndim}",
            )
        per_axis(self, inputs, attributes, "kernel", axes, least=1)
        return attributes

    def infer(self, x: ArrayDesc, *, kernel: tuple[int, ...]) -> ArrayDesc:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        return ArrayDesc(leading + tuple(n * k for n, k in zip(sizes, kernel, strict=True)), x.dtype)

    def reference(self, x: np.ndarray, *, kernel: tuple[int, ...]) -> np.ndarray:
        y = x
        for axis, repeats in enumerate(kernel, start=x.ndim - len(kernel)):
            y = y.repeat(repeats, axis=axis)
        return y

    def gradient(self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...]) -> Sequence[IRValue | None]:
        if not x.size:
            return (g.op("Constant", val=0.0, shape=x.shape, dtype=x.dtype),)  # windows of nothing have no sums
        return (g.op("SumPooling", g.gy, kernel=kernel),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2, 4), kernel=(2, 3)),
            Sample((2, 3, 4), kernel=(2,)),
            Sample((2, 3, 2), kernel=(1, 2, 3)),
            Sample((3,), kernel=(4,)),
            Sample((2, 3), kernel=(1,)),
            Sample((0, 3, 2), kernel=(2, 2)),
            Sample((2, 0, 2), kernel=(2, 2)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(ValueError, "kernel=.* has 0 entries", (3, 4), kernel=()),
            Refused(ValueError, "kernel=.* below 1", (3, 4), kernel=(0, 2)),
            Refused(TypeError, "kernel", (3, 4), kernel=(1.5, 2)),
        )
