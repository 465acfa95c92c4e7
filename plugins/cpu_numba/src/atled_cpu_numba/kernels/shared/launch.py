"""What all kernel families share in preparing a call: the floats they take, the number of shares, the launch."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import numpy as np

from atled.plugin import Call, Native, Pack, Prepared
from atled_cpu_numba import processor
from atled_cpu_numba.kernels.shared.layout import NO_WORD
from atled_cpu_numba.store import IRKernel, Kernel

REALS = ("float32", "float64")
NARROW = ("float16", "bfloat16")
ANY = (*REALS, *NARROW)  # of kernels that take half and bf16 as they are
MOVED = ("16 bits", *REALS)  # by kernels that only move elements, those of 16 bits in pairs: see `moved_as`

# What one share should take, about, by rates that few processors fall short of by half. Handing a row over and waiting
# for it takes 1 us, and what one core has in its caches is then read by the other. With shares of 30 us an encoder took
# .92 of one core's time on two cores of Zen 3, with shares of 15 us .73, with shorter ones no less than .70.
SHARE_US = 12.0
_BRIEF_US = 4.0  # for which the interpreter lock is not worth giving away, see `Native.is_brief`: other threads wait
_BRIEF_ROWS = 128  # each takes some tens of nanoseconds, however short it is
MOST_WORKSPACE_BYTES = 256 << 20
# A result of that size is written past the caches where nothing is computed on it in pieces: before it is read again,
# most of it would have left them.
STREAMED_BYTES = 8 << 20


# Whether calls are being prepared that are part of a share themselves.
_UNDIVIDED: ContextVar[bool] = ContextVar("undivided", default=False)


@contextmanager
def undivided() -> Iterator[None]:
    """Inside, calls are prepared for one share each: another kernel will run them within its own shares."""
    token = _UNDIVIDED.set(True)
    try:
        yield
    finally:
        _UNDIVIDED.reset(token)


def is_undivided() -> bool:
    """Whether calls are being prepared for one share each."""
    return _UNDIVIDED.get()


def share_count(work_us: float, units: int) -> int:
    """How many shares a call is worth: 1 below 24 us or on one thread; else shares of 12 us or more.

    Two per thread at most, so that a thread that comes late still finds one to take: more would only pack panels and
    fill caches again (8 % of a product in sixteen shares). Where there is not enough work for two, one per thread at
    most: of three shares, one of two threads would do two. No result depends on how a call is divided.

    work_us: estimated time on one core.  units: pieces that cannot be divided.
    """
    if work_us < 2 * SHARE_US or is_undivided():
        return 1
    # Imported here because families are looked at, in `accepts`, by processes that never run a kernel.
    from atled_cpu_numba.pool import thread_count

    threads = thread_count()
    if threads == 1:
        return 1
    count = max(1, int(min(2 * threads, units, work_us / SHARE_US)))
    return threads if threads < count < 2 * threads else count


def is_brief(work_us: float, rows: int = 1) -> bool:
    """Whether a call keeps the interpreter lock.  rows: that it takes one by one, or other pieces."""
    return work_us <= _BRIEF_US and rows <= _BRIEF_ROWS


def most_shares(units: int) -> int:
    """How many shares a call may have, however much is computed on its way."""
    return share_count(math.inf, units)


def fitting_shares(parts: int, share_bytes: int) -> int:
    """As many of `parts` as get `share_bytes` of workspace each out of 256 MiB, at least one."""
    return max(1, min(parts, MOST_WORKSPACE_BYTES // share_bytes))


def float_bits(value: float) -> int:
    """The bits of a float64 as an int64, for a word of an argument block."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, which NumPy takes 2 us to put together."""
    name: str = dtype.name
    return name


def unbounded(dtype: str) -> dict[str, int]:
    """The words `low` and `high` of a block by which nothing is bounded; dtype: of what is computed."""
    return dict(_unbounded(dtype))


@cache
def _unbounded(dtype: str) -> Mapping[str, int]:
    low, high = (
        float_bits(value) if dtype == "float64" else int.from_bytes(struct.pack("<f", value), "little")
        for value in (-math.inf, math.inf)
    )
    return {"low": low, "high": high}


def optional_words(word: int, there: Sequence[bool]) -> tuple[int, ...]:
    """For each optional input, whether it is there or not: `word` or NO_WORD, among the arguments of a Native."""
    return tuple(word if is_there else NO_WORD for is_there in there)


def piece_starts(first: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Words of a block: where the pieces of a share's workspace begin, in bytes, and its size as `share_bytes`.

    first: bytes in front of the pieces.  sizes: bytes of each piece by the word for its start, which is a whole line.
    """
    starts, end = {}, in_lines(first)
    for name, size in sizes.items():
        starts[name] = end
        end += in_lines(size)
    return {**starts, "share_bytes": end}


def in_lines(size: int) -> int:
    """So many bytes as whole lines of the caches."""
    return -(-size // 64) * 64


def refuse_floats(
    call: Call,
    accepted: Sequence[str],
    *,
    floats: Sequence[int],
    outputs: int = 1,
    empty: bool = True,
    moves: bool = False,
) -> str:
    """Why the call's floats are not taken, or "" if they are: all of one dtype that is `accepted`.

    floats: positions of the inputs that hold floats, absent ones included.  outputs: how many outputs hold floats,
        counted from the first.
    empty: whether arrays without elements are taken, of whatever dtype.
    moves: whether elements are only moved, so that integers of the size of a float are taken, too (`moved_as`).
    """
    found = [call.inputs[i] for i in floats if i < len(call.inputs)]
    dtypes = {desc.dtype for desc in [*found, *call.outputs[:outputs]] if desc is not None}
    names = {moved_as(dtype) if moves else name_of(dtype) for dtype in dtypes}
    if len(names) > 1:
        return f"mixes {' and '.join(sorted(names))}; the kernel takes one dtype"
    (name,) = names
    if name in accepted:
        return "an array is empty" if not empty and has_empty(call) else ""
    if name == "float64":
        return "float32 only; double runs on the adopted reference"
    return f"takes {' or '.join(accepted)}, not {name}"


def moved_as(dtype: np.dtype) -> str:
    """The floats of which kernels that only move elements make arrays of a dtype, by size; its name where none fits.

    "16 bits": those that move rows of whole pairs, as float32 (`in_floats32`), accept it.
    """
    return {2: "16 bits", 4: "float32", 8: "float64"}.get(dtype.itemsize) or name_of(dtype)


def in_floats32(dtype: np.dtype, *counts: int) -> tuple[int, ...] | None:
    """Counts of elements as counts of float32; None where one of them is a pair and a half."""
    found = [count * dtype.itemsize for count in counts]
    return None if any(nbytes % 4 for nbytes in found) else tuple(nbytes // 4 for nbytes in found)


ODD_PAIRS = "takes elements of 16 bits in pairs, and a row has an odd number of them"


def has_empty(call: Call) -> bool:
    """Whether any input or output has no elements."""
    return any(desc is not None and desc.size == 0 for desc in (*call.inputs, *call.outputs))


def has_strides(call: Call) -> bool:
    """Whether any input or output is not contiguous."""
    return any(desc is not None and not desc.is_contiguous for desc in (*call.inputs, *call.outputs))


def kernels_by_dtype(
    name: str,
    build: Callable[..., Callable[..., int]],
    *parameters: Any,
    dtypes: Sequence[str] = REALS,
    depends: tuple[Any, ...] = (),
) -> dict[str, Kernel]:
    """A kernel `name`_dtype for each of `dtypes`, by dtype: what build(dtype, *parameters) returns.

    depends: values besides that the code depends on.
    """
    return {
        dtype: Kernel(f"{name}_{dtype}", partial(build, dtype, *parameters), parameters=(dtype, *parameters, *depends))
        for dtype in dtypes
    }


def narrow_dtypes() -> tuple[str, ...]:
    """Those of NARROW that kernels convert: without instructions for float16 LLVM would call functions for it."""
    return NARROW if processor.has_half_instructions() else NARROW[1:]


def launch(
    kernel: Kernel | IRKernel,
    words: Sequence[int],
    arguments: Sequence[int],
    *,
    parts: int = 1,
    most_parts: int = 0,
    is_brief: bool = False,
    workspace: int = 0,
    attributes: Mapping[str, int] | None = None,
    errors: Mapping[int, str] | None = None,
    owner: Any = None,
    after: Mapping[int, int] | None = None,
    bounds: Mapping[int, int] | None = None,
    before: Mapping[int, int] | None = None,
    in_place: Mapping[int, int] | None = None,
    range_bytes: Mapping[int, int] | None = None,
    spread: Mapping[int, int] | None = None,
    spread_inner: Mapping[int, int] | None = None,
    packs: Sequence[Pack] = (),
    note: str = "",
) -> Prepared:
    """A Prepared that runs `kernel` on a block of `words`; the other arguments as in Native and Prepared."""
    block = np.array(words, dtype=np.int64)
    native = Native(
        kernel.address(),
        block,
        tuple(arguments),
        attributes=attributes,
        parts=parts,
        most_parts=most_parts,
        is_brief=is_brief,
        errors=errors,
        owner=kernel if owner is None else owner,
        after=after,
        bounds=bounds,
        before=before,
        in_place=in_place,
        range_bytes=range_bytes,
        spread=spread,
        spread_inner=spread_inner,
    )
    return Prepared(native=native, workspace=workspace, note=note, packs=packs)


def native_of(kernel: Kernel, words: Sequence[int], arguments: Sequence[int], parts: int = 1) -> Native:
    """A kernel on a block of words, as a pack is made by it."""
    return Native(kernel.address(), np.array(words, dtype=np.int64), tuple(arguments), parts=parts, owner=kernel)
