"""A plan bound to arrays: storages for the slots of a template, and the running of its steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.array import ArrayCell, Storage
from atled.errors import four_parts
from atled.graph.plan import Step, Template
from atled.place import HOST, TRANSFERS, DeviceStorage, Place
from atled.storage import HostStorage
from atled_contexts import active_trace


class Binding:
    """One template with the arrays of one graph.

    cells: the outside arrays by number.  results: the array that each target becomes; None for a buffer of our own.
    floats: the value of each float, in the template's order.

    A binding owns references to all its storages and is locked while it runs.
    """

    def __init__(
        self,
        template: Template,
        cells: Sequence[ArrayCell],
        results: Sequence[ArrayCell | None],
        floats: Sequence[float],
    ) -> None:
        self.template = template
        self.cells = list(cells)
        self.lock = threading.Lock()
        self.floats = np.array(floats, np.float64)
        self._heads: list[tuple[ArrayCell, Storage]] = []
        self._written: list[ArrayCell] = []
        self._fetches: list[tuple[ArrayCell, Place, np.dtype, Storage]] = []
        self._storages: list[Storage | None] = [None] * (template.memory_count + 1)
        self._bind_externals()
        self._bind_targets(results)
        self._bind_internals()
        self._fill_blocks()
        self.streams = [
            self._array(step.stream_slot) for step in template.steps if step.stream_slot >= 0
        ]
        self._segments = [self._segment(*segment) for segment in template.segments]

    def _bind_externals(self) -> None:
        template = self.template
        for number, place, dtype, slot in template.requests:
            cell = self.cells[number]
            if number in template.written:
                storage = cell.move(place, dtype)
                cell.bound = 2
                self._written.append(cell)
            else:
                storage = cell.copy_at(place, dtype)
                cell.bound = cell.bound or 1
            if storage is cell.storage:
                self._heads.append((cell, storage))
            else:
                self._fetches.append((cell, place, dtype, storage))
            self._storages[template.slots[slot].memory] = storage

    def _bind_targets(self, results: Sequence[ArrayCell | None]) -> None:
        template = self.template
        for cell, number in zip(results, template.targets, strict=True):
            slot = template.slots[number]
            if cell is not None and slot.source[0] == "target":
                storage = self._storages[slot.memory] = cell.output(slot.place, slot.desc.dtype)
                cell.bound = 2
                self._heads.append((cell, storage))
                self._written.append(cell)

    def lend(self, number: int, cell: ArrayCell) -> None:
        """Let a cell show the memory of a slot."""
        slot = self.template.slots[number]
        storage = self._storages[slot.memory]
        assert storage is not None
        cell.show(slot.place, slot.desc.dtype, storage)
        self._heads.append((cell, storage))

    def is_current(self, gradients: Sequence[ArrayCell] = ()) -> bool:
        """Whether every array still has the storage that this binding uses; marks them as bound again if so.

        gradients: results whose lazy mark means "not written" and must stay.
        """
        if any(cell.storage is not storage for cell, storage in self._heads):
            return False
        kept = {id(cell) for cell in gradients}
        for cell in self._written:
            cell.bound = 2
            if id(cell) not in kept:
                cell.lazy = None
        for cell, _ in self._heads:
            cell.bound = cell.bound or 1
        return all(cell.lazy is None or id(cell) in kept for cell, _ in self._heads)

    def _bind_internals(self) -> None:
        template = self.template
        for slot in template.slots:
            if self._storages[slot.memory] is None:
                self._storages[slot.memory] = (
                    HostStorage(slot.desc.nbytes)
                    if slot.place is HOST
                    else DeviceStorage(slot.place, slot.desc.size, slot.desc.dtype)
                )
        if template.workspace:
            self._storages[template.memory_count] = HostStorage(template.workspace)

    def _fill_blocks(self) -> None:
        template = self.template
        self._block = template.block.copy()
        if len(self._block):
            addresses = np.array(
                [storage.address if isinstance(storage, HostStorage) else 0 for storage in self._storages], np.int64
            )
            self._block[template.address_words] = addresses[template.address_memories]
        self._rows = template.rows.copy()
        self._rows[:, 1] += self._block.ctypes.data
        self._rows_address = self._rows.ctypes.data
        self._set_floats()

    def _set_floats(self) -> None:
        template = self.template
        if len(template.float_words):
            self._block.view(np.float64)[template.float_words] = self.floats[template.float_numbers]

    def set_floats(self, values: Sequence[float]) -> None:
        """Give the floats new values, in the template's order."""
        self.floats[:] = values
        self._set_floats()

    def _array(self, number: int) -> Any:  # Any: NumPy or the device's own array type
        slot = self.template.slots[number]
        storage = self._storages[slot.memory]
        assert storage is not None
        return storage.array(slot.desc.shape, slot.desc.dtype)

    def _segment(self, kind: str, first: int, end: int) -> Callable[[], None]:
        if kind == "native":
            execute = self.template.steps[first].executor.run_program
            rows = self._rows_address

            def run_native() -> None:
                status = execute(rows, first, end)
                if status:
                    raise native_error(self.template.steps[(status >> 16) - 1], status)

            return run_native
        launches = [self._launch(step) for step in self.template.steps[first:end]]

        def run_python() -> None:
            for launch in launches:
                launch()

        return run_python

    def _launch(self, step: Step) -> Callable[[], None]:
        arguments = [None if slot < 0 else self._array(slot) for slot in step.arguments]
        if step.prepared is None:
            return self._transfer(step, arguments[0], arguments[1])
        prepared = step.prepared
        if prepared.workspace:
            storage = self._storages[self.template.memory_count]
            assert isinstance(storage, HostStorage)
            arguments.append(storage.array((prepared.workspace,), np.dtype(np.uint8)))
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
        if not step.floats:
            return lambda: self._guarded(step, run, arguments)
        return lambda: self._guarded(step, run, [*arguments, *(float(self.floats[i]) for i in step.floats)])

    def _guarded(self, step: Step, run: Callable[..., None], arguments: Sequence[Any]) -> None:
        try:
            run(*arguments)
        except Exception as error:
            error.add_note(f"while {step.backend} ran {step.node.decision.call if step.node.decision else step.name}")
            raise

    def _transfer(self, step: Step, source: Any, target: Any) -> Callable[[], None]:
        from_place = self.template.slots[step.arguments[0]].place
        slot = self.template.slots[step.arguments[1]]
        to_place = slot.place

        def transfer() -> None:
            if from_place.array_class is None:
                assert to_place.array_class is not None
                to_place.array_class.upload(source, target)
            elif to_place.array_class is None:
                from_place.array_class.download(source, target)
            else:
                values = np.empty(slot.desc.shape, slot.desc.dtype)
                from_place.array_class.download(source, values)
                to_place.array_class.upload(values, target)
            TRANSFERS.add(from_place, to_place, slot.desc.nbytes)

        return transfer

    def run(self) -> None:
        """Run all steps. An error names op, backend and call; what was computed before it stays."""
        with self.lock:
            for cell, place, dtype, storage in self._fetches:
                assert cell.copy_at(place, dtype) is storage
            for stream in self.streams:
                stream[1] += 1
            if active_trace() is not None:
                self._run_traced()
            else:
                for segment in self._segments:
                    segment()

    def _run_traced(self) -> None:
        """Run step by step and record each."""
        trace = active_trace()
        assert trace is not None
        for number, step in enumerate(self.template.steps):
            launch = self._segment("native" if step.native is not None else "python", number, number + 1)
            moved = TRANSFERS.bytes_moved
            start = time.perf_counter()
            launch()
            seconds = time.perf_counter() - start
            decision = step.node.decision
            trace.record(
                step.name,
                step.backend,
                step.note,
                seconds,
                fallback=decision is not None and decision.fallback,
                bytes_moved=TRANSFERS.bytes_moved - moved,
            )


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
