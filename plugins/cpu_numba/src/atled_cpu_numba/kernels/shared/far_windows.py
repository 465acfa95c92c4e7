"""Which windows the kernels refuse: preparing those would take longer, and more memory, than computing.

Kernels that convolve or pool prepare a table of what is seen, by phase of the stride and by slice, and copy images into
planes with as many zeros around them as the windows reach. That suits windows of about the size of an image. The
reference looks at what is there only, so that calls with vast strides, pads or dilations cost what their results cost.
"""

from __future__ import annotations

import math

from atled.plugin import Call

_NEAR = 4096  # elements: what an image may be widened by, whatever its size
_MOST_PHASES = 4096
_MOST_SLICES = 1 << 16
_FORWARD = ("Convolution", "ConvolutionWeightGrad", "DepthwiseConvolution", "DepthwiseConvolutionWeightGrad")


def refusal(call: Call) -> str:
    """Why the windows of a call are not taken, or ""."""
    attributes = call.attributes
    stride, pad = attributes["stride"], attributes["pad"]
    axes = len(stride)
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    kernel = attributes.get("kernel")
    if kernel is None:
        assert call.inputs[1] is not None
        kernel = call.inputs[1].shape[-axes:]
    if call.spec.name.endswith("WeightGrad"):
        assert call.inputs[1] is not None
        result = call.inputs[1]
    dilation = attributes.get("dilation", (1,) * axes)
    sizes = [max(pair) for pair in zip(first.shape[-axes:], result.shape[-axes:], strict=True)]
    for n, k, p, s, d in zip(sizes, kernel, pad, stride, dilation, strict=True):
        reach = max(d * (k - 1), p, s)
        if reach > max(_NEAR, 2 * n):
            return f"takes windows that reach no further than {max(_NEAR, 2 * n)} elements, not {reach}"
    phases = math.prod(min(s, n) for s, n in zip(stride, sizes, strict=True))
    if phases > _MOST_PHASES and call.spec.name not in _FORWARD and "ignore_border" not in attributes:
        return f"takes strides of up to {_MOST_PHASES} phases, not {phases}"
    slices = math.prod(n * k for n, k in zip(sizes[:-2], kernel[:-2], strict=True))
    if slices > _MOST_SLICES:
        return f"takes up to {_MOST_SLICES} pairs of slices and taps along the leading axes, not {slices}"
    return ""
