"""VATNoise: samples scaled to one length. What is narrow is widened once, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    NARROW,
    REALS,
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, words_of


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    y: int  # address
    samples: int
    length: int  # elements of a sample
    eps: int  # bits of a float64
    workspace: int  # address: of narrow samples one in float32 per share
    share_bytes: int


_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares
_MOST_NARROW = 1 << 18  # elements of a sample that is widened by itself: more would leave the caches


def _build(dtype: str) -> Callable[..., int]:
    from numba import float64

    from atled_cpu_numba.codegen import float64_of_bits, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading, make_writing
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import dot

    real, item, is_narrow, dot_product = (
        Real(real_of(dtype)),
        item_bytes(dtype),
        dtype not in SIZES,
        dot(real_of(dtype), "float64"),
    )
    number, floats, (elements, read), write = real.kind, real.pointer, make_reading(dtype), make_writing(dtype)

    @kernel
    def vat_noise(block, part, parts):
        w = words(block)
        length, eps = w[Block.length], float64_of_bits(w[Block.eps])
        for sample in range(w[Block.samples] * part // parts, w[Block.samples] * (part + 1) // parts):
            at = w[Block.x] + item * sample * length
            if is_narrow:
                given, at = elements(at), w[Block.workspace] + part * w[Block.share_bytes]
                row = floats(at)
                for i in range(length):
                    row[i] = read(given, i)
            x, y = floats(at), elements(w[Block.y] + item * sample * length)
            # In float64 (numba's float() leaves a float32 what it is): the square of a float32 fits, whatever it is.
            scale = eps / math.sqrt(dot_product(at, at, length) + 1e-8)
            for i in range(length):
                write(y, i, number(float64(x[i]) * scale))
        return 0

    return vat_noise


_KERNELS = kernels_by_dtype("vat_noise", _build, dtypes=ANY)


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64; w is not read."""
    return refuse_floats(call, REALS, floats=(0,)) or True


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x and y, of samples that are not too long."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    if x.dtype != y.dtype or y.dtype.name not in narrow_dtypes():
        return ()
    return (0, 2) if math.prod(y.shape[call.attributes["base_axis"] :]) <= _MOST_NARROW else ()


def prepare(call: Call) -> Prepared:
    """VATNoise: x, w -> y."""
    y, axis = call.outputs[0], call.attributes["base_axis"]
    samples, length = math.prod(y.shape[:axis]), math.prod(y.shape[axis:])
    parts, share_bytes = share_count(y.size / _ELEMENTS_PER_US, samples), 0
    if y.dtype.name in NARROW:
        share_bytes = in_lines(SIZES["float32"] * length)
        parts = fitting_shares(parts, share_bytes)
    return launch(
        _KERNELS[y.dtype.name],
        filled(Block, samples=samples, length=length, share_bytes=share_bytes),
        words_of(Block, "x", None, "y", *(("workspace",) if share_bytes else ())),
        parts=parts,
        workspace=parts * share_bytes,
        attributes={"eps": Block.eps},
    )
