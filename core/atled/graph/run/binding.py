"""Binding: a plan with storages for its slots and addresses in its argument blocks, and how its steps run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell, Plans, Storage
from atled.arrays.epoch import EPOCH, WRITES
from atled.arrays.place import HOST, TRANSFERS, DeviceStorage, Place
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.call import RangeWord, RowWord
from atled.errors import four_parts
from atled.graph.compile.plan import Plan, Slot, Step
from atled.graph.run.observed import run_observed
from atled.graph.run.shared_workspace import SharedWorkspace, aligned, shared_workspace
from atled.limits.sizes import out_of_memory
from atled_contexts import Trace, active_trace, count_fallback, is_observed

_BYTE = np.dtype(np.uint8)
_NO_OTHERS: Mapping[int, np.ndarray] = {}


class Binding:
    """One plan with the arrays of one graph.

    cells: the outside arrays by number.  results: the array that each target becomes; None for a buffer of our own.
    floats: the value of each float, in the plan's order.

    A binding owns references to all its storages and is locked while it runs: code of the user in it cannot run it.

    Arrays that never left host memory are trusted to keep their head: what replaces it raises the epoch, and a run
    costs nothing for them. Those that travel between memories are looked at before each run (`_reads`), and told of
    their new values after it (`_writes`); binding changes neither their head nor their values.
    """

    def __init__(
        self,
        plan: Plan,
        cells: Sequence[ArrayCell],
        results: Sequence[ArrayCell | None],
        floats: Sequence[float],
    ) -> None:
        self.plan = plan
        self.cells = list(cells)
        runs_user_code = any(step.node.spec is not None and step.node.spec.opaque for step in plan.steps)
        # Re-entrant, without an error, for the rest: a signal handler or a finalizer may run the graph amid its run.
        self._lock = _LockOfUserCode() if runs_user_code else threading.RLock()
        self.floats = np.array(floats, np.float64)
        self._heads: list[tuple[ArrayCell, Storage]] = []
        self._written: list[ArrayCell] = []
        self._reads: list[_Travelling] = []
        self._writes: list[_Travelling] = []
        self._writes_known: frozenset[int] | None = None
        self._workspaces: dict[Place, Storage] = {}
        self._shared: SharedWorkspace | None = None
        self._whole_storages: dict[int, HostStorage] = {}
        self._storages: list[Storage | None] = [None] * (plan.memory_count + 1)
        self._travelling = self._find_travelling(results)
        self._bind_externals()
        self._bind_targets(results)
        self._bind_internals()
        self._fill_blocks()
        random_states = [step.random_slot for step in plan.steps if step.random_slot >= 0]
        self.random_states = [self.array(slot) for slot in random_states]
        drawn = {plan.slots[slot].source[1] for slot in random_states}
        changed = {number for number, _, _ in plan.written}
        self._changed = [self.cells[number] for number in sorted(changed | drawn)]
        self._segments = [self._segment(*segment) for segment in plan.segments]

    def _find_travelling(self, results: Sequence[ArrayCell | None]) -> set[int]:
        """The identities of the arrays that this plan uses on a device, whether or not also elsewhere."""
        plan = self.plan
        if plan.is_on_host:
            return set()
        found = {id(self.cells[number]) for number, place, _, _ in plan.requests if place is not HOST}
        for cell, number in zip(results, plan.targets, strict=True):
            if plan.slots[number].place is not HOST:
                found.add(id(cell))
        return found

    def _travels(self, cell: ArrayCell) -> bool:
        return id(cell) in self._travelling or cell.travels

    def _bind_externals(self) -> None:
        plan = self.plan
        for number, place, dtype, slot in plan.requests:
            cell = self.cells[number]
            is_changed = (number, place, dtype) in plan.written
            if self._travels(cell):
                storage = cell.reserve(place, dtype)
                travelling = _Travelling(cell, place, dtype, storage, plan.feeds.get(slot, -1))
                self._reads.append(travelling)
                if is_changed:
                    self._writes.append(travelling)
            else:
                storage = cell.move(place, dtype)
                cell.plans = Plans.WRITTEN if is_changed else cell.plans or Plans.READ
                self._heads.append((cell, storage))
                if is_changed:
                    self._written.append(cell)
            self._storages[plan.slots[slot].memory] = storage

    def _bind_targets(self, results: Sequence[ArrayCell | None]) -> None:
        plan = self.plan
        found = zip(results, plan.targets, strict=True)
        # The largest first: what is small finds room between others.
        for cell, number in sorted(found, key=lambda pair: -plan.slots[pair[1]].desc.nbytes):
            slot = plan.slots[number]
            if cell is None or slot.source[0] != "target":
                continue
            place, dtype = slot.place, slot.desc.dtype
            if cell.is_unstored:
                announce((id(cell),))
                EPOCH.bump()  # another plan computes it without storing it: from now on that one has to
            if self._travels(cell):
                storage = cell.reserve(place, dtype)
                self._writes.append(_Travelling(cell, place, dtype, storage))
            else:
                storage = cell.target(place, dtype)
                cell.plans = Plans.WRITTEN
                self._heads.append((cell, storage))
                self._written.append(cell)
            self._storages[slot.memory] = storage

    def is_current(self, gradients: Sequence[ArrayCell] = ()) -> bool:
        """Whether every array still has the storage that this binding uses; if so, sets their `plans` again.

        gradients: results that stay UNWRITTEN until a run has ended well.
        """
        if any(cell.storage is not storage or cell.travels for cell, storage in self._heads):
            return False
        if not all(item.is_current for item in (*self._reads, *self._writes)):
            return False
        spared = {id(cell) for cell in gradients}
        for cell in self._written:
            cell.plans = Plans.WRITTEN
        for cell, _ in self._heads:
            cell.plans = cell.plans or Plans.READ
            if cell.pending is not None and id(cell) not in spared:
                cell.settle()
        return True

    def _bind_internals(self) -> None:
        plan = self.plan
        workspace_bytes = plan.workspaces.get(HOST, 0)
        offsets: dict[int, tuple[int, int]] = {}
        runs_alone = self._runs_alone
        for slot in plan.slots:
            if self._storages[slot.memory] is not None or slot.memory in offsets:
                continue
            if runs_alone:
                start = aligned(workspace_bytes)
                workspace_bytes = start + slot.nbytes
                offsets[slot.memory] = start, slot.nbytes
            elif slot.place is HOST:
                self._storages[slot.memory] = HostStorage(slot.nbytes)
            else:
                self._storages[slot.memory] = DeviceStorage(slot.place, slot.desc.size, slot.desc.dtype)
        if workspace_bytes:
            self._shared = shared_workspace(workspace_bytes)
            self._storages[plan.memory_count] = self._workspaces[HOST] = self._shared.storage
            for memory, (start, nbytes) in offsets.items():
                self._storages[memory] = self._shared.part(start, nbytes)
        for place, nbytes in plan.workspaces.items():
            if place is not HOST:
                self._workspaces[place] = DeviceStorage(place, nbytes, _BYTE)

    @property
    def _runs_alone(self) -> bool:
        """Whether the plan is one native program that holds the workspace: then its values may be in there, too.

        Not without a workspace: such plans of one thread may be run by several at once.
        """
        plan = self.plan
        return plan.is_on_host and HOST in plan.workspaces and [kind for kind, *_ in plan.segments] == ["native"]

    def _fill_blocks(self) -> None:
        plan = self.plan
        self._block = plan.block.copy()
        if len(self._block):
            addresses = np.array(
                [storage.address if isinstance(storage, HostStorage) else 0 for storage in self._storages], np.int64
            )
            self._block[plan.address_words] = addresses[plan.address_memories]
            self._block[plan.link_words] = self._block.ctypes.data + plan.link_offsets
        self._rows = plan.rows.copy()
        self._rows[:, RowWord.BLOCK] += self._block.ctypes.data
        self._rows_address = self._rows.ctypes.data
        self._set_floats()

    def _set_floats(self) -> None:
        plan = self.plan
        if len(plan.float_words):
            self._block.view(np.float64)[plan.float_words] = self.floats[plan.float_numbers]

    def set_floats(self, values: Sequence[float] | np.ndarray) -> None:
        """Give the floats new values, in the plan's order."""
        self.floats[:] = values
        self._set_floats()

    def array(self, number: int) -> Any:  # Any: NumPy or the device's own array type
        """The array of a slot, as the steps see it."""
        slot = self.plan.slots[number]
        storage = self._whole(slot) if slot.range_bytes else self._storages[slot.memory]
        assert storage is not None
        return storage.array(slot.desc.shape, slot.desc.dtype)

    def _whole(self, slot: Slot) -> HostStorage:
        """Memory for the whole of a value of which programs have only ranges: for steps that run alone."""
        if slot.memory not in self._whole_storages:
            self._whole_storages[slot.memory] = HostStorage(slot.desc.nbytes)
        return self._whole_storages[slot.memory]

    def _segment(self, kind: str, first: int, end: int) -> Callable[[], None]:
        if kind == "native":
            # Its method is looked up at each run: at its first one it may put a quicker one in its place.
            executor = self.plan.steps[first].executor
            rows = self._rows_address
            start, stop = self.plan.rows_of(first, end)
            plan = self.plan  # not `self`: a cycle would keep the storages until the next garbage collection

            def run_native() -> None:
                status = executor.run_program(rows, start, stop)
                if status:
                    raise native_error(plan.steps[plan.row_steps[(status >> 16) - 1]], status)

            return self._with_workspace(run_native)
        launches = [self._launch(step) for step in self.plan.steps[first:end]]

        def run_python() -> None:
            for launch in launches:
                launch()

        return run_python

    def _with_workspace(self, launch: Callable[[], None]) -> Callable[[], None]:
        """The same, with the workspace to itself."""
        if self._shared is None:
            return launch
        lock = self._shared.lock

        def run_alone() -> None:
            with lock:
                launch()

        return run_alone

    def _launch(self, step: Step, others: Mapping[int, np.ndarray] = _NO_OTHERS) -> Callable[[], None]:
        if step.node.spec is not None and step.node.spec.opaque:
            return self._launch_opaque(step)
        arguments = [None if slot < 0 else self.array(slot) for slot in step.arguments]
        for position, array in others.items():
            arguments[position] = array
        if step.prepared is None:
            return self._transfer(step, arguments[0], arguments[1])
        prepared = step.prepared
        if prepared.workspace:
            storage = self._workspaces[self.plan.place_of(step)]
            # A device's array has the size it was allocated with, which may be more than this step asked for.
            size = prepared.workspace if isinstance(storage, HostStorage) else storage.nbytes
            arguments.append(storage.array((size,), _BYTE))
        run = prepared.run
        if run is None:
            raise RuntimeError(
                four_parts(
                    f"{step.name} by {step.backend}",
                    "its implementation is machine code only, and its backend registers no native executor",
                    "",
                    "a fault of the plugin: report it to its authors",
                )
            )
        floats, numbers = self.floats, step.floats

        def launch() -> None:
            guarded(step, run, [*arguments, *(float(floats[i]) for i in numbers)] if numbers else arguments)

        return self._with_workspace(launch) if prepared.workspace else launch

    def _launch_opaque(self, step: Step) -> Callable[[], None]:
        """The launch of an opaque op: the user's code gets NdArrays over the storages, which it may move or replace."""
        assert step.prepared is not None and step.prepared.run is not None
        run, floats, numbers, count = step.prepared.run, self.floats, step.floats, step.input_count
        lent: list[tuple[Slot, Storage]] = []
        for number in step.arguments:
            slot = self.plan.slots[number]
            storage = self._storages[slot.memory]
            assert storage is not None
            lent.append((slot, storage))

        def launch() -> None:
            arrays = [_array_over(*item) for item in lent]
            run(*arrays, *(float(floats[i]) for i in numbers))
            for array, (slot, storage) in zip(arrays[count:], lent[count:], strict=True):
                array.cell.copy_into(slot.place, slot.desc.dtype, storage)

        return launch

    def _transfer(self, step: Step, source: Any, target: Any) -> Callable[[], None]:
        from_place = self.plan.slots[step.arguments[0]].place
        slot = self.plan.slots[step.arguments[1]]
        to_place = slot.place

        def transfer() -> None:
            try:
                copy()
            except Exception as error:
                error.add_note(f"while a plan copied {slot.desc} from {from_place} to {to_place}")
                raise
            TRANSFERS.add(from_place, to_place, slot.desc.nbytes)

        def copy() -> None:
            if from_place.array_class is None:
                assert to_place.array_class is not None
                to_place.array_class.upload(source, target)
            elif to_place.array_class is None:
                from_place.array_class.download(source, target)
            else:
                values = np.empty(slot.desc.shape, slot.desc.dtype)
                from_place.array_class.download(source, values)
                to_place.array_class.upload(values, target)

        return transfer

    def run(self, floats: Sequence[float] | np.ndarray | None = None) -> None:
        """Run all steps. An error names op, backend and call; what was computed before it stays.

        floats: new values of all floats, in the plan's order; None leaves them as they are.
        """
        if WATCHES:
            announce(self.writes)
        with self._lock:
            if floats is not None:
                self.set_floats(floats)
            if self._reads or self._writes:
                self._fetch(active_trace())
            for random_state in self.random_states:
                random_state[1] += 1
            try:
                if is_observed():
                    self._run_observed()
                else:
                    for segment in self._segments:
                        segment()
            finally:  # a run that fails, or is interrupted, may have changed them
                if self._changed:
                    version = next(WRITES)
                    for cell in self._changed:
                        cell.version = version
            for item in self._writes:
                item.show()
            if self.plan.fallbacks:
                self._count_fallbacks()

    def _run_observed(self) -> None:
        if self._runs_alone:
            self._with_workspace(lambda: run_observed(self))()  # values stay in it from step to step
        else:
            run_observed(self)

    def _fetch(self, trace: Trace | None) -> None:
        """Fetch the travelling inputs to the place of the steps, and outdate the copies of what the steps write."""
        start = time.perf_counter()
        calls, moved = TRANSFERS.calls, TRANSFERS.bytes_moved
        for item in self._reads:
            item.fetch()
        for item in self._writes:
            item.cell.outdate_copies()
        calls = TRANSFERS.calls - calls
        if trace is not None and calls:
            seconds = time.perf_counter() - start
            moved = TRANSFERS.bytes_moved - moved
            trace.record("Transfer", "engine", "", seconds, calls=calls, bytes_moved=moved)

    @property
    def writes(self) -> frozenset[int]:
        """The identities of the outside arrays that a run writes."""
        if self._writes_known is None:
            cells = [*self._written, *self._changed, *(item.cell for item in self._writes)]
            self._writes_known = frozenset(map(id, cells))
        return self._writes_known

    def _count_fallbacks(self) -> None:
        """Count each fallback of a run, with the bytes that were copied because of it."""
        plan = self.plan
        moved = dict.fromkeys(plan.fallbacks, 0)
        for number, cause in plan.owners.items():
            moved[cause] += plan.slots[plan.steps[number].arguments[1]].desc.nbytes
        for item in self._reads:
            if item.cause >= 0:
                moved[item.cause] += item.moved
        for number, nbytes in moved.items():
            step = plan.steps[number]
            count_fallback(step.name, step.backend, bytes_moved=nbytes)

    def launch_of(self, number: int) -> Callable[[], None]:
        """What runs one step, with those that it carries."""
        kind = "native" if self.plan.steps[number].native is not None else "python"
        return self._segment(kind, number, number + 1)

    def launch_alone(self, number: int, others: Mapping[int, np.ndarray] = _NO_OTHERS) -> Callable[[], None]:
        """What runs one step without those that it carries, or one that is carried without its carrier.

        others: arrays to use instead of the plan's, by position among the arguments; host memory only.
        """
        step = self.plan.steps[number]
        native = step.native
        if native is None and others:
            return self._launch(step, others)
        if native is None or (step.carrier is None and not step.carried and not others):
            return self.launch_of(number)
        offset = self.plan.block_offsets[number]
        block = self._block[offset : offset + len(native.block)].copy()
        for carried in step.carried:
            count = len(RangeWord) if carried.ranged >= 0 else RangeWord.BLOCK_WORDS
            block[carried.word : carried.word + count] = 0
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
                raise native_error(step, status)

        return self._with_workspace(run_alone)


class _LockOfUserCode:
    """A lock that raises an error if code of the user, within the run of a plan, runs that same plan."""

    __slots__ = ("_is_held", "_lock")

    def __init__(self) -> None:
        # Re-entrant: a signal handler that runs the graph just before `_is_held` is set, or just after it, must not
        # wait for its own thread.
        self._lock = threading.RLock()
        self._is_held = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._is_held:  # by this thread: others wait above
            self._lock.release()
            raise RuntimeError(
                four_parts(
                    "running a graph",
                    "a PythonFunction in it, which is running now, asks for a run of that same graph",
                    "",
                    "compute in a PythonFunction from the arrays it is given, or on a graph of its own",
                )
            )
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        self._lock.release()


class _Travelling:
    """One array that travels, as a binding uses it: which copy, in which storage.

    cause: step of the fallback for which alone it is fetched, or -1.  moved: bytes copied by the last fetch.
    """

    __slots__ = ("cause", "cell", "dtype", "moved", "place", "storage")

    def __init__(
        self,
        cell: ArrayCell,
        place: Place,
        dtype: np.dtype,
        storage: Storage,
        cause: int = -1,
    ) -> None:
        self.cell = cell
        self.place = place
        self.dtype = dtype
        self.storage = storage
        self.cause = cause
        self.moved = 0
        if cell.plans is Plans.NONE:
            cell.plans = Plans.DEVICE

    @property
    def is_current(self) -> bool:
        """Whether the array still has this storage."""
        return self.cell.storage_at(self.place, self.dtype) is self.storage

    def fetch(self) -> None:
        """Bring the present values into the storage."""
        before = TRANSFERS.bytes_moved
        try:
            found = self.cell.copy_at(self.place, self.dtype)
        except Exception as error:
            error.add_note(f"while a plan fetched {self.dtype.name}[{self.cell.size}] to {self.place}")
            raise
        self.moved = TRANSFERS.bytes_moved - before
        assert found is self.storage, "what replaces a storage raises the epoch"

    def show(self) -> None:
        """Let the array have the values that a run wrote."""
        self.cell.written_at(self.place, self.dtype, self.storage)


def _array_over(slot: Slot, storage: Storage) -> NdArray:
    """An NdArray in the memory of a slot."""
    cell = ArrayCell(slot.desc.size)
    cell.adopt(slot.place, slot.desc.dtype, storage)
    return NdArray.over(cell, slot.desc.shape)


def guarded(step: Step, run: Callable[..., None], arguments: Sequence[Any]) -> None:
    """Run one Python step; what it raises gets a note that names op, backend and call."""
    try:
        run(*arguments)
    except MemoryError as error:
        raise out_of_memory(_running(step), reason=str(error)) from error
    except Exception as error:
        error.add_note(f"while {_running(step)}")
        raise


def _running(step: Step) -> str:
    return f"{step.backend} ran {step.node.decision.call if step.node.decision else step.name}"


def native_error(step: Step, status: int) -> Exception:
    """The exception for a native step that returned a code, naming plugin, op and call."""
    code = status & 0xFFFF
    assert step.native is not None and step.node.decision is not None
    what = step.native.errors.get(code, f"error {code}")
    kind = IndexError if "out of range" in what else RuntimeError
    decision = step.node.decision
    return kind(
        four_parts(
            f"{decision.call} by {decision.backend} of {decision.plugin}", what, "", "check the values of its inputs"
        )
    )
