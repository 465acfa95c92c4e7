"""Arrays of one value: Constant, and Sink, whose result is a single 0."""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
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

    y: int  # address
    count: int  # of elements
    value: int  # bits of a float64


_ELEMENTS_PER_US = 8000.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, words
    from atled_cpu_numba.kernels.shared.moves import make_number, moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    number, elements = make_number(dtype), moves_of(dtype).pointer

    @kernel
    def fill(block, part, parts):
        w = words(block)
        y, value = elements(w[Block.y]), number(float64_of_bits(w[Block.value]))
        for i in range(w[Block.count] * part // parts, w[Block.count] * (part + 1) // parts):
            y[i] = value
        return 0

    return fill


_KERNELS = kernels_by_dtype("fill", _build, dtypes=ANY)


def accepts(call: Call) -> bool | str:
    """Whether the result is float32 or float64."""
    return refuse_floats(call, REALS, floats=()) or True


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: y."""
    return (len(call.inputs),) if call.outputs[0].dtype.name in narrow_dtypes() else ()


def prepare(call: Call) -> Prepared:
    """Constant: -> y.  Sink: x... -> y, whatever the inputs are."""
    y = call.outputs[0]
    return launch(
        _KERNELS[y.dtype.name],
        filled(Block, count=y.size),
        words_of(Block, *(None for _ in call.inputs), "y"),
        parts=share_count(y.size / _ELEMENTS_PER_US, y.size),
        attributes={"val": Block.value} if call.spec.name == "Constant" else None,
    )
