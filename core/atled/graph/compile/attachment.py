"""Attachment: elementwise steps that the kernel beside them computes, range by range, while data are in the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atled.call import RANGE_BLOCK_WORDS
from atled.graph.compile.parts import MOST_BYTES
from atled.graph.compile.step import Slot, Step

_LEAST_BYTES = 1 << 20
"""Of what a step that changes arrays makes beside that: a smaller array is in the cache still when it is read whole."""

_SEARCH_LIMIT = 64  # units between two steps that are to meet, so that large graphs compile in linear time


def attach(
    slots: Sequence[Slot], steps: Sequence[Step], *, changing: bool, alone: set[Step] | None = None
) -> list[Step]:
    """The steps in an order in which each attached one stands next to the step that carries it; sets `carried`.

    An elementwise step is attached to a step whose kernel can call it on ranges (`Native.before`, `Native.after`) if
    they can stand side by side without passing a step that depends on either. A value that only the two know is then
    kept in the memory of what is made of it: it never leaves the cache. Changes `slot.memory` for that.

    changing: whether steps that change arrays in place, such as updates, may be attached, too, and move for that.
    alone: receives the steps that are not attached because their own kernels are at hand, while those on ranges would
        have to be compiled; None: these are attached, too.
    """
    if not any(map(_can_carry, steps)):
        return list(steps)
    units = _Units(slots, steps, alone)
    for step in steps:
        if _can_be_carried(step, slots, changing):
            units.attach(step)
    return [step for unit in units.order for step in unit]


def _can_carry(step: Step) -> bool:
    native = step.native
    return native is not None and bool(native.before or native.after or native.spread)


def _can_be_carried(step: Step, slots: Sequence[Slot], changing: bool) -> bool:
    spec, native = step.node.spec, step.native
    if spec is None or native is None or native.ranges is None or step.node.mutated:
        return False
    if spec.inplace and not changing:
        return False
    if any(slots[number].is_window for number in step.written):
        return False  # another window of that memory may be read at another pace
    return spec.program is not None or spec.copies


def _is_at_hand_alone(step: Step) -> bool:
    is_at_hand = None if step.native is None else step.native.is_at_hand
    return is_at_hand is not None and not is_at_hand(True) and is_at_hand(False)


def _spread_inner(carrier: Step) -> int:
    """How many neighbouring elements of its result a carrier spreads in one (`Native.spread_inner`)."""
    assert carrier.native is not None
    return next(iter(carrier.native.spread_inner.values()), 1)


class _Units:
    """Steps in the order in which they run, those that must stay together as one unit."""

    def __init__(self, slots: Sequence[Slot], steps: Sequence[Step], alone: set[Step] | None) -> None:
        self._slots = slots
        self._alone = alone
        self.order: list[list[Step]] = [[step] for step in steps]
        self._unit_of = dict(zip(steps, self.order, strict=True))
        self._index = {id(unit): position for position, unit in enumerate(self.order)}
        self._slots_in: dict[int, list[Slot]] = {}
        for slot in slots:
            self._slots_in.setdefault(slot.memory, []).append(slot)
        self._known_touched: dict[Step, tuple[set[int], set[int]]] = {}  # see `_touched`
        self._users: dict[int, list[Step]] = {}
        self._carriers: dict[int, list[Step]] = {}  # those of the users that can carry others
        for step in steps:
            can_carry = _can_carry(step)
            for memory in {slots[number].memory for number in step.arguments if number >= 0}:
                self._users.setdefault(memory, []).append(step)
                if can_carry:
                    self._carriers.setdefault(memory, []).append(step)

    def attach(self, step: Step) -> None:
        """Attach an elementwise step to a reader of what it makes, else to the maker of what it reads, if one fits."""
        is_changing = step.is_update
        least = _LEAST_BYTES if is_changing else 0
        for number in step.arguments[step.input_count :]:
            if number >= 0 and self._slots[number].desc.nbytes < least:
                continue
            if any(self._attach_before(step, number, reader) for reader in self._carriers_of(number)):
                return
        if is_changing:
            return  # behind the kernel of a gradient, an update piece by piece takes no less time than a whole one
        for number in step.arguments[: step.input_count]:
            if any(self._attach_after(step, number, maker) for maker in self._carriers_of(number)):
                return
        for number in step.arguments[: step.input_count]:
            if any(self._attach_spread(step, number, carrier) for carrier in self._spreaders_of(number)):
                return

    def _carriers_of(self, number: int) -> Sequence[Step]:
        return () if number < 0 else self._carriers.get(self._slots[number].memory, ())

    def _spreaders_of(self, number: int) -> list[Step]:
        """The steps that can spread a slot: those that write it, and those that have it computed on what they write."""
        if number < 0:
            return []
        users = self._users.get(self._slots[number].memory, ())
        carriers = [step.carrier or step for step in users if number in step.arguments[step.input_count :]]
        carriers += self._carriers_of(number)
        return [carrier for carrier in carriers if carrier.native is not None and carrier.native.spread]

    def _attach_before(self, step: Step, number: int, carrier: Step) -> bool:
        """Have `carrier` call `step` before it reads slot `number`."""
        if carrier.native is None:
            return False
        positions = [p for p in carrier.native.before if self._is_same(carrier.arguments[p], number)]
        if not positions or not self._is_whole(step, number):
            return False
        (position,) = positions
        word = carrier.native.before[position]
        if not self._may_join(step, carrier, number, position, word) or self._stays_alone(step):
            return False
        if not self._join(step, carrier):
            return False
        carrier.carry(step, word)
        share_bytes = carrier.native.range_bytes.get(position, 0)
        if share_bytes and self._keep_ranges(number, share_bytes, step, carrier):
            return True
        output = carrier.native.in_place.get(position)
        if output is not None:
            self._share(number, carrier.arguments[carrier.input_count + output], step, carrier)
        return True

    def _attach_after(self, step: Step, number: int, carrier: Step) -> bool:
        """Have `carrier` call `step` after it has written slot `number`."""
        if carrier.native is None:
            return False
        first = carrier.input_count
        positions = [p for p in carrier.native.after if self._is_same(carrier.arguments[first + p], number)]
        if not positions or not self._is_whole(step, number):
            return False
        word = carrier.native.after[positions[0]]
        if not self._may_join(step, carrier, number, first + positions[0], word) or self._stays_alone(step):
            return False
        if not self._join(carrier, step):
            return False
        carrier.carry(step, word)
        self._share(number, step.arguments[step.input_count], step, carrier)
        return True

    def _attach_spread(self, step: Step, number: int, carrier: Step) -> bool:
        """Have `carrier` call `step`, which reads slot `number` spread over the elements that it is made of."""
        assert carrier.native is not None
        ((output, word),) = carrier.native.spread.items()
        result = carrier.arguments[carrier.input_count + output]
        if not self._is_same(result, number):
            late = [carried.step for carried in carrier.carried if carried.word == carrier.native.after.get(output)]
            if not any(number in other.arguments[other.input_count :] for other in late):
                return False
        if not self._is_spread(number, step, carrier) or not self._is_free(step, carrier, word):
            return False
        if not self._are_in_step(step, carrier, carrier) or self._stays_alone(step) or not self._join(carrier, step):
            return False
        carrier.carry(step, word)
        return True

    def _stays_alone(self, step: Step) -> bool:
        """Whether a step that could be attached is to run by its own kernel; none that makes large arrays."""
        if self._alone is None or step in self._alone:
            return self._alone is not None
        made = sum(self._slots[number].desc.nbytes for number in step.arguments[step.input_count :] if number >= 0)
        if made > MOST_BYTES or not _is_at_hand_alone(step):
            return False
        self._alone.add(step)
        return True

    def _is_whole(self, step: Step, number: int) -> bool:
        """Whether a slot has as many elements as what the step makes: else the ranges of the two are not the same."""
        return self._slots[number].desc.size == self._slots[step.arguments[-1]].desc.size

    def _is_spread(self, number: int, step: Step, carrier: Step) -> bool:
        """Whether a step as large as the input of `carrier` reads a slot spread as the carrier's result is."""
        shape, whole = self._slots[number].desc.shape, self._slots[step.arguments[-1]].desc.shape
        shape = (1,) * (len(whole) - len(shape)) + shape
        spread = [axis for axis, (size, full) in enumerate(zip(shape, whole, strict=True)) if size != full]
        if not spread or any(size != 1 for size in shape[spread[0] : spread[-1] + 1]):
            return False
        inner = _spread_inner(carrier) == math.prod(shape[spread[-1] + 1 :])
        return inner and math.prod(whole) == self._slots[carrier.arguments[0]].desc.size

    def _are_in_step(self, step: Step, other: Step, carrier: Step) -> bool:
        """Whether what one of two steps writes and the other touches is read or written at the same pace by both."""
        common = self._conflicts(step, other)
        return all(
            not self._slots[n].is_window and (self._is_whole(user, n) or self._is_spread(n, user, carrier))
            for user in (step, other)
            if user is not carrier
            for n in user.arguments
            if n >= 0 and self._slots[n].memory in common
        )

    def _is_same(self, one: int, other: int) -> bool:
        """Whether two slots show the same elements of one memory."""
        if one < 0:
            return False
        first, second = self._slots[one], self._slots[other]
        if first.is_window or second.is_window or first.memory != second.memory:
            return False
        return first.desc.size == second.desc.size and first.desc.dtype == second.desc.dtype

    def _is_free(self, step: Step, carrier: Step, word: int) -> bool:
        """Whether a carrier can call a step by a word, as far as the two and those that it calls already matter."""
        assert carrier.native is not None and step.native is not None
        if step.carrier is not None or any(carried.word == word for carried in carrier.carried):
            return False
        if step.executor is not carrier.executor or step.native.parts > 1 >= carrier.native.most_parts:
            return False  # run by another loop; or the carrier is for one thread, the step for several
        return all(self._are_in_step(step, carried.step, carrier) for carried in carrier.carried)

    def _may_join(self, step: Step, carrier: Step, number: int, position: int, word: int) -> bool:
        """Whether nothing but the slot that connects the two is written by one and touched by the other."""
        assert carrier.native is not None
        if not self._is_free(step, carrier, word):
            return False
        memory = self._slots[number].memory
        # Writing the output overwrites an input that has the same memory.
        same = {
            position,
            *(p for p, output in carrier.native.in_place.items() if carrier.input_count + output == position),
        }
        others = [n for p, n in enumerate(carrier.arguments) if p not in same and n >= 0]
        if any(self._slots[n].memory == memory for n in others) or self._has_window(step, memory):
            return False
        common = self._conflicts(step, carrier)
        return common == {memory}

    def _has_window(self, step: Step, memory: int) -> bool:
        """Whether a step reads other elements of a memory than those in its own place."""
        slots = (self._slots[n] for n in step.arguments if n >= 0)
        return any(slot.is_window and slot.memory == memory for slot in slots)

    def _touched(self, step: Step) -> tuple[set[int], set[int]]:
        """The memories that a step reads, and those that it writes."""
        found = self._known_touched.get(step)
        if found is None:
            count, slots = step.input_count, self._slots
            reads = {slots[n].memory for n in step.arguments[:count] if n >= 0}
            writes = {slots[n].memory for n in step.arguments[count:] if n >= 0}
            writes.update([slots[step.arguments[position]].memory for position in step.node.changed])
            found = self._known_touched[step] = reads, writes
        return found

    def _conflicts(self, one: Step, other: Step) -> set[int]:
        """The memories that one of two steps writes and the other touches."""
        (reads, writes), (other_reads, other_writes) = self._touched(one), self._touched(other)
        return writes & (other_reads | other_writes) | other_writes & reads

    def _are_independent(self, one: Step, other: Step) -> bool:
        """Whether there are no such memories."""
        (reads, writes), (other_reads, other_writes) = self._touched(one), self._touched(other)
        return writes.isdisjoint(other_reads) and writes.isdisjoint(other_writes) and other_writes.isdisjoint(reads)

    def _join(self, first: Step, second: Step) -> bool:
        """Make one unit of those of two steps, where one of them can move to the other."""
        unit, other = self._unit_of[first], self._unit_of[second]
        start, end = self._index[id(unit)], self._index[id(other)]
        if not start < end <= start + _SEARCH_LIMIT:
            return False
        between = [step for passed in self.order[start + 1 : end] for step in passed]
        if not self._can_pass(unit, between):
            if not self._can_pass(other, between):
                return False
            end = start
        kept, left = (unit, other) if end == start else (other, unit)
        kept[:] = [*unit, *other]
        left.clear()  # an empty unit stays in the order, so that indices of the others hold
        for step in kept:
            self._unit_of[step] = kept
        return True

    def _can_pass(self, unit: Sequence[Step], others: Sequence[Step]) -> bool:
        """Whether steps may run on the other side of others: none is code of the user, none depends on the other."""
        for other in others:
            if other.node.spec is not None and other.node.spec.opaque:
                return False
            if not all(self._are_independent(step, other) for step in unit):
                return False
        return True

    def _keep_ranges(self, number: int, share_bytes: int, step: Step, carrier: Step) -> bool:
        """Of a value that only the two steps know, have only ranges in memory, if that is smaller."""
        assert step.native is not None and carrier.native is not None
        slot = self._slots[number]
        # As many shares as there can be: a step that is attached later may ask for more than there are now.
        range_bytes = share_bytes * carrier.native.most_parts
        alike = self._slots_in[slot.memory]
        if slot.desc.nbytes <= range_bytes or len(step.native.block) > RANGE_BLOCK_WORDS:
            return False
        if set(self._users[slot.memory]) != {step, carrier} or any(item.source[0] != "internal" for item in alike):
            return False
        for item in alike:
            item.range_bytes = range_bytes
        carrier.carried[-1].ranged = step.arguments.index(number, step.input_count)
        return True

    def _share(self, number: int, other: int, step: Step, carrier: Step) -> None:
        """Keep a value that only the two steps know in the memory of another, if that has its size."""
        slot, target = self._slots[number], self._slots[other]
        if target.is_window:
            return
        memory = slot.memory
        if set(self._users[memory]) != {step, carrier} or slot.desc.nbytes != target.desc.nbytes:
            return
        if any(item.source[0] != "internal" for item in self._slots_in[memory]):
            return
        if any(target.memory in self._touched(near)[0] for near in self._unit_of[carrier]):
            return  # as a gradient that is added to: what it held is still to be read
        for user in self._users[memory]:
            self._known_touched.pop(user, None)
        for item in self._slots_in.pop(memory):
            item.memory = target.memory
            self._slots_in[target.memory].append(item)
        for known_to in (self._users, self._carriers):
            merged = [*known_to.get(target.memory, ()), *known_to.pop(memory, ())]
            known_to[target.memory] = list(dict.fromkeys(merged))
