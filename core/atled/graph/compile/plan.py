"""Plans: what graphs are compiled to, steps over slots; without data, one for all graphs of one structure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import numpy as np

from atled.arrays.place import HOST, Place
from atled.arrays.storage import ALIGNMENT
from atled.call import Pack, RangeWord, RowWord
from atled.graph.compile import packing
from atled.graph.compile.bounding import bounds_behind
from atled.graph.compile.memory import lay_out_arenas, pieces_during_run
from atled.graph.compile.segments import Segment, segments_of
from atled.graph.compile.step import Slot, Step
from atled.graph.compile.words import words_by_place
from atled.graph.nodes.ir import Graph
from atled.limits.sizes import in_units
from atled.named_tuple import NamedTuple


class PackedInput(NamedTuple):
    """A form of an outside array that a step would like to be given ready-made.

    slot: of the array.  word: of `Plan.block`, which receives its address or stays 0.
    memory: number by which those who run the plan on addresses give it, beyond the memories of slots and workspace.
    """

    step: Step
    pack: Pack
    slot: int
    word: int
    memory: int


class Plan:
    """Steps and slots of one graph structure; holds no data and is shared by all graphs of that structure.

    requests: per external slot (outside array, place, dtype).
    is_on_host: whether all slots are in host memory.
    targets: per result the slot that holds it; -1 for one that is not computed, because nobody needs it.
    written: outside arrays that steps change in place, with the place and dtype of the copy that is changed.
    workspaces: per memory the bytes of workspace that the steps there share; not where there are arenas.
    arenas: per device the layout of what is needed only during a run.
    fallbacks: per step that is a fallback, its number; `owners`: per transfer, by step number, the fallback for which
        it is made.  feeds: per external slot that only a fallback reads, the step of that fallback.
    floats: where each float comes from.  words: by device where floats and random states are in its table.
    block: (words,) int64; the argument blocks of all native steps in a row, addresses still 0.
    packs: forms of outside arrays that no step writes, of which steps make use where they are kept.
    address_offsets: per address of a block the bytes from the begin of its memory on; None where all are 0.
    rows: (rows, len(RowWord)) int64; a row for each step that no other one carries.
    image: (words,) int64; all blocks, and the rows behind them, which a binding copies.
    largest_first: per target with a slot its number and that slot, in the order of their bytes.
    random_states: the slots of random states that go on once per run.  drawn_inside: those that go on in steps of
        loops, and in branches: as often as bodies run.  changed: the outside arrays that steps change, in order.
    runs_user_code: whether some step does.
    states: the slots of outside arrays in host memory that steps move before something that may fail has run, or before
        the first update; updates apart, which run behind what may fail.
    first_update: the number of the first step that is an update, or computes one on the way; -1 without any.
    moving: the number of its segment, and of its row.
    is_in_parts: whether formulas that were not compiled are in parts, or steps of their own: it is for one run.
    """

    def __init__(self, slots: list[Slot], steps: list[Step], graph: Graph, targets: list[int]) -> None:
        self.slots = slots
        self.steps = steps
        self.floats = list(graph.floats)
        self.is_in_parts = graph.is_in_parts
        self.targets = targets
        self.requests = self._requests()
        self.is_on_host = all(slot.place is HOST for slot in slots)
        self.memory_count = 1 + max([slot.memory for slot in slots], default=-1)
        self.workspaces = self._workspaces()
        self.arenas = {} if self.is_on_host else lay_out_arenas(slots, steps)
        self.written = self._written()
        self._find_what_bindings_need()
        for step in steps:
            step.queue = self._queue_of(step)
        self.words = words_by_place(steps, self.floats)
        self.segments = segments_of(steps)
        self.fallbacks = [number for number, step in enumerate(steps) if step.is_fallback]
        self.owners, self.feeds = self._causes() if self.fallbacks else ({}, {})
        self._lay_out_blocks()
        self.moving = self._moving()
        self._inner: tuple[Mapping[int, tuple[int, int]], int] | None = None

    def _requests(self) -> list[tuple[int, Place, np.dtype, int]]:
        """Per external slot: outside array, place, dtype, slot."""
        return [
            (slot.source[1], slot.place, slot.desc.dtype, number)
            for number, slot in enumerate(self.slots)
            if slot.source[0] == "external"
        ]

    def inner_memories(self) -> tuple[Mapping[int, tuple[int, int]], int]:
        """Where the memories lie that nobody sees behind a run in host memory: offset and bytes of each, and of all.

        Those of other times are in one place, so that caches hold what the next steps read.
        """
        if self._inner is None:
            seen = {slot.memory for slot in self.slots if slot.source[0] != "internal"}
            pieces = pieces_during_run(self.slots, self.steps, seen)
            offsets, nbytes = packing.pack(list(pieces.values()), ALIGNMENT)
            places = zip(offsets, pieces.items(), strict=True)
            self._inner = {memory: (offset, piece.nbytes) for offset, (memory, piece) in places}, nbytes
        return self._inner

    def _written(self) -> frozenset[tuple[int, Place, np.dtype]]:
        written: set[tuple[int, Place, np.dtype]] = set()
        for step in self.steps:
            slots = [self.slots[step.arguments[position]] for position in step.node.changed]
            slots += [self.slots[number] for number in step.arguments[step.input_count :] if number >= 0]
            written.update((s.source[1], s.place, s.desc.dtype) for s in slots if s.source[0] == "external")
        return frozenset(written)

    def _find_what_bindings_need(self) -> None:
        """Find what would be found again by each binding, of which graphs that are built at every step make many."""
        slots, steps = self.slots, self.steps
        computed = [(position, number) for position, number in enumerate(self.targets) if number >= 0]
        self.largest_first = sorted(computed, key=lambda pair: -slots[pair[1]].desc.nbytes)
        self.random_states = [step.random_slot for step in steps if step.random_slot >= 0]
        self.drawn_inside = [slot for step in steps if step.random_slot < 0 for slot in step.draws]
        drawn = {slots[slot].source[1] for step in steps for slot in step.draws}
        self.changed = sorted({number for number, _, _ in self.written} | drawn)
        self.runs_user_code = any(step.node.spec is not None and step.node.spec.opaque for step in steps)
        self.first_update = self._first_update()
        self.states = self._states()

    def _states(self) -> list[int]:
        found: dict[int, None] = {}
        # Behind the last step that may fail, or behind which an interrupt ends the run.
        last = max((number for number, step in enumerate(self.steps) if step.may_fail), default=-1)
        last = max(last, self.first_update - 1)
        for step in self.steps[: last + 1]:
            for number in step.moved_states:
                slot = self.slots[number]
                if slot.source[0] == "external" and slot.place is HOST and not slot.is_window:
                    found[number] = None
        return list(found)

    def _first_update(self) -> int:
        moving = {step.carrier or step for step in self.steps if step.is_update}
        return next((number for number, step in enumerate(self.steps) if step in moving), -1)

    def _moving(self) -> tuple[int, int] | None:
        number = self.first_update
        if number < 0:
            return None
        ends = [segment.first + len(segment.steps) for segment in self.segments]
        return bisect_right(ends, number), bisect_left(self._launched, number)

    def _workspaces(self) -> dict[Place, int]:
        needed: dict[Place, int] = {}
        for step in self.steps:
            if step.workspace and not (place := self.place_of(step)).has_parts:
                needed[place] = max(needed.get(place, 0), step.workspace)
        return needed

    def place_of(self, step: Step) -> Place:
        """The memory in which an op computes: that of what it writes."""
        return self.slots[step.written[0]].place

    def _queue_of(self, step: Step) -> Place | None:
        """The device into whose queue a step can be put without a number from the host."""
        prepared = step.prepared
        if prepared is None or not prepared.queued:
            return None
        if prepared.bind is None:
            varies = step.random_slot >= 0 or any(self.floats[number][0] != "constant" for number in step.floats)
            if varies:
                return None
        place = self.place_of(step)
        return None if place is HOST else place

    def _causes(self) -> tuple[dict[int, int], dict[int, int]]:
        """Which fallback causes each copy between memories: the one that made the array, else the one that reads it."""
        fallbacks = set(self.fallbacks)
        made: dict[int, int] = {}  # memory -> the step that wrote it last
        waiting: dict[int, int] = {}  # memory -> the transfer into it whose cause is not found yet
        readers: dict[int, list[int]] = {}
        owners: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            memories = [-1 if slot < 0 else self.slots[slot].memory for slot in step.arguments]
            for memory in memories[: step.input_count]:
                readers.setdefault(memory, []).append(number)
                if number in fallbacks and memory in waiting:
                    owners[waiting.pop(memory)] = number
            for memory in memories[step.input_count :]:
                waiting.pop(memory, None)
            if step.node.spec is None:
                source, target = memories
                if made.get(source, -1) in fallbacks:
                    owners[number] = made[source]
                else:
                    waiting[target] = number
            made.update((memory, number) for memory in memories[step.input_count :])
        feeds: dict[int, int] = {}
        for _, _, _, slot in self.requests:
            reading = readers.get(self.slots[slot].memory, [])
            if reading and fallbacks.issuperset(reading):
                feeds[slot] = reading[0]
        return owners, feeds

    def places_to_look_at(self) -> list[list[Place]]:
        """Per segment the devices on which something before it may have failed, and whose flag it does not see.

        Those that changes of arrays elsewhere must not run behind.
        """
        if self.is_on_host:
            return [[] for _ in self.segments]
        found: list[list[Place]] = []
        failing: dict[Place, None] = {}
        for segment in self.segments:
            changing = {self.place_of(step) for step in segment.steps if step.changes_arrays}
            found.append([place for place in failing if changing - {place}])
            failing.update((self.place_of(step), None) for step in segment.steps if step.culprit is not None)
        return found

    def segment_of(self, number: int) -> Segment:
        """The segment of one step that no other one carries."""
        return segments_of([self.steps[number]], number, bisect_left(self._launched, number))[0]

    @property
    def completed(self) -> list[int]:
        """Per target the number of the segment behind which it has its values: then others may use a gradient."""
        numbers = {step: number for number, step in enumerate(self.steps)}
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            # A carried one runs with its carrier, which may stand before or behind it.
            ran = number if step.carrier is None else max(number, numbers[step.carrier])
            for slot in step.written:
                last[self.slots[slot].memory] = ran
        ends = [segment.first + len(segment.steps) for segment in self.segments]
        # What no step writes is there from the start.
        return [bisect_left(ends, last.get(self.slots[slot].memory, 0) + 1) for slot in self.targets if slot >= 0]

    def _lay_out_blocks(self) -> None:
        """Join all argument blocks to one array, with index arrays for the words of addresses and of floats."""
        blocks: list[np.ndarray] = []
        self.block_offsets: list[int] = []
        address_words: list[int] = []
        address_memories: list[int] = []
        address_offsets: list[int] = []
        float_words: list[int] = []
        float_numbers: list[int] = []
        # Per slot its memory, -1 for none, and the bytes of that in front of it.
        beginnings = [(slot.memory, slot.offset and slot.offset * slot.desc.dtype.itemsize) for slot in self.slots]
        beginnings.append((-1, 0))
        offset = 0
        for step in self.steps:
            self.block_offsets.append(offset)
            native = step.native
            if native is None:
                continue
            places = [beginnings[slot] for slot in step.arguments]  # that of -1 is the last one
            if step.workspace:
                places.append((self.memory_count, 0))
            for word, (memory, begin) in zip(native.arguments, places, strict=True):
                if word >= 0 and memory >= 0:
                    address_words.append(offset + word)
                    address_memories.append(memory)
                    address_offsets.append(begin)
            if step.floats:
                assert step.node.spec is not None
                for name, number in zip(step.node.spec.float_names, step.floats, strict=True):
                    word = native.attributes.get(name, -1)
                    if word >= 0:
                        float_words.append(offset + word)
                        float_numbers.append(number)
            blocks.append(np.asarray(native.block, np.int64))
            offset += len(native.block)
        self.block = np.concatenate(blocks) if blocks else np.empty(0, np.int64)
        self.address_words = np.array(address_words, np.intp)
        self.address_memories = np.array(address_memories, np.intp)
        self.address_offsets = np.array(address_offsets, np.int64) if any(address_offsets) else None
        self.float_words = np.array(float_words, np.intp)
        self.float_numbers = np.array(float_numbers, np.intp)
        self.packs = self._packed()
        self._link_carried()
        self._lay_out_rows()

    def _packed(self) -> list[PackedInput]:
        asking = [step for step in self.steps if step.native is not None and step.prepared and step.prepared.packs]
        if not asking:
            return []
        written = {self.slots[number].memory for step in self.steps for number in step.written}
        offsets = dict(zip(self.steps, self.block_offsets, strict=True))
        found: list[PackedInput] = []
        for step in asking:
            assert step.prepared is not None
            for pack in step.prepared.packs:
                number = step.arguments[pack.input]
                slot = self.slots[number]
                if slot.source[0] == "external" and not slot.is_window and slot.memory not in written:
                    memory = self.memory_count + 1 + len(found)
                    found.append(PackedInput(step, pack, number, offsets[step] + pack.word, memory))
        return found

    def _link_carried(self) -> None:
        """Tell carriers the kernels that they call; where their blocks are is known at binding."""
        offsets = dict(zip(self.steps, self.block_offsets, strict=True))
        words: list[int] = []
        targets: list[int] = []
        for step in self.steps:
            for carried in step.carried:
                bounds = bounds_behind(step, carried, self.slots)
                if bounds is not None:
                    carried.bounds, values = bounds
                    word = offsets[step] + carried.bounds
                    self.block[word : word + 2] = values
                    continue
                word = offsets[step] + carried.word
                native = carried.step.native
                assert native is not None and native.ranges is not None
                self.block[word + RangeWord.KERNEL] = native.ranges()
                if carried.ranged >= 0:
                    self.block[word + RangeWord.BLOCK_WORDS] = len(native.block)
                    self.block[word + RangeWord.ADDRESS_WORD] = native.arguments[carried.ranged]
                words.append(word + RangeWord.BLOCK)
                targets.append(offsets[carried.step] * 8)
        self.link_words = np.array(words, np.intp)
        self.link_offsets = np.array(targets, np.int64)

    def _lay_out_rows(self) -> None:
        """A row for each step that is not carried by another one."""
        self._launched = [number for number, step in enumerate(self.steps) if step.carrier is None]
        self.rows = np.zeros((len(self._launched), len(RowWord)), np.int64)
        found = [(row, step) for row, n in enumerate(self._launched) if (step := self.steps[n]).native is not None]
        if found:
            rows = [row for row, _ in found]
            natives = [step.native for _, step in found if step.native is not None]
            self.rows[rows, RowWord.KERNEL] = [native.address for native in natives]
            self.rows[rows, RowWord.BLOCK] = [self.block_offsets[self._launched[row]] * 8 for row in rows]
            self.rows[rows, RowWord.PARTS] = [step.parts for _, step in found]
        self.image = np.concatenate((self.block, self.rows.reshape(-1)))

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        names = [step.name for step in self.steps]
        return f"a plan of {len(names)} steps, {names[0]} to {names[-1]}"

    def __str__(self) -> str:
        lines = [f"plan: {len(self.steps)} steps, {len(self.slots)} arrays in {self.memory_count} memories"]
        for place, layout in self.arenas.items():
            lines.append(f"  {len(layout.memories)} of them in {in_units(layout.nbytes)} on {place}")
        starts = {segment.first: segment for segment in self.segments}
        for number, step in enumerate(self.steps):
            if number in starts:
                lines.append(f"  {starts[number].text}")
            inputs = " ".join(self._name(slot) for slot in step.arguments[: step.input_count])
            outputs = " ".join(self._name(slot) for slot in step.arguments[step.input_count :])
            said = [step.note] if step.note else []
            said += [] if step.carrier is None else [f"computed within {step.carrier.label}"]
            note = f"  ({'; '.join(said)})" if said else ""
            lines.append(f"    {number:3d} {step.name:<24s} {step.backend:<10s} {inputs} -> {outputs}{note}")
        return "\n".join(lines)

    def _name(self, number: int) -> str:
        if number < 0:
            return "-"
        slot = self.slots[number]
        mark = {"external": "in", "target": "out", "internal": "tmp"}[slot.source[0]]
        kept = f" in {slot.range_bytes} bytes" if slot.range_bytes else ""
        return f"{mark}{slot.memory}:{slot.desc}{kept}"
