"""Running a native plan on addresses, without a binding: for arrays that are others at every run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.arrays.place import HOST
from atled.arrays.storage import ALIGNMENT, HostStorage
from atled.call import RowWord
from atled.graph.compile.plan import Plan
from atled.graph.compile.segments import NativeSegment


class ByAddress:
    """A plan without a binding: each run puts addresses into a spare copy of the argument blocks.

    given: the memories whose addresses a run is given, in that order.
    offsets: where the other memories begin in the arena, the one storage that a run has for all of them.
    """

    __slots__ = (
        "_arena_bytes",
        "_arena_memories",
        "_arena_offsets",
        "_segments",
        "_spares",
        "given",
        "offsets",
        "plan",
    )

    def __init__(self, plan: Plan, given: Sequence[int]) -> None:
        self.plan = plan
        self.given = list(given)
        sizes: dict[int, int] = {}
        outside = set(given)
        for slot in plan.slots:
            if slot.memory not in outside:
                sizes[slot.memory] = max(sizes.get(slot.memory, 0), slot.nbytes)
        if HOST in plan.workspaces:
            sizes[plan.memory_count] = plan.workspaces[HOST]
        self.offsets: dict[int, int] = {}
        self._arena_bytes = 0
        for memory, nbytes in sizes.items():
            self.offsets[memory] = self._arena_bytes
            self._arena_bytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        self._arena_memories = np.array(list(self.offsets), np.intp)
        self._arena_offsets = np.array(list(self.offsets.values()), np.int64)
        self._segments = [
            (segment.steps[0].executor, *segment.rows, segment)
            for segment in plan.segments
            if isinstance(segment, NativeSegment)
        ]
        self._spares: list[tuple[np.ndarray, np.ndarray, int]] = []

    @staticmethod
    def fits(plan: Plan) -> bool:
        """Whether a plan is native throughout, in host memory, and no part of it is a fallback."""
        return (
            plan.is_on_host
            and all(isinstance(segment, NativeSegment) for segment in plan.segments)
            and not plan.fallbacks
            and all(slot >= 0 and plan.slots[slot].source[0] == "target" for slot in plan.targets)
        )

    def run(self, addresses: Sequence[int], floats: Sequence[float] = ()) -> None:
        """Run all steps.

        addresses: of the memories in `given`, whose storages the caller keeps alive.
        floats: the value of each float of the plan.
        """
        plan = self.plan
        arena = HostStorage(self._arena_bytes)
        try:
            spare = self._spares.pop()  # atomic: each thread takes one of its own
        except IndexError:
            spare = self._new_block()
        block, _, rows_address = spare
        memories = np.empty(plan.memory_count + 1, np.int64)
        memories[self.given] = addresses
        memories[self._arena_memories] = self._arena_offsets + arena.address
        block[plan.address_words] = memories[plan.address_memories]
        if plan.address_offsets is not None:
            block[plan.address_words] += plan.address_offsets
        if len(plan.float_words):
            block.view(np.float64)[plan.float_words] = np.array(floats)[plan.float_numbers]
        for executor, first, end, segment in self._segments:
            status = executor.run_program(rows_address, first, end)
            if status:
                raise segment.error_of(status)
        self._spares.append(spare)

    def _new_block(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Argument blocks, the program that points at them, and the address of that."""
        plan = self.plan
        block, rows = plan.block.copy(), plan.rows.copy()
        rows[:, RowWord.BLOCK] += block.ctypes.data
        block[plan.link_words] = block.ctypes.data + plan.link_offsets
        return block, rows, rows.ctypes.data
