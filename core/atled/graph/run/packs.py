"""Packs: the forms in which kernels would like arrays that stay the same, as a run hands them over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from atled.arrays.cell import ArrayCell
from atled.arrays.constants import CONSTANTS, Constant
from atled.arrays.epoch import WRITES
from atled.arrays.storage import HostStorage
from atled.call import RowWord
from atled.graph.compile.native_errors import native_error
from atled.graph.compile.plan import PackedInput
from atled.named_tuple import NamedTuple

_MOST_REST = 15  # runs of a plan whose arrays are others at each run, until it looks again


class Wanted(NamedTuple):
    """A pack that a plan wants.

    source: gives the address of what is packed, when that is to be done, and what keeps that memory alive.
    """

    packed: PackedInput
    constant: Constant
    source: Callable[[], tuple[int, object]]


def wanted(
    packed: PackedInput,
    cells: Sequence[ArrayCell],
    source: Callable[[], tuple[int, object]],
    form: Hashable = (),
    **how: int,
) -> Wanted:
    """The pack of an array: of the only one of `cells`, or of what `form` says is computed of them.

    how: as for `ConstantStore.find`.
    """
    pack = packed.pack
    return Wanted(packed, CONSTANTS.find((pack.form, pack.nbytes, form), cells, **how), source)


class Packs:
    """The packs that a plan wants, for certain arrays; several threads may ask for them."""

    __slots__ = ("_before", "_idle", "_rest", "_wanted")

    def __init__(self, items: Iterable[Wanted], before: int = 0) -> None:
        """before: number of the run before, where constants used since then are not to be dropped for a pack."""
        self._wanted = list(items)
        self._before = before
        self._idle = 0
        self._rest = 0

    def take(self) -> Sequence[HostStorage | None]:
        """The memory of each, made where that is due; None for those that are not kept. Nothing at all: for none.

        A plan whose arrays are others at each run, as in a training, looks ever more seldom.
        """
        if self._rest > 0:  # several threads may have passed here at once
            self._rest -= 1
            return ()
        now, before = next(WRITES), self._before
        self._before = now
        # At the first run, what others have used lately may be dropped: nothing is known of who needs it more.
        found = [item.constant.get(now) or self._made(item, now, before or now) for item in self._wanted]
        if before and not any(found):
            self._idle = self._rest = min(_MOST_REST, 2 * self._idle + 1)
            return ()
        self._idle = 0
        return found

    @staticmethod
    def _made(item: Wanted, now: int, before: int) -> HostStorage | None:
        constant = item.constant
        if not constant.is_due(now):
            return None
        item.source()  # what is pending is computed, and planned, before the store's lock is held
        nbytes = item.packed.pack.nbytes
        return CONSTANTS.make(constant, nbytes, lambda storage: _fill(item, storage), now, before)


def _fill(item: Wanted, storage: HostStorage) -> None:
    """Run the kernel that packs."""
    step, pack = item.packed.step, item.packed.pack
    native = pack.native
    block = np.array(native.block, np.int64)
    source, _owner = item.source()
    workspace = HostStorage(pack.workspace) if pack.workspace else None
    addresses = (source, storage.address, 0 if workspace is None else workspace.address)
    for word, address in zip(native.arguments, addresses, strict=False):  # those without a workspace have two
        if word >= 0:
            block[word] = address
    rows = np.zeros((1, len(RowWord)), np.int64)
    rows[0, RowWord.KERNEL] = native.address
    rows[0, RowWord.BLOCK] = block.ctypes.data
    rows[0, RowWord.PARTS] = native.parts
    status = step.executor.run_program(rows.ctypes.data, 0, 1)
    if status:
        raise native_error(step, status)
