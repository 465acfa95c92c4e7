"""Reuse of memory inside a plan: buffers whose values are no longer needed serve later steps."""

from __future__ import annotations

from collections.abc import Sequence

from atled.graph.plan import Slot, Step
from atled.place import HOST


def reuse_memory(slots: Sequence[Slot], steps: Sequence[Step]) -> None:
    """Give internal slots with disjoint lifetimes one memory; changes `slot.memory` in place.

    A memory is an alias set: a view has the memory of what it shows. Memories of arrays outside the plan and of
    results are never shared. The first and the last step that touch a memory count, by reading or
    writing; an elementwise step may write where it reads if it is the last reader and the arrays are of one size.
    """
    kept = {slot.memory for slot in slots if slot.source[0] != "internal"}
    # Code of the user may hold on to a view of what it was given.
    opaque = [step for step in steps if step.node.spec is not None and step.node.spec.opaque]
    kept.update(slots[argument].memory for step in opaque for argument in step.arguments if argument >= 0)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    biggest: dict[int, Slot] = {}
    for number, step in enumerate(steps):
        for argument in step.arguments:
            if argument >= 0:
                slot = slots[argument]
                first.setdefault(slot.memory, number)
                last[slot.memory] = number
                if slot.memory not in biggest or slot.desc.nbytes > biggest[slot.memory].desc.nbytes:
                    biggest[slot.memory] = slot
    free: dict[tuple[int, int, int], list[int]] = {}
    renamed: dict[int, int] = {}
    ending: dict[int, list[int]] = {}
    for memory, number in last.items():
        if memory not in kept:
            ending.setdefault(number, []).append(memory)
    starting: dict[int, list[int]] = {}
    for memory, number in first.items():
        if memory not in kept:
            starting.setdefault(number, []).append(memory)
    for number, step in enumerate(steps):
        early = _overwritable(step, slots, ending.get(number, ()))
        for memory in early:
            free.setdefault(_size_key(biggest[memory]), []).append(renamed.get(memory, memory))
        for memory in starting.get(number, ()):
            available = free.get(_size_key(biggest[memory]))
            renamed[memory] = available.pop() if available else memory
        for memory in ending.get(number, ()):
            if memory not in early:
                free.setdefault(_size_key(biggest[memory]), []).append(renamed.get(memory, memory))
    for slot in slots:
        slot.memory = renamed.get(slot.memory, slot.memory)


def _size_key(slot: Slot) -> tuple[int, int, int]:
    """Memories are shared among slots of one place and one size, so that none is larger than it must be.

    On a device the dtype counts too: an array there keeps that with which it was allocated.
    """
    return id(slot.place), slot.desc.nbytes, -1 if slot.place is HOST else slot.desc.dtype.num


def _overwritable(step: Step, slots: Sequence[Slot], ending: Sequence[int]) -> set[int]:
    """The memories that end with a step and into which it may write while it reads them: exact aliases, elementwise."""
    spec = step.node.spec
    if spec is None or spec.program is None:
        return set()
    output = slots[step.arguments[step.input_count]].desc
    result = set()
    for argument in step.arguments[: step.input_count]:
        if argument >= 0 and slots[argument].memory in ending and slots[argument].desc == output:
            result.add(slots[argument].memory)
    return result
