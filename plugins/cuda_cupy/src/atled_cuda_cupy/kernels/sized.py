"""Launches whose sizes go by name: each is a word of the launch, or is known when the kernel is compiled."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from atled.plugin import ArrayDesc, Call
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import Device
from atled_cuda_cupy.kernels.attaching import attached_text
from atled_cuda_cupy.kernels.division import divisor
from atled_cuda_cupy.launching import Launch

_NARROW = 2**30  # strides of a grid are added to places in memory
_FLOATS = "float16", "bfloat16", "float32", "float64"


def sized(
    where: Device,
    text: str,
    name: str,
    sizes: Mapping[str, int],
    grid: int,
    block: int,
    defines: Mapping[str, object],
    *,
    known: Collection[str] = (),
    divisors: Collection[str] = (),
    floats: int = 0,
    wide: bool = False,
) -> Launch:
    """A kernel of a text that speaks of sizes by their names.

    known: those that the compiler is told.  divisors: those by which OVER divides, none of them known.
    wide: whether places in memory take 64 bits.
    """
    wide = wide or any(abs(size) >= _NARROW for size in sizes.values())
    words = {one: size for one, size in sizes.items() if one not in known}
    for one in divisors:
        words[f"{one}_FACTOR"], words[f"{one}_SHIFT"] = divisor(sizes[one], wide)
    named = {**{one: sizes[one] for one in known}, **{one: f"words.w[{n}]" for n, one in enumerate(words)}}
    text, values, named = template("places") + text, [*words.values()], {**named, **defines}
    return Launch(where, text, name, grid, block, values, named, floats=floats, wide=wide)


@functools.cache
def kernel(file: str, name: str) -> str:
    """The text of a file with one of its kernels; the others would take long to compile."""
    others = rf'extern "C" __global__ void (?!{name}\()\w+\(.*?\n}}\n'
    return re.sub(others, "", template(file), flags=re.DOTALL)


def storing(call: Call) -> str:
    """OPERANDS, and STORE_0 with the formula behind output 0."""
    return attached_text(call, stores=(0,), real=type_names(call.outputs[0].dtype)[1])


def types(desc: ArrayDesc) -> dict[str, str]:
    """T and A of an array."""
    stored, computed = type_names(desc.dtype)
    return {"T": stored, "A": computed}


def of_one_float(call: Call, among: Collection[str] = ()) -> str:
    """Why the arrays of a call are not of one float dtype that kernels have; "" where they are.

    among: dtypes that it may have besides. Formulas may read and make what is computed in the same type.
    """
    own = {desc.dtype.name for desc in (*call.inputs, *call.outputs) if desc is not None} - {*among}
    if len(own) != 1 or not own.issubset(_FLOATS):
        return f"the kernels compute one float dtype, not {sorted(own)}"
    computed = type_names(*own)[1]
    for desc in (*call.reads, *call.writes):
        name = "" if desc is None else desc.dtype.name
        if desc is not None and name not in among and (name not in _FLOATS or type_names(name)[1] != computed):
            return f"its formulas are of {name}, and it computes in {computed}"
    return ""


def is_wide(call: Call) -> bool:
    """Whether places in the arrays of a call take 64 bits; strides of a grid are added to them."""
    descs = (*call.inputs, *call.outputs, *call.reads, *call.writes)
    return any(desc is not None and desc.size >= _NARROW for desc in descs)


def computed_bytes(desc: ArrayDesc) -> int:
    """Of one element, as it is computed with."""
    return 8 if desc.dtype == np.float64 else 4


def by_axis(name: str, values: Sequence[int], missing: int) -> dict[str, int]:
    """One size for each of three axes; those in front that there are not have the value `missing`."""
    padded = (*(missing,) * (3 - len(values)), *values)
    return {f"{name}_{axis}": value for axis, value in enumerate(padded)}


def either_layout(_: Call) -> str:
    """Images with the channels last take as long as others."""
    return ""
