"""Reuse of memory inside a plan: buffers whose values are no longer needed serve later steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atled.arrays.place import HOST
from atled.graph.compile.step import Slot, Step


def reuse_memory(slots: Sequence[Slot], steps: Sequence[Step]) -> None:
    """Give internal slots with disjoint lifetimes one memory; changes `slot.memory` in place.

    A memory is an alias set: a view has the memory of what it shows. Memories of arrays outside the plan and of
    results are never shared. The first and the last step that touch a memory count, by reading or
    writing; an elementwise step may write where it reads if it is the last reader and the arrays are of one size.
    A step and those that it carries count as one.
    """
    remaining = {slot.memory for slot in slots if slot.source[0] != "internal"}
    # Code of the user may keep a view of its arguments.
    opaque = [step for step in steps if step.node.spec is not None and step.node.spec.opaque]
    remaining.update(slots[argument].memory for step in opaque for argument in step.arguments if argument >= 0)
    units = _units(steps)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    biggest: dict[int, Slot] = {}
    for number, unit in enumerate(units):
        for argument in (argument for step in unit for argument in step.arguments):
            if argument >= 0:
                slot = slots[argument]
                first.setdefault(slot.memory, number)
                last[slot.memory] = number
                if slot.memory not in biggest or slot.nbytes > biggest[slot.memory].nbytes:
                    biggest[slot.memory] = slot
    free: dict[tuple[int, int, int], list[int]] = {}
    renamed: dict[int, int] = {}
    ending = _numbered(last, remaining)
    starting = _numbered(first, remaining)
    for number, unit in enumerate(units):
        gone: set[int] = set()
        begun: set[int] = set()
        for step in sorted(unit, key=lambda step: step.carrier is not None):
            own = {slots[argument].memory for argument in step.arguments if argument >= 0}
            others = {slots[n].memory for other in unit if other is not step for n in other.arguments if n >= 0}
            # Steps of a unit run at different positions: memory that one may overwrite is not for outputs of another.
            early = _overwritable(step, slots, ending.get(number, ())) - others
            for memory in starting.get(number, ()):
                if memory not in own or memory in begun:
                    continue
                begun.add(memory)
                key = _size_key(biggest[memory])
                # A memory of ranges does not hold the array element by element.
                usable = () if biggest[memory].range_bytes else early - gone
                taken = next((other for other in usable if _size_key(biggest[other]) == key), None)
                if taken is not None:
                    gone.add(taken)
                    renamed[memory] = renamed.get(taken, taken)
                else:
                    renamed[memory] = free[key].pop() if free.get(key) else memory
        for memory in ending.get(number, ()):
            if memory not in gone:
                free.setdefault(_size_key(biggest[memory]), []).append(renamed.get(memory, memory))
    for slot in slots:
        slot.memory = renamed.get(slot.memory, slot.memory)


def _units(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in order, those together that run as one: a carrier and what it carries."""
    units: list[list[Step]] = []
    former: Step | None = None
    for step in steps:
        carrier = step.carrier or step
        if carrier is former:
            units[-1].append(step)
        else:
            units.append([step])
        former = carrier
    return units


def _numbered(numbers: Mapping[int, int], remaining: set[int]) -> dict[int, list[int]]:
    """Memories by unit, without those that are remaining."""
    result: dict[int, list[int]] = {}
    for memory, number in numbers.items():
        if memory not in remaining:
            result.setdefault(number, []).append(memory)
    return result


def _size_key(slot: Slot) -> tuple[int, int, int]:
    """Memories are shared among slots of one place and one size, so that none is larger than it must be.

    On a device the dtype counts too: an array there keeps that with which it was allocated.
    """
    return id(slot.place), slot.nbytes, -1 if slot.place is HOST else slot.desc.dtype.num


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
