"""VATNoise: samples scaled to one length, narrow ones widened once, sample by sample; its gradient is a formula."""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import ArrayDesc, Call, Prepared, Program
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    NARROW,
    REALS,
    fitting_shares,
    has_empty,
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

    real, item, is_narrow = Real(real_of(dtype)), item_bytes(dtype), dtype not in SIZES
    # The square of a float32 fits into a float64, that of a float16 into a float32.
    dot_product = dot(real_of(dtype), "float32" if dtype == "float16" else "float64")
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
            # In float64 (numba's float() leaves a float32 what it is).
            scale = eps / math.sqrt(float64(dot_product(at, at, length)) + 1e-8)
            if is_narrow:
                # By the root of the scale, which itself may be no normal float32.
                root = number(math.sqrt(abs(scale)))
                signed = root if scale > 0.0 else -root
                for i in range(length):
                    write(y, i, x[i] * root * signed)
            else:
                for i in range(length):
                    write(y, i, number(float64(x[i]) * scale))
        return 0

    return vat_noise


_KERNELS = kernels_by_dtype("vat_noise", _build, dtypes=ANY)
_GRADIENT = Program(("gy",), ("eps",), (("w", "eps * gy"),))


def accepts(call: Call) -> bool | str:
    """VATNoise: whether x is float32 or float64; w is not read. VATNoiseGrad: whether there are floats."""
    if call.spec.name == "VATNoise":
        return refuse_floats(call, REALS, floats=(0,)) or True
    if has_empty(call):
        return "an array is empty"
    dtypes = [desc.dtype.name for desc in call.inputs if desc is not None]
    return set(dtypes) <= set(ANY) or f"takes floats, not {' and '.join(dtypes)}"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x and y, of samples that are not too long."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    if x.dtype != y.dtype or y.dtype.name not in narrow_dtypes():
        return ()
    return (0, 2) if math.prod(y.shape[call.attributes["base_axis"] :]) <= _MOST_NARROW else ()


def _prepare_gradient(call: Call) -> Prepared:
    """VATNoiseGrad: gy, w, which is overwritten; of any floats each."""
    gy, w = (ArrayDesc((desc.size,), desc.dtype) for desc in call.inputs if desc is not None)
    compute = "float64" if "float64" in (gy.dtype.name, w.dtype.name) else "float32"
    return elementwise.prepare_program(_GRADIENT, (gy,), (w,), compute)


def prepare(call: Call) -> Prepared:
    """VATNoise: x, w -> y.  VATNoiseGrad: gy, w, which is overwritten."""
    if call.spec.name == "VATNoiseGrad":
        return _prepare_gradient(call)
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
