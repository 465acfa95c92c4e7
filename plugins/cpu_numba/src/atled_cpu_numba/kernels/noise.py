"""VATNoise: samples scaled to one length."""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, words_of


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    y: int  # address
    samples: int
    length: int  # elements of a sample
    eps: int  # bits of a float64


_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from numba import float64

    from atled_cpu_numba.codegen import float64_of_bits, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import dot

    real, dot_product = Real(dtype), dot(dtype, "float64")
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def vat_noise(block, part, parts):
        w = words(block)
        length, eps = w[Block.length], float64_of_bits(w[Block.eps])
        for sample in range(w[Block.samples] * part // parts, w[Block.samples] * (part + 1) // parts):
            at = w[Block.x] + size * sample * length
            x, y = floats(at), floats(w[Block.y] + size * sample * length)
            # In float64 (numba's float() leaves a float32 what it is): the square of a float32 fits, whatever it is.
            scale = eps / math.sqrt(dot_product(at, at, length) + 1e-8)
            for i in range(length):
                y[i] = number(float64(x[i]) * scale)
        return 0

    return vat_noise


_KERNELS = kernels_by_dtype("vat_noise", _build)


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64; w is not read."""
    return refuse_floats(call, REALS, floats=(0,)) or True


def prepare(call: Call) -> Prepared:
    """VATNoise: x, w -> y."""
    y, axis = call.outputs[0], call.attributes["base_axis"]
    samples, length = math.prod(y.shape[:axis]), math.prod(y.shape[axis:])
    return launch(
        _KERNELS[y.dtype.name],
        filled(Block, samples=samples, length=length),
        words_of(Block, "x", None, "y"),
        parts=share_count(y.size / _ELEMENTS_PER_US, samples),
        attributes={"eps": Block.eps},
    )
