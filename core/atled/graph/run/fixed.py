"""Native plans on memory of their own: argument blocks that are written once, for many runs on the same addresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.arrays.place import HOST
from atled.arrays.storage import ALIGNMENT
from atled.call import RowWord
from atled.graph.compile.memory import pieces_during_run
from atled.graph.compile.packing import Piece, pack
from atled.graph.compile.plan import Plan
from atled.graph.compile.segments import NativeSegment


class FixedLayout:
    """Where a native plan has what is needed only during a run: in one arena, memories of other times in one place.

    given: the memories that lie elsewhere, in the order of the addresses that a run gets.
    nbytes: of the arena.
    """

    __slots__ = ("_memories", "_offsets", "given", "nbytes", "plan", "segments")

    def __init__(self, plan: Plan, given: Sequence[int]) -> None:
        self.plan = plan
        self.given = list(given)
        pieces = pieces_during_run(plan.slots, plan.steps, frozenset(given))
        if HOST in plan.workspaces:
            pieces[plan.memory_count] = Piece(plan.workspaces[HOST], 0, len(plan.steps))
        offsets, self.nbytes = pack(list(pieces.values()), ALIGNMENT)
        self._memories = np.array(list(pieces), np.intp)
        self._offsets = np.array(offsets, np.int64)
        self.segments = [
            (segment.steps[0].executor, *segment.rows, segment)
            for segment in plan.segments
            if isinstance(segment, NativeSegment)
        ]

    def write(self, block: np.ndarray, addresses: Sequence[int], packs: Sequence[int], arena: int) -> None:
        """Put the addresses into argument blocks; packs: none, or one for each that the plan wants."""
        plan = self.plan
        memories = np.zeros(plan.memory_count + 1, np.int64)
        memories[self.given] = addresses
        memories[self._memories] = self._offsets + arena
        block[plan.address_words] = memories[plan.address_memories]
        if plan.address_offsets is not None:
            block[plan.address_words] += plan.address_offsets
        for packed, address in zip(plan.packs, packs or [0] * len(plan.packs), strict=True):
            block[packed.word] = address


class FixedProgram:
    """A native plan for one run at a time, with argument blocks of its own."""

    __slots__ = ("_addresses", "_arena", "_block", "_layout", "_packs", "_rows", "_rows_address")

    def __init__(self, layout: FixedLayout, floats: Sequence[float]) -> None:
        plan = layout.plan
        self._layout = layout
        self._arena = 0
        self._block, self._rows = plan.block.copy(), plan.rows.copy()
        self._rows[:, RowWord.BLOCK] += self._block.ctypes.data
        self._rows_address: int = self._rows.ctypes.data
        self._block[plan.link_words] = self._block.ctypes.data + plan.link_offsets
        if len(plan.float_words):
            self._block.view(np.float64)[plan.float_words] = np.array(floats)[plan.float_numbers]
        self._addresses: Sequence[int] | None = None
        self._packs: Sequence[int] = ()

    def place(self, arena: int) -> None:
        """Have the arena at an address from the next run on; the caller keeps it alive."""
        self._arena = arena
        self._addresses = None

    def run(self, addresses: Sequence[int], packs: Sequence[int] = ()) -> None:
        """Run all steps.

        addresses: of the memories that are given; packs: of those of the plan, 0 for one that is not kept. The caller
        keeps what is there alive; the same two objects as in the last run stand for the same addresses.
        """
        layout = self._layout
        if addresses is not self._addresses or packs is not self._packs:
            layout.write(self._block, addresses, packs, self._arena)
            self._addresses, self._packs = addresses, packs
        for executor, first, end, segment in layout.segments:
            status = executor.run_program(self._rows_address, first, end)
            if status:
                raise segment.error_of(status, self._rows_address)
