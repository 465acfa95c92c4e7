"""Fourier transforms in passes along each signal axis; one sums up to 16 elements, or a larger prime number."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.arrangement import division
from atled_cuda_cupy.kernels.indexing import accepts_floats, is_wide
from atled_cuda_cupy.launching import Launch, Step, queued

_MOST_SUMMED = 16  # elements: fewer passes over memory, while turns still cost little


def radices(size: int) -> list[int]:
    """Factors of a size, up to 16 or prime; none for 1."""
    primes, divisor = [], 2
    while size > 1:
        if divisor * divisor > size:
            divisor = size
        while size % divisor == 0:
            primes.append(divisor)
            size //= divisor
        divisor += 1
    made: list[int] = []
    for prime in reversed(primes):
        if made and made[-1] * prime <= _MOST_SUMMED:
            made[-1] *= prime
        else:
            made.append(prime)
    return made


def _passes(shape: Sequence[int], signal_ndim: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each pass: elements inside of its axis, the size of that, lengths of the transforms made and found."""
    ran = False
    for axis in range(len(shape) - signal_ndim, len(shape)):
        found = 1
        for radix in radices(shape[axis]):
            yield math.prod(shape[axis + 1 :]), shape[axis], found * radix, found
            found, ran = found * radix, True
    if not ran:
        yield 1, 1, 1, 1  # a copy


def prepare(call: Call) -> Prepared:
    """Passes read what the one before has made, in the dtype that is computed in."""
    desc, attributes, where = call.outputs[0], call.attributes, device(call.device_id)
    shape, inverts = desc.shape[:-1], call.spec.name == "IFFT"
    passes = list(_passes(shape, attributes["signal_ndim"]))
    count = math.prod(shape[len(shape) - attributes["signal_ndim"] :])
    scale = 1 / math.sqrt(count) if attributes["normalized"] else 1 / count if inverts else 1.0
    storage, real = type_names(desc.dtype)
    launches = []
    for number, (inside, size, length, found) in enumerate(passes):
        words = [desc.size // 2, *division(inside), *division(size), *division(length), *division(found)]
        words += [length // found, 1 if inverts else -1]
        ends = (storage if number == 0 else real), (storage if number == len(passes) - 1 else real)
        defines = {"S": ends[0], "D": ends[1], "A": real}
        source = template("indexing") + template("fourier")
        blocks = where.blocks(desc.size // 2)
        launches.append(Launch(where, source, "transform", blocks, 256, words, defines, wide=is_wide(desc.size)))
    factors = [1.0] * (len(passes) - 1) + [scale]
    scales = [struct.unpack("q", struct.pack("d", factor))[0] for factor in factors]
    buffers, nbytes = min(len(passes) - 1, 2), desc.size * (8 if real == "double" else 4)

    def steps(x: Any, y: Any, *workspace: Any) -> Sequence[Step]:  # Any: arrays of this device
        between = [workspace[0].data.ptr + number % 2 * nbytes for number in range(len(passes) - 1)]
        places = [x, *between, y]
        return [
            (launch, (*places[number : number + 2], scale), 0)
            for number, (launch, scale) in enumerate(zip(launches, scales, strict=True))
        ]

    return queued(call, steps, workspace=buffers * nbytes, note=f"{len(passes)} passes")


def register(registrar: Registrar) -> None:
    """Hand both over."""
    for op in ("FFT", "IFFT"):
        registrar.implementation(op, "cuda", prepare, accepts=accepts_floats, note="kernel")
