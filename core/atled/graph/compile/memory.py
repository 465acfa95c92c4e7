"""Reuse of memory inside a plan: buffers whose values are no longer needed serve later steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from atled.arrays.place import HOST, Place
from atled.graph.compile.packing import Piece, pack
from atled.graph.compile.step import Slot, Step
from atled.named_tuple import NamedTuple


class ArenaLayout(NamedTuple):
    """What a plan has in the arena of one device, all dead at the end of a run.

    nbytes: of it all.  memories, workspaces: offset and count of bytes, by memory and by step.
    """

    nbytes: int
    memories: Mapping[int, tuple[int, int]]
    workspaces: Mapping[Step, tuple[int, int]]


def lay_out_arenas(slots: Sequence[Slot], steps: Sequence[Step]) -> dict[Place, ArenaLayout]:
    """By device: the internal memories and workspaces of a plan, packed by the time for which they are needed.

    Only for devices that have parts of arrays. On others, and in host memory, each memory is an array by itself.
    """
    remaining = _remaining(slots, steps)
    units = _units(steps)
    first, last = _lifetimes(slots, units)
    sizes: dict[Place, dict[int, int]] = {}
    for slot in slots:
        if slot.place.has_parts and slot.memory not in remaining and slot.memory in first:
            found = sizes.setdefault(slot.place, {})
            found[slot.memory] = max(found.get(slot.memory, 0), slot.nbytes)
    workspaces = _workspaces(slots, units)
    layouts = {}
    for place in dict.fromkeys((*sizes, *workspaces)):
        memories, needed = sizes.get(place, {}), workspaces.get(place, {})
        pieces = [Piece(nbytes, first[memory], last[memory]) for memory, nbytes in memories.items()]
        pieces += needed.values()
        offsets, total = pack(pieces, place.alignment)
        parts = [(offset, piece.nbytes) for offset, piece in zip(offsets, pieces, strict=True)]
        count = len(memories)
        layouts[place] = ArenaLayout(
            total, dict(zip(memories, parts[:count], strict=True)), dict(zip(needed, parts[count:], strict=True))
        )
    return layouts


def _workspaces(slots: Sequence[Slot], units: Sequence[Sequence[Step]]) -> dict[Place, dict[Step, Piece]]:
    """By device that has parts: the workspace of each step."""
    found: dict[Place, dict[Step, Piece]] = {}
    for number, unit in enumerate(units):
        for step in unit:
            place = slots[step.written[0]].place
            if step.workspace and place.has_parts:
                found.setdefault(place, {})[step] = Piece(step.workspace, number, number)
    return found


def reuse_memory(slots: Sequence[Slot], steps: Sequence[Step]) -> None:
    """Give internal slots with disjoint lifetimes one memory; changes `slot.memory` in place.

    A memory is an alias set: a view has the memory of what it shows. Memories of arrays outside the plan and of
    results are never shared. The first and the last step that touch a memory count, by reading or
    writing; an elementwise step may write where it reads if it is the last reader and the arrays are of one size.
    A step and those that it carries count as one. What goes into an arena shares memory there, whatever its size:
    here it only gets that which it may overwrite.
    """
    remaining = _remaining(slots, steps)
    units = _units(steps)
    first, last = _lifetimes(slots, units)
    biggest: dict[int, Slot] = {}
    for slot in slots:
        known = biggest.get(slot.memory)
        if known is None or slot.nbytes > known.nbytes:
            biggest[slot.memory] = slot
    free: dict[tuple[int, int, int], list[int]] = {}
    renamed: dict[int, int] = {}
    ending = _numbered(last, remaining)
    starting = _numbered(first, remaining)
    for number, unit in enumerate(units):
        gone: set[int] = set()
        begun: set[int] = set()
        begins, ends = starting.get(number, ()), ending.get(number, ())
        for step in sorted(unit, key=lambda step: step.carrier is not None) if begins else ():
            own = {slots[argument].memory for argument in step.arguments if argument >= 0}
            early = _overwritable(step, slots, ends) if ends else set()
            if early and len(unit) > 1:
                # Steps of a unit run at different positions: memory that one may overwrite is not for outputs of
                # another.
                early.difference_update(
                    [slots[n].memory for other in unit if other is not step for n in other.arguments if n >= 0]
                )
            for memory in begins:
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
        for memory in ends:
            if memory not in gone and not biggest[memory].place.has_parts:
                free.setdefault(_size_key(biggest[memory]), []).append(renamed.get(memory, memory))
    for slot in slots:
        slot.memory = renamed.get(slot.memory, slot.memory)


def pieces_during_run(slots: Sequence[Slot], steps: Sequence[Step], given: Collection[int]) -> dict[int, Piece]:
    """What a run needs of each memory that is not given, with the first and the last unit of steps that touch it."""
    first, last = _lifetimes(slots, _units(steps))
    sizes: dict[int, int] = {}
    for slot in slots:
        if slot.memory not in given and slot.memory in first:
            sizes[slot.memory] = max(sizes.get(slot.memory, 0), slot.nbytes)
    return {memory: Piece(nbytes, first[memory], last[memory]) for memory, nbytes in sizes.items()}


def _remaining(slots: Sequence[Slot], steps: Sequence[Step]) -> set[int]:
    """The memories that others may see after the run: of outside arrays, of results, and what user code was given."""
    remaining = {slot.memory for slot in slots if slot.source[0] != "internal"}
    # Code of the user may keep a view of its arguments.
    opaque = [step for step in steps if step.node.spec is not None and step.node.spec.opaque]
    remaining.update(slots[argument].memory for step in opaque for argument in step.arguments if argument >= 0)
    return remaining


def _lifetimes(slots: Sequence[Slot], units: Sequence[Sequence[Step]]) -> tuple[dict[int, int], dict[int, int]]:
    """The numbers of the first and the last unit that touch a memory, by memory."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, unit in enumerate(units):
        for step in unit:
            for argument in step.arguments:
                if argument >= 0:
                    memory = slots[argument].memory
                    if memory not in first:
                        first[memory] = number
                    last[memory] = number
    return first, last


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
    read = [slots[argument] for argument in step.arguments[: step.input_count] if argument >= 0]
    result = {slot.memory for slot in read if slot.memory in ending and slot.desc == output and not slot.is_window}
    # Through another window, elements would be read that are overwritten by then.
    return result.difference(slot.memory for slot in read if slot.is_window)
