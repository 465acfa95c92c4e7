"""Binding: a plan with storages for its slots and addresses in its argument blocks, and how its steps run."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from atled.arrays.arena import Arena, Free
from atled.arrays.cell import UNWRITTEN, ArrayCell, Storage, Use
from atled.arrays.epoch import EPOCH, WRITES
from atled.arrays.failures import EXPECTING, Flag, Undo
from atled.arrays.place import HOST, DevicePart, DeviceStorage, Place
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.call import RangeWord, RowWord
from atled.errors import DeviceLostError
from atled.graph.compile.native_errors import error_in_row
from atled.graph.compile.plan import Plan
from atled.graph.compile.segments import DeviceSegment, NativeSegment
from atled.graph.compile.step import Slot, Step
from atled.graph.nodes.dispatch import has_bodies
from atled.graph.run.arenas import arena_for
from atled.graph.run.gradients import count_as_written
from atled.graph.run.launching import launch_of
from atled.graph.run.observed import run_observed
from atled.graph.run.packs import Packs, wanted
from atled.graph.run.programs import QueuedSteps, Readiness
from atled.graph.run.shared_workspace import SharedWorkspace, aligned, shared_workspace
from atled.graph.run.states import as_bytes, restore, saved
from atled.graph.run.travelling import Travelling, Travels
from atled.graph.run.user_code import LockOfUserCode
from atled.graph.run.words import Table
from atled_contexts import count_fallback, is_observed, lock_across_forks
from atled_contexts.signals import handlers_wait

_BYTE = np.dtype(np.uint8)
_READ, _WRITTEN = Use.READ, Use.WRITTEN
_NO_OTHERS: Mapping[int, np.ndarray] = {}


class LastRun:
    """When the plans of some roots ran last: a number of `atled.arrays.epoch.WRITES`, 0 while they never did."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class Progress:
    """How far a run of updates got.

    is_complete: whether all that it moves has moved; else nothing has, but where one of several steps in Python failed.
    """

    is_complete = False


class Binding:
    """One plan with the arrays of one graph, and what it was made from, which tells whether it still holds.

    cells: the outside arrays by number.  results: the array that each target becomes; None for a buffer of our own.
    floats: the value of each float, in the plan's order.
    key: of what it is a binding for.
    epoch: at the begin of binding, so that a change by another thread meanwhile is seen by the next run.
    gradients: results that stay UNWRITTEN until a run has ended well: a solver must not use what a failed one left.
    last_run: where the runs are to be noted, None where nothing depends on it.
    first_run: number of the writes before a run on these arrays without a binding, 0 if there was none.
    reads_constants: whether some of the arrays are constants, which are not to be dropped for packs of this plan.

    A binding owns references to all its storages and is locked while it runs: code of the user in it cannot run it.

    Arrays that never left host memory are trusted to keep their head: what replaces it raises the epoch, and a run
    costs nothing for them. Those that travel between memories are looked at before each run, and told of their new
    values after it, until they have stayed on a device for a while (`Travels`); binding changes neither their head nor
    their values.
    """

    def __init__(
        self,
        plan: Plan,
        cells: Sequence[ArrayCell],
        results: Sequence[ArrayCell | None],
        floats: Sequence[float],
        *,
        key: Hashable = None,
        epoch: int = -1,
        gradients: Sequence[ArrayCell] = (),
        last_run: LastRun | None = None,
        reads_constants: bool = False,
        first_run: int = 0,
    ) -> None:
        self.plan = plan
        self._reads_constants = reads_constants
        self.key = key
        self.epoch = epoch
        self.gradients = tuple(gradients)
        self.last_run = last_run
        self.cells = list(cells)
        # Re-entrant, without an error, for the rest: a signal handler or a finalizer may run the graph amid its run.
        self._lock = LockOfUserCode() if plan.runs_user_code else lock_across_forks()
        self.floats = np.array(floats, np.float64)
        self._given_floats: list[float] | None = None  # those of the last `set_floats`, if that can be told again
        self._heads: list[tuple[ArrayCell, Storage]] = []
        self._written: list[ArrayCell] = []
        self._on_devices: Travels | None = None
        self._writes_known: frozenset[int] | None = None
        self._workspaces: dict[Place, Storage] = {}
        self._shared: SharedWorkspace | None = None
        self._whole_storages: dict[int, HostStorage] = {}
        self._storages: list[Storage | DevicePart | None] = [None] * (plan.memory_count + 1)
        self._arenas: Sequence[Arena] = ()  # kept alive
        self._workspaces_of: dict[Step, DevicePart] = {}
        self._free = self._bind_arenas()  # first: where there is no memory for it, no array is changed
        self._travelling = self._find_travelling(results)
        unwritten = [cell for cell in self.gradients if cell.pending is UNWRITTEN]
        self._bind_externals()
        self._bind_targets(results)
        for cell in unwritten:
            cell.pending = UNWRITTEN
        self._bind_internals()
        self._fill_blocks()
        # Looked for at the second run: graphs that are built again at every step run once.
        self._packs: Packs | None = None
        self._pack_addresses = [0] * len(plan.packs)
        self._first_run = first_run
        self.random_states = [self.array(slot) for slot in plan.random_states]
        self._drawn_inside = [self.array(slot) for slot in plan.drawn_inside]
        self._states = [as_bytes(self.array(slot)) for slot in plan.states]
        self._changed = [self.cells[number] for number in plan.changed]
        changing = set(self._changed)
        self._results = [cell for cell in results if cell is not None and cell not in changing]
        self._computed = self._sources()
        self._flags: dict[Place, Flag] = {}
        self._tables = {place: Table(self, words) for place, words in plan.words.items()}
        self._counted = self._count_updates()
        self._bind_segments()

    def _count_updates(self) -> list[tuple[Any, int, int]]:
        """Have the rows from the first update on counted, so that a run that a signal ends moves all or nothing.

        The segments of these rows, as executor, first row and the one behind the last; none where others run among
        them, during which the handlers of signals wait instead.
        """
        plan = self.plan
        self._first_moving = 0
        self._count: memoryview | None = None
        self._is_unparted = plan.moving is not None
        if plan.moving is None:
            return []
        number, row = plan.moving
        segments = [segment for segment in plan.segments[number:] if isinstance(segment, NativeSegment)]
        if len(segments) < len(plan.segments) - number or any(plan.places_to_look_at()[number + 1 :]):
            return []
        count = np.zeros(1, np.int64)
        self._rows[row:, RowWord.COUNT] = count.ctypes.data
        self._count = count.data
        self._is_unparted = False
        return [(segment.steps[0].executor, max(row, segment.rows[0]), segment.rows[1]) for segment in segments]

    def _bind_segments(self) -> None:
        segments: list[Callable[[], None]] = []
        for number, (segment, places) in enumerate(zip(self.plan.segments, self.plan.places_to_look_at(), strict=True)):
            segments += [place.failures.look for place in places]
            if self.plan.moving is not None and number == self.plan.moving[0]:
                self._first_moving = len(segments)
            segments.append(segment.bind(self))
        queued = [segment for segment in segments if isinstance(segment, QueuedSteps)]
        self._ready = Readiness(queued, list(self._tables.values())) if queued else None
        self._segments = segments

    def flag(self, place: Place) -> Flag:
        """The flag of a device, for as long as there is this binding."""
        return self._flags.get(place) or self._flags.setdefault(place, place.failures.flag())

    def remember(self, key: Hashable, undo: Undo) -> None:
        """Have a count that went on with the last run go back if the next wait finds that something failed.

        `undo` holds no storage: it is kept until then.
        """
        for place in self._flags:
            place.failures.remember(key, undo)

    def queued(self, segment: DeviceSegment) -> Callable[[], None]:
        """What puts the steps of a segment into the queue of their device."""
        return QueuedSteps(self, segment, self._tables.get(segment.place))

    def _find_travelling(self, results: Sequence[ArrayCell | None]) -> set[int]:
        """The identities of the arrays that this plan uses on a device, whether or not also elsewhere."""
        plan = self.plan
        if plan.is_on_host:
            return set()
        found = {id(self.cells[number]) for number, place, _, _ in plan.requests if place is not HOST}
        for cell, number in zip(results, plan.targets, strict=True):
            if number >= 0 and plan.slots[number].place is not HOST:
                found.add(id(cell))
        return found

    def _travels(self, cell: ArrayCell) -> bool:
        return id(cell) in self._travelling or cell.travels

    def _travel(self, *where: Any, **how: Any) -> None:  # Any: the arguments of Travelling
        if self._on_devices is None:
            self._on_devices = Travels()
        self._on_devices.add(Travelling(*where, **how))

    def _bind_externals(self) -> None:
        plan = self.plan
        if self._travelling:
            # First: to compute one value makes others on the way, in memory of their own.
            for number, *_ in plan.requests:
                if self.cells[number].is_unstored:
                    self.cells[number].settle()
        for number, place, dtype, slot in plan.requests:
            cell = self.cells[number]
            is_changed = (number, place, dtype) in plan.written
            if self._travels(cell):
                storage = cell.reserve(place, dtype)
                cause = plan.feeds.get(slot, -1)
                self._travel(cell, place, dtype, storage, is_read=True, is_written=is_changed, cause=cause)
            else:
                storage = cell.move(place, dtype)
                cell.use = _WRITTEN if is_changed else cell.use or _READ
                self._heads.append((cell, storage))
                if is_changed:
                    self._written.append(cell)
            self._storages[plan.slots[slot].memory] = storage

    def _bind_targets(self, results: Sequence[ArrayCell | None]) -> None:
        plan = self.plan
        for cell, number in zip(results, plan.targets, strict=True):
            if number < 0 and cell is not None:
                cell.leave_out()
        # The largest first: what is small finds room between others.
        for position, number in plan.largest_first:
            cell, slot = results[position], plan.slots[number]
            if cell is None or slot.source[0] != "target":
                continue
            place, dtype = slot.place, slot.desc.dtype
            if cell.is_unstored:
                announce((id(cell),))
                EPOCH.bump()  # another plan computes it without storing it: from now on that one has to
            if self._travels(cell):
                storage = cell.reserve(place, dtype)
                self._travel(cell, place, dtype, storage, is_read=False, is_written=True)
            else:
                storage = cell.target(place, dtype)
                cell.use = _WRITTEN
                self._heads.append((cell, storage))
                self._written.append(cell)
            self._storages[slot.memory] = storage

    def holds(self, key: Hashable, cells: Sequence[ArrayCell], epoch: int) -> bool:
        """Whether it can be used for what has this key and these cells; if so, it takes the given epoch.

        epoch: before key and cells were looked at.
        """
        if self.key != key or len(cells) != len(self.cells) or not self._is_current():
            return False
        if any(mine is not theirs for mine, theirs in zip(self.cells, cells, strict=True)):
            return False
        self.epoch = epoch
        return True

    def _is_current(self) -> bool:
        """Whether every array still has the storage that is used here; if so, each has the `use` of this plan again."""
        if any(cell.storage is not storage or cell.travels for cell, storage in self._heads):
            return False
        if self._on_devices is not None and not self._on_devices.is_current:
            return False
        self._computed = self._sources()
        spared = set(map(id, self.gradients))
        for cell in self._written:
            cell.use = _WRITTEN
        for cell, _ in self._heads:
            cell.use = cell.use or _READ
            if cell.pending is not None and id(cell) not in spared:
                cell.settle()
        return True

    def _sources(self) -> list[ArrayCell]:
        """The results of which others keep what they compute."""
        return [cell for cell in self._results if cell.is_source]

    def _bind_arenas(self) -> list[bool] | Free | None:
        """Give what is needed only during a run its memory in the arenas that this thread has; see `Arena.free`."""
        layouts = self.plan.arenas
        arenas = [arena_for(self.plan, place) for place in layouts]
        # New ones: amid a run on the former arenas, code may run the plan again.
        self._storages, self._workspaces_of = list(self._storages), {}
        for arena, layout in zip(arenas, layouts.values(), strict=True):
            for memory, part in layout.memories.items():
                self._storages[memory] = DevicePart(arena.storage, *part)
            for step, part in layout.workspaces.items():
                self._workspaces_of[step] = DevicePart(arena.storage, *part)
        self._arenas = arenas
        return None if not arenas else arenas[0].free if len(arenas) == 1 else Free(arenas)

    def _moved(self) -> list[bool] | Free:
        """Bind all to the arenas that this thread has, because one is in use, or outgrown; they are taken then."""
        before = self._arenas, self._storages, self._workspaces_of
        try:
            free = self._taken()
            try:
                self._bind_segments()
            except BaseException:
                free.append(True)
                raise
        except BaseException:
            self._arenas, self._storages, self._workspaces_of = before
            raise
        self._free = free
        return free

    def _taken(self) -> list[bool] | Free:
        while True:
            free = self._bind_arenas()
            assert free is not None
            with contextlib.suppress(IndexError):  # another thread was quicker
                free.pop()
                return free

    def _bind_internals(self) -> None:
        plan = self.plan
        workspace_bytes = plan.workspaces.get(HOST, 0)
        inner: Mapping[int, tuple[int, int]] = {}
        if self._runs_alone:
            first = aligned(workspace_bytes)
            inner, inner_bytes = plan.inner_memories()
            workspace_bytes = first + inner_bytes
        for slot in plan.slots:
            if self._storages[slot.memory] is not None or slot.memory in inner:
                continue
            if slot.place is HOST:
                self._storages[slot.memory] = HostStorage(slot.nbytes)
            else:
                self._storages[slot.memory] = DeviceStorage(slot.place, slot.desc.size, slot.desc.dtype)
        if workspace_bytes:
            self._shared = shared_workspace(workspace_bytes)
            self._storages[plan.memory_count] = self._workspaces[HOST] = self._shared.storage
            for memory, (offset, nbytes) in inner.items():
                self._storages[memory] = self._shared.part(first + offset, nbytes)
        for place, nbytes in plan.workspaces.items():
            if place is not HOST:
                self._workspaces[place] = DeviceStorage(place, nbytes, _BYTE)

    @property
    def _runs_alone(self) -> bool:
        """Whether the plan is one native program that holds the workspace: then its values may be in there, too.

        Not without a workspace: such plans of one thread may be run by several at once.
        """
        plan = self.plan
        return (
            plan.is_on_host and HOST in plan.workspaces and [segment.is_native for segment in plan.segments] == [True]
        )

    def _fill_blocks(self) -> None:
        plan = self.plan
        image, count = plan.image.copy(), len(plan.block)
        begin = image.ctypes.data  # asked for once: it takes a microsecond
        self._block, self._rows = image[:count], image[count:].reshape(plan.rows.shape)
        if count:
            addresses = np.array(
                [storage.address if isinstance(storage, HostStorage) else 0 for storage in self._storages], np.int64
            )[plan.address_memories]
            self._block[plan.address_words] = (
                addresses if plan.address_offsets is None else addresses + plan.address_offsets
            )
            if len(plan.link_words):
                self._block[plan.link_words] = begin + plan.link_offsets
        self._rows[:, RowWord.BLOCK] += begin
        self.rows_address = begin + 8 * count
        self._set_floats()

    def _set_floats(self) -> None:
        plan = self.plan
        if len(plan.float_words):
            self._block.view(np.float64)[plan.float_words] = self.floats[plan.float_numbers]

    def _wanted_packs(self) -> Packs:
        """The packs of the plan; none at all where an array of them travels."""
        found = []
        for packed in self.plan.packs:
            slot = self.plan.slots[packed.slot]
            cell, storage = self.cells[slot.source[1]], self._storages[slot.memory]
            if isinstance(storage, HostStorage) and not self._travels(cell):
                source = partial(_address_of, storage)
                found.append(wanted(packed, (cell,), source, seen=self._first_run))
        before = self._first_run if self._reads_constants else 0
        return Packs(found if len(found) == len(self.plan.packs) else (), before)

    def _put_packs(self) -> object:
        """Give the kernels the packs that are kept; what is to be kept alive during the run."""
        if not self._first_run:
            self._first_run = next(WRITES)
            return None
        packs = self._packs
        if packs is None:
            packs = self._packs = self._wanted_packs()
        held = packs.take()
        addresses = [0 if storage is None else storage.address for storage in held] or [0] * len(self._pack_addresses)
        if addresses != self._pack_addresses:
            self._pack_addresses = addresses
            for packed, address in zip(self.plan.packs, addresses, strict=True):
                self._block[packed.word] = address
        return held

    def set_floats(self, values: Sequence[float] | np.ndarray) -> None:
        """Give the floats new values, in the plan's order; fewer are given again and again."""
        if type(values) is list and values == self._given_floats:
            return
        self._given_floats = None  # what interrupts this leaves some of the former ones
        if values is not self.floats:
            (self.floats if len(values) == len(self.floats) else self.floats.reshape(-1, len(values)))[:] = values
        self._set_floats()
        if type(values) is list and 0.0 not in values:  # zeros have signs
            self._given_floats = values[:]

    def array(self, number: int) -> Any:  # Any: NumPy or the device's own array type
        """The array of a slot, as the steps see it."""
        slot = self.plan.slots[number]
        storage = self._whole(slot) if slot.range_bytes else self._storages[slot.memory]
        assert storage is not None
        return slot.array_in(storage)

    def storage(self, number: int) -> Storage:
        """The memory of a slot that user code is given: nothing that is shared."""
        storage = self._storages[self.plan.slots[number].memory]
        assert storage is not None and not isinstance(storage, DevicePart)
        return storage

    def workspace(self, step: Step) -> Storage | DevicePart:
        """The workspace of a step."""
        return self._workspaces_of.get(step) or self._workspaces[self.plan.place_of(step)]

    def _whole(self, slot: Slot) -> HostStorage:
        """Memory for the whole of a value of which programs have only ranges: for steps that run alone."""
        if slot.memory not in self._whole_storages:
            self._whole_storages[slot.memory] = HostStorage(slot.desc.nbytes)
        return self._whole_storages[slot.memory]

    def with_workspace(self, launch: Callable[[], None]) -> Callable[[], None]:
        """The same, with the workspace to itself."""
        if self._shared is None:
            return launch
        lock = self._shared.lock

        def run_alone() -> None:
            with lock:
                launch()

        return run_alone

    def launch(self, step: Step, others: Mapping[int, np.ndarray] = _NO_OTHERS) -> Callable[[], None]:
        """What runs a step in Python; others: as for `launch_alone`."""
        if has_bodies(step.node.spec):
            from atled.graph.run.loops import launch_of_bodies  # lazy: few graphs have loops

            return launch_of_bodies(self, step, Binding)
        return launch_of(self, step, others)

    def run(self, floats: Sequence[float] | np.ndarray | None = None, progress: Progress | None = None) -> None:
        """Run all steps. An error names op, backend and call; what was computed before it stays.

        What a handler of a signal raises comes before the first update, or when all is done.

        floats: new values of all floats, as for `set_floats`; None leaves them as they are.
        progress: is told how far a plan with updates got.
        """
        if WATCHES:
            announce(self.writes)
        with self._lock:
            if floats is not None:
                self.set_floats(floats)
            if self._on_devices is not None:
                self._on_devices.fetch()
            if self._pack_addresses:
                _held = self._put_packs()  # for as long as the kernels run
            free = self._free
            if free is not None:
                try:
                    free.pop()
                except IndexError:
                    free = self._moved()

            before = [state.copy() for state in self._drawn_inside] if self._drawn_inside else ()
            states = saved(self._states) if self._states else b""
            if progress is None and self.plan.moving is not None:
                progress = Progress()

            interruption: BaseException | None = None
            count = self._count
            if count is not None:  # that of a run which this one interrupts, as code of a handler of a signal may
                outer, count[0] = count[0], 0
            drawn = 0
            try:
                if self._changed or self._computed:
                    writer = threading.get_ident()
                    for cell in (*self._changed, *self._computed):
                        cell.writer = writer
                    next(WRITES)  # who sees that nothing was written meanwhile need not look at these
                for random_state in self.random_states:
                    random_state[1] += 1
                    drawn += 1
                if is_observed():
                    self._run_observed(progress or Progress())
                else:
                    if self._ready is not None and self._ready():
                        self._ready = None
                    if progress is not None and self._is_unparted:
                        self._run_unparted(progress)
                    else:
                        for segment in self._segments:
                            segment()
                if progress is not None:
                    progress.is_complete = True
            except BaseException as error:
                if progress is not None and self._is_complete(progress):
                    interruption = error
                else:
                    self._go_back(drawn, before, states)
                    if isinstance(error, DeviceLostError) and self._on_devices is not None:
                        self._on_devices.go_back()
                    raise
            finally:  # a run that fails, or is interrupted, may have changed them
                if free is not None:
                    free.append(True)
                if count is not None:
                    count[0] = outer
                if self._changed or self._computed:
                    version = next(WRITES)
                    for cell in self._changed:
                        cell.last_write = version
                        cell.writer = 0
                    for cell in self._computed:
                        cell.last_run = version
                        cell.writer = 0

            if EXPECTING and self.random_states:
                self.remember(id(self.random_states), partial(go_back, self.random_states))
            if self._on_devices is not None:
                self._on_devices.show()
            if self.plan.fallbacks:
                self._count_fallbacks()
            if self.gradients:
                count_as_written(self.gradients)
            if self.last_run is not None:
                self.last_run.number = next(WRITES)
            if interruption is not None:
                raise interruption

    def _go_back(self, drawn: int, drawn_inside: Sequence[np.ndarray], states: bytes) -> None:
        """Have random states and states of ops as they were before a run that failed.

        drawn: how many random states it has counted up.
        """
        go_back(self.random_states[:drawn], 1)
        for state, values in zip(self._drawn_inside, drawn_inside, strict=True):
            state[...] = values
        restore(self._states, states)

    def _run_observed(self, progress: Progress) -> None:
        if self._runs_alone:
            self.with_workspace(lambda: run_observed(self, progress))()  # values stay in it from step to step
        else:
            bound = copy.copy(self) if self._arenas else self  # what runs it amid this may have it moved
            run_observed(bound, progress)

    def _run_unparted(self, progress: Progress) -> None:
        """Run all segments, those from the first update on without handlers of signals in between."""
        for segment in self._segments[: self._first_moving]:
            segment()
        with handlers_wait():
            for segment in self._segments[self._first_moving :]:
                segment()
            progress.is_complete = True

    def _is_complete(self, progress: Progress) -> bool:
        """Whether all updates of a run that an error ended have run; if one has, the others do now.

        An error in a run with updates counted is one of a handler, or one of a step before them: they do not fail.
        """
        if progress.is_complete:
            return True
        done = 0 if self._count is None or is_observed() else self._count[0]
        if not done:
            return False
        lock = contextlib.nullcontext() if self._shared is None else self._shared.lock
        for executor, first, end in self._counted:
            begin = first + min(done, end - first)
            done -= begin - first
            with lock:
                if begin < end and executor.run_program(self.rows_address, begin, end):
                    return False
        progress.is_complete = True
        return True

    @property
    def writes(self) -> frozenset[int]:
        """The identities of the outside arrays that a run writes."""
        if self._writes_known is None:
            items = () if self._on_devices is None else self._on_devices.items
            cells = [*self._written, *self._changed, *(item.cell for item in items if item.is_written)]
            self._writes_known = frozenset(map(id, cells))
        return self._writes_known

    def _count_fallbacks(self) -> None:
        """Count each fallback of a run, with the bytes that were copied because of it."""
        plan = self.plan
        moved = dict.fromkeys(plan.fallbacks, 0)
        for number, cause in plan.owners.items():
            moved[cause] += plan.slots[plan.steps[number].arguments[1]].desc.nbytes
        for item in () if self._on_devices is None else self._on_devices.items:
            if item.cause >= 0:
                moved[item.cause] += item.moved
        for number, nbytes in moved.items():
            step = plan.steps[number]
            count_fallback(step.name, step.backend, bytes_moved=nbytes)

    def launch_of(self, number: int) -> Callable[[], None]:
        """What runs one step, with those that it carries."""
        return self.plan.segment_of(number).bind(self)

    def launch_alone(self, number: int, others: Mapping[int, np.ndarray] = _NO_OTHERS) -> Callable[[], None]:
        """What runs one step without those that it carries, or one that is carried without its carrier.

        others: arrays to use instead of the plan's, by position among the arguments; host memory only.
        """
        step = self.plan.steps[number]
        native = step.native
        if native is None and others:
            return self.launch(step, others)
        if native is None or (step.carrier is None and not step.carried and not others):
            return self.launch_of(number)
        offset = self.plan.block_offsets[number]
        block = self._block[offset : offset + len(native.block)].copy()
        for carried in step.carried:
            count = len(RangeWord) if carried.ranged >= 0 else RangeWord.BLOCK_WORDS
            block[carried.word : carried.word + count] = 0
            if carried.bounds >= 0:
                block[carried.bounds : carried.bounds + 2] = native.block[carried.bounds : carried.bounds + 2]
        for number, word in zip(step.arguments, native.arguments, strict=False):  # the workspace is no slot
            slot = self.plan.slots[number]
            if number >= 0 and word >= 0 and slot.range_bytes:
                block[word] = self._whole(slot).address
        for position, array in others.items():
            if native.arguments[position] >= 0:
                block[native.arguments[position]] = array.ctypes.data
        rows = np.zeros((1, len(RowWord)), np.int64)
        (row,) = rows
        row[RowWord.KERNEL] = native.address
        row[RowWord.BLOCK] = block.ctypes.data
        row[RowWord.PARTS] = native.parts

        def run_alone() -> None:
            assert row[RowWord.BLOCK] == block.ctypes.data and others is not None  # which keeps them alive, too
            status = step.executor.run_program(rows.ctypes.data, 0, 1)
            if status:
                raise error_in_row(step, status, rows.ctypes.data, 0)

        return self.with_workspace(run_alone)


def _address_of(storage: HostStorage) -> tuple[int, object]:
    return storage.address, storage


def go_back(random_states: Sequence[np.ndarray], times: int) -> None:
    """Draw again what was drawn last."""
    for random_state in random_states:
        random_state[1] -= times
