"""Packs for plans without a binding: what is packed of arrays that each run is given anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from weakref import ref

from atled.arrays.cell import ArrayCell
from atled.arrays.storage import HostStorage
from atled.graph.compile.plan import PackedInput, Plan
from atled.graph.run.packs import Packs, wanted

_LEAST_BYTES = 1 << 14  # what is less is packed as quickly as it is found
_MOST = 16  # sets of arrays on which a program runs in turn


class ProgramPacks:
    """The packs that the steps of a plan would like of its outside arrays, which it keeps no array alive for.

    arrays: the numbers of what is packed, in the order of the plan.  memories: by which those who run the plan on
        addresses give them.
    """

    def __init__(self, plan: Plan, without: Collection[int] = ()) -> None:
        """without: numbers of arrays that are others after each run."""
        found = [(packed, plan.slots[packed.slot]) for packed in plan.packs]
        self._packed: list[tuple[PackedInput, int]] = [
            (packed, slot.source[1])
            for packed, slot in found
            if slot.source[1] not in without and slot.desc.nbytes > _LEAST_BYTES
        ]
        self.arrays = [number for _, number in self._packed]
        self.memories = [packed.memory for packed, _ in self._packed]
        self._none = [0] * len(self._packed)
        self._known: dict[tuple[int, ...], tuple[Sequence[ref[ArrayCell]], Packs]] = {}

    def __bool__(self) -> bool:
        return bool(self._packed)

    def of(self, cells: Sequence[ArrayCell] | Mapping[int, ArrayCell]) -> Packs:
        """Those of certain arrays, by number, in the order of the plan."""
        own = [cells[number] for number in self.arrays]
        key = tuple(map(id, own))
        found = self._known.get(key)
        if found is None or any(known() is not cell for known, cell in zip(found[0], own, strict=True)):
            found = self._known[key] = self._made(own)
        return found[1]

    def _made(self, cells: Sequence[ArrayCell]) -> tuple[Sequence[ref[ArrayCell]], Packs]:
        alive = {key: known for key, known in self._known.items() if all(cell() is not None for cell in known[0])}
        self._known = {} if len(alive) >= _MOST else alive
        for cell in cells:
            cell.stand_apart()  # as a spare it would come back with other values: nobody else refers to it
        references = [ref(cell) for cell in cells]
        items = [
            wanted(packed, (cell,), partial(_address_of, reference))
            for (packed, _), cell, reference in zip(self._packed, cells, references, strict=True)
        ]
        return references, Packs(items)

    def take(self, packs: Packs | None) -> tuple[list[int], object]:
        """The address of each for a run, 0 where it is not kept, and what is to be kept alive meanwhile."""
        held: Sequence[HostStorage | None] = () if packs is None else packs.take()
        return [0 if storage is None else storage.address for storage in held] or self._none, held


def _address_of(reference: ref[ArrayCell]) -> tuple[int, object]:
    cell = reference()
    assert cell is not None, "the run that wants it packed has it"
    storage = cell.settle()
    assert isinstance(storage, HostStorage), "the program reads it in host memory"
    return storage.address, storage
