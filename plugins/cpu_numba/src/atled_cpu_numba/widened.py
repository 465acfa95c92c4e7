"""Calls in half and bf16 as kernels of float32 between casts: a loop of one step, whose rows are casts and the kernel.

Inputs are widened, and results rounded, once each, as a type config that computes in float32 has it. Where the kernel
offers to have that done piece by piece (`Native.before`, `Native.after`), no row is needed for it: the piece is in the
cache. Products widen their panels themselves (`kernels.products.narrow_products`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atled.plugin import (
    RANGE_BLOCK_WORDS,
    ArrayDesc,
    Call,
    FixupWord,
    LoopRowWord,
    LoopWord,
    Native,
    Prepared,
    RangeWord,
    is_narrow,
    op_spec,
)
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels import widened_units
from atled_cpu_numba.kernels.products import narrow_products
from atled_cpu_numba.kernels.shared.launch import in_lines
from atled_cpu_numba.kernels.shared.layout import NO_WORD

_SINGLE = np.dtype(np.float32)
_ANY_CODE = 0xFFFF  # all that a kernel returns


def accepts(call: Call, accepts_wide: Callable[[Call], bool | str]) -> bool | str:
    """Whether there are narrow floats, none of them changed in place, and the call in float32 is accepted."""
    if not any(desc is not None and is_narrow(desc.dtype) for desc in (*call.inputs, *call.outputs)):
        return "no float is narrower than float32"
    changed = {*call.spec.mutated, *call.spec.inplace.values()}
    if any(is_narrow(desc.dtype) for n in changed if (desc := call.inputs[n]) is not None):
        return "changes a narrow array in place"
    return accepts_wide(wide(call))


def wide(call: Call) -> Call:
    """The same call, with float32 instead of all narrow floats."""
    attributes: Mapping[str, Any] = call.attributes
    dtype = attributes.get("dtype")
    if isinstance(dtype, np.dtype) and is_narrow(dtype):
        attributes = {**attributes, "dtype": _SINGLE}
    return Call(
        call.spec,
        tuple(None if desc is None else _wide(desc) for desc in call.inputs),
        tuple(map(_wide, call.outputs)),
        attributes,
        device_id=call.device_id,
        deterministic=call.deterministic,
        local_errors=call.local_errors,
        by_operands=call.by_operands,
        wanted=call.wanted,
    )


def _wide(desc: ArrayDesc) -> ArrayDesc:
    return desc.astype(_SINGLE) if is_narrow(desc.dtype) else desc


def prepare(call: Call, prepare_wide: Callable[[Call], Prepared]) -> Prepared:
    """The kernel that `prepare_wide` gives for the call in float32, with the casts that it needs."""
    in_panels = narrow_products.prepare(call)
    if in_panels is not None:
        return in_panels
    units = widened_units.units_of(wide(call))
    in_chunks = None if units is None else widened_units.prepare(call, units, prepare_wide, _cast)
    if in_chunks is not None:
        return in_chunks
    prepared = prepare_wide(wide(call))
    assert prepared.native is not None
    rows = _Rows(call, prepared.native, prepared.workspace)
    return Prepared(native=rows.native, workspace=rows.workspace, note=prepared.note)


def _cast(source: ArrayDesc, target: ArrayDesc) -> Native:
    """All elements, in order."""
    flat = ArrayDesc((source.size,), source.dtype), ArrayDesc((target.size,), target.dtype)
    native = elementwise.prepare(Call(op_spec("Cast"), flat[:1], flat[1:], {})).native
    assert native is not None
    return native


class _Rows:
    """Puts the block of a loop together, whose addresses are relative until it runs.

    native: it.  workspace: bytes of it.
    """

    def __init__(self, call: Call, kernel: Native, kernel_workspace: int) -> None:
        from atled_cpu_numba import pool  # loads llvmlite: not before the first call is prepared

        address, own = pool.loop_kernel()
        self._words = [0] * len(LoopWord)
        self._words[LoopWord.OWN], self._words[LoopWord.COUNT] = own, 1
        self._fixups: list[tuple[int, int, int]] = []
        self._rows: list[tuple[Native, int]] = []
        self._owners: list[object] = [kernel.owner]
        self.workspace = 0
        self._workspace_word = self._add([0])
        self._kernel, self._block = kernel, self._add(kernel.block.tolist())
        descs = (*call.inputs, *call.outputs)
        words = [self._argument(call, position, desc) for position, desc in enumerate(descs[: len(call.inputs)])]
        self._rows.append((kernel, self._block))
        words += [self._argument(call, position, desc) for position, desc in enumerate(descs) if position >= len(words)]
        if kernel_workspace:
            self._place(self._word(len(descs)), kernel_workspace)
        if self.workspace:
            words.append(self._workspace_word)
        self.native = Native(
            address,
            self._finished(),
            tuple(words),
            attributes={name: self._block + word for name, word in kernel.attributes.items()},
            errors=kernel.errors,
            owner=tuple(self._owners),
        )

    def _add(self, words: list[int]) -> int:
        """Words behind all others; the number of the first one."""
        first = len(self._words)
        self._words += words
        return first

    def _word(self, position: int) -> int:
        """The kernel's word for an argument, in the loop's block, or NO_WORD."""
        word = self._kernel.arguments[position]
        return NO_WORD if word == NO_WORD else self._block + word

    def _place(self, word: int, nbytes: int) -> None:
        """Have a word hold the address of so many bytes of workspace."""
        self._fixups.append((word, self._workspace_word, self.workspace))
        self.workspace += in_lines(nbytes)

    def _argument(self, call: Call, position: int, desc: ArrayDesc | None) -> int:
        """The word that receives the address of an argument; where that is narrow, of the cast from it, or to it."""
        word = self._word(position)
        if word == NO_WORD or desc is None or not is_narrow(desc.dtype):
            return word
        is_read, size = position < len(call.inputs), _wide(desc).nbytes
        cast = _cast(desc, _wide(desc)) if is_read else _cast(_wide(desc), desc)
        self._owners.append(cast.owner)
        block = self._add(cast.block.tolist())
        outside, inside = cast.arguments[:2] if is_read else cast.arguments[1::-1]
        carried = self._carried(call, position)
        range_bytes = self._kernel.range_bytes.get(position, 0) * self._kernel.most_parts if is_read else 0
        self._owners.append(cast)
        if carried is not None and cast.ranges is not None:
            self._words[carried + RangeWord.KERNEL] = cast.ranges()
            self._fixups.append((carried + RangeWord.BLOCK, LoopWord.SELF, 8 * block))
            if 0 < range_bytes < size and len(cast.block) <= RANGE_BLOCK_WORDS:
                self._words[carried + RangeWord.BLOCK_WORDS] = len(cast.block)
                self._words[carried + RangeWord.ADDRESS_WORD] = inside
                size = range_bytes
        else:
            self._rows.append((cast, block))
        self._place(word, size)
        self._fixups.append((block + inside, word, 0))
        return block + outside

    def _carried(self, call: Call, position: int) -> int | None:
        """The first of the kernel's words for a range kernel on an argument, if it has such."""
        kernel, count = self._kernel, len(call.inputs)
        word = kernel.before.get(position) if position < count else kernel.after.get(position - count)
        return None if word is None else self._block + word

    def _finished(self) -> np.ndarray:
        """The block, with its tables."""
        words = self._words
        words[LoopWord.ROWS] = len(words)
        words[LoopWord.ROW_COUNT] = words[LoopWord.SPLIT] = len(self._rows)
        for native, block in self._rows:
            row = [0] * len(LoopRowWord)
            row[LoopRowWord.KERNEL], row[LoopRowWord.PARTS] = native.address, native.parts
            row[LoopRowWord.CODE_COUNT] = _ANY_CODE
            self._fixups.append((len(words) + LoopRowWord.BLOCK, LoopWord.SELF, 8 * block))
            words += row
        words[LoopWord.FIXUPS], words[LoopWord.FIXUP_COUNT] = len(words), len(self._fixups)
        for fixup in self._fixups:
            assert len(fixup) == len(FixupWord)
            words += fixup
        return np.array(words, np.int64)
