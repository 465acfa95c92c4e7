"""Random numbers from counters, and dropout: the numbers of `atled.ops.philox`, bit for bit.

The key and the count of calls are read from the random state when the kernel runs, so a prepared call draws anew each
time. Words come in blocks of four; a share is a range of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class RandomState:
    """The words of the random state."""

    key: int
    call: int  # count of the calls so far


@layout
class Block:
    """What all kernels read."""

    random_state: int  # address
    x: int  # address, of Dropout
    y: int  # address
    mask: int  # address, of Dropout
    count: int  # elements of y
    first: int  # bits of a float64: low or p; for Randint low as a whole number
    second: int  # the same of high; for Randint high - low as a whole number


# Cautious rates of one core, for the number of shares.
_ELEMENTS_PER_US = {"Dropout": 500.0, "Rand": 500.0, "Randint": 500.0}


def philox() -> Any:  # numba ships no types
    """The numba function `words(block, call, key) -> four uint64 below 2**32`."""
    from numba import njit, uint64

    low, half = uint64(0xFFFFFFFF), uint64(32)
    multiplier0, multiplier1 = uint64(0xD2511F53), uint64(0xCD9E8D57)
    step0, step1 = uint64(0x9E3779B9), uint64(0xBB67AE85)

    @njit(error_model="numpy", forceinline=True)
    def words(block, call, key):
        c0, c1, c2, c3 = block & low, block >> half, call & low, call >> half
        k0, k1 = key & low, key >> half
        for _ in range(10):
            # Both factors are below 2**32, which makes this one instruction per vector.
            product0, product1 = (c0 & low) * multiplier0, (c2 & low) * multiplier1
            c0, c1 = (product1 >> half) ^ c1 ^ k0, product1 & low
            c2, c3 = (product0 >> half) ^ c3 ^ k1, product0 & low
            k0, k1 = (k0 + step0) & low, (k1 + step1) & low
        return c0, c1, c2, c3

    return words


def exact(kernel: Callable[..., int]) -> Callable[..., int]:
    """No fused multiplication and addition: the reference rounds after each."""
    kernel.jit_options = {"error_model": "numpy", "forceinline": True}  # type: ignore[attr-defined]  # read by machine_code
    return kernel


def _build_drawing(op: str, dtype: str) -> Callable[..., int]:
    """A kernel that makes element n from word n: whole blocks in a loop for vectors, then what is left of the last."""
    from numba import float64, int32, int64, njit, uint64

    from atled_cpu_numba.codegen import float64_of_bits, ints32, words
    from atled_cpu_numba.kernels.shared.options import Real

    draw = philox()
    top, unit = uint64(8), 2.0**-24
    if op == "Randint":
        pointer, half = ints32, uint64(32)

        @njit(error_model="numpy", forceinline=True)
        def element(word, a, b):
            return int32(int64((word * uint64(b)) >> half) + a)

        @njit(error_model="numpy", forceinline=True)
        def parameter(bits):
            return bits
    else:
        real = Real(dtype)
        number, pointer = real.kind, real.pointer

        @njit(error_model="numpy", forceinline=True)
        def parameter(bits):
            return float64_of_bits(bits)

        @njit(error_model="numpy", forceinline=True)
        def element(word, a, b):
            # Through int32, which every processor converts in vectors.
            return number(a + (b - a) * (float64(int32(word >> top)) * unit))

    @exact
    def drawing(block, part, parts):
        w = words(block)
        random_state, y, count = words(w[Block.random_state]), pointer(w[Block.y]), w[Block.count]
        key, call = uint64(random_state[RandomState.key]), uint64(random_state[RandomState.call])
        a, b = parameter(w[Block.first]), parameter(w[Block.second])
        blocks = (count + 3) // 4
        first, after = blocks * part // parts, blocks * (part + 1) // parts
        whole = min(after, count // 4)
        for i in range(first, whole):
            w0, w1, w2, w3 = draw(uint64(i), call, key)
            y[4 * i] = element(w0, a, b)
            y[4 * i + 1] = element(w1, a, b)
            y[4 * i + 2] = element(w2, a, b)
            y[4 * i + 3] = element(w3, a, b)
        for i in range(whole, after):
            w0, w1, w2, w3 = draw(uint64(i), call, key)
            y[4 * i] = element(w0, a, b)
            if 4 * i + 1 < count:
                y[4 * i + 1] = element(w1, a, b)
            if 4 * i + 2 < count:
                y[4 * i + 2] = element(w2, a, b)
        return 0

    return drawing


def _build_dropout(dtype: str) -> Callable[..., int]:
    from numba import int64, uint64

    from atled_cpu_numba.codegen import float64_of_bits, words
    from atled_cpu_numba.kernels.shared.options import Real
    from atled_cpu_numba.kernels.shared.scalars import choose

    draw, real = philox(), Real(dtype)
    number, pointer = real.kind, real.pointer
    top = uint64(8)

    @exact
    def dropout(block, part, parts):
        w = words(block)
        random_state, x, y = words(w[Block.random_state]), pointer(w[Block.x]), pointer(w[Block.y])
        mask, count = pointer(w[Block.mask]), w[Block.count]
        key, call = uint64(random_state[RandomState.key]), uint64(random_state[RandomState.call])
        p = float64_of_bits(w[Block.first])
        # A whole number is at least p * 2**24 where it is at least the next whole number from there.
        least = uint64(int64(math.ceil(p * 16777216.0)))
        kept, dropped = number(1.0 / (1.0 - p)), number(0)
        blocks = (count + 3) // 4
        first, after = blocks * part // parts, blocks * (part + 1) // parts
        whole = min(after, count // 4)
        for i in range(first, whole):
            w0, w1, w2, w3 = draw(uint64(i), call, key)
            mask[4 * i] = choose((w0 >> top) >= least, kept, dropped)
            mask[4 * i + 1] = choose((w1 >> top) >= least, kept, dropped)
            mask[4 * i + 2] = choose((w2 >> top) >= least, kept, dropped)
            mask[4 * i + 3] = choose((w3 >> top) >= least, kept, dropped)
        for i in range(whole, after):
            w0, w1, w2, w3 = draw(uint64(i), call, key)
            mask[4 * i] = choose((w0 >> top) >= least, kept, dropped)
            if 4 * i + 1 < count:
                mask[4 * i + 1] = choose((w1 >> top) >= least, kept, dropped)
            if 4 * i + 2 < count:
                mask[4 * i + 2] = choose((w2 >> top) >= least, kept, dropped)
        for i in range(4 * first, min(4 * after, count)):
            y[i] = x[i] * mask[i]
        return 0

    return dropout


def _kernel(op: str, dtype: str) -> Kernel:
    build: Callable[..., Any] = _build_dropout if op == "Dropout" else partial(_build_drawing, op)
    return Kernel(f"{op.lower()}_{dtype}", partial(build, dtype), parameters=(op, dtype))


_KERNELS = {(op, dtype): _kernel(op, dtype) for op in ("Dropout", "Rand") for dtype in REALS}
_KERNELS["Randint", "int32"] = _kernel("Randint", "int32")

# The words of the float attributes.
_ATTRIBUTES = {
    "Dropout": {"p": Block.first},
    "Rand": {"low": Block.first, "high": Block.second},
    "Randint": {},
}


def accepts(call: Call) -> bool | str:
    """Whether the result is float32 or float64; Randint's is int32 always."""
    name = call.spec.name
    if name == "Randint":
        return True
    outputs = 2 if name == "Dropout" else 1
    refused = refuse_floats(call, REALS, floats=(0,) if name == "Dropout" else (), outputs=outputs)
    return refused or True


def prepare(call: Call) -> Prepared:
    """Dropout: x, random_state -> y, mask.  Rand, Randint: random_state -> y."""
    name = call.spec.name
    y = call.outputs[0]
    words = filled(Block, count=y.size)
    if name == "Randint":
        low, high = call.attributes["low"], call.attributes["high"]
        words = filled(Block, count=y.size, first=low, second=high - low)
    arguments = (
        (Block.x, Block.random_state, Block.y, Block.mask) if name == "Dropout" else (Block.random_state, Block.y)
    )
    return launch(
        _KERNELS[name, y.dtype.name],
        words,
        arguments,
        parts=share_count(y.size / _ELEMENTS_PER_US[name], max(1, y.size // 4)),
        attributes=_ATTRIBUTES[name],
        note="philox",
    )
