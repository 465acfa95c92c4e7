"""Running a native template on addresses, without a binding: for arrays that are others at every run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.arrays.place import HOST
from atled.arrays.storage import ALIGNMENT, HostStorage
from atled.call import RowWord
from atled.graph.compile.plan import Template
from atled.graph.run.binding import native_error


class ByAddress:
    """A template without a binding: each run puts addresses into a spare copy of the argument blocks.

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
        "template",
    )

    def __init__(self, template: Template, given: Sequence[int]) -> None:
        self.template = template
        self.given = list(given)
        sizes: dict[int, int] = {}
        outside = set(given)
        for slot in template.slots:
            if slot.memory not in outside:
                sizes[slot.memory] = max(sizes.get(slot.memory, 0), slot.nbytes)
        if HOST in template.workspaces:
            sizes[template.memory_count] = template.workspaces[HOST]
        self.offsets: dict[int, int] = {}
        self._arena_bytes = 0
        for memory, nbytes in sizes.items():
            self.offsets[memory] = self._arena_bytes
            self._arena_bytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        self._arena_memories = np.array(list(self.offsets), np.intp)
        self._arena_offsets = np.array(list(self.offsets.values()), np.int64)
        self._segments = [
            (template.steps[first].executor, *template.rows_of(first, end)) for _, first, end in template.segments
        ]
        self._spares: list[tuple[np.ndarray, np.ndarray, int]] = []

    @staticmethod
    def fits(template: Template) -> bool:
        """Whether a template is native throughout, in host memory, and no part of it is a fallback."""
        return (
            template.is_on_host
            and all(kind == "native" for kind, _, _ in template.segments)
            and not template.fallbacks
            and all(template.slots[slot].source[0] == "target" for slot in template.targets)
        )

    def run(self, addresses: Sequence[int], floats: Sequence[float] = ()) -> None:
        """Run all steps.

        addresses: of the memories in `given`, whose storages the caller keeps alive.
        floats: the value of each float of the template.
        """
        template = self.template
        arena = HostStorage(self._arena_bytes)
        try:
            spare = self._spares.pop()  # atomic: each thread takes one of its own
        except IndexError:
            spare = self._new_block()
        block, _, rows_address = spare
        memories = np.empty(template.memory_count + 1, np.int64)
        memories[self.given] = addresses
        memories[self._arena_memories] = self._arena_offsets + arena.address
        block[template.address_words] = memories[template.address_memories]
        if len(template.float_words):
            block.view(np.float64)[template.float_words] = np.array(floats)[template.float_numbers]
        for executor, first, end in self._segments:
            status = executor.run_program(rows_address, first, end)
            if status:
                raise native_error(template.steps[template.row_steps[(status >> 16) - 1]], status)
        self._spares.append(spare)

    def _new_block(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Argument blocks, the program that points at them, and the address of that."""
        template = self.template
        block, rows = template.block.copy(), template.rows.copy()
        rows[:, RowWord.BLOCK] += block.ctypes.data
        block[template.link_words] = block.ctypes.data + template.link_offsets
        return block, rows, rows.ctypes.data
