"""Programs: what descriptions are compiled to, and the ways in which they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST, DeviceStorage, Place
from atled.arrays.spares import Spares, spares_of
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.keyed.entries import Assigned, Described, Entry
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.run.binding import Binding
from atled.graph.run.by_address import ByAddress, by_address
from atled.graph.run.on_device import PlanOnDevice
from atled.graph.run.one_call import advance
from atled.graph.run.travelling import fetched
from atled_contexts import Context, plugin_generation

Cells = Sequence[ArrayCell]


class Compiled(NamedTuple):
    """A compiled description.

    plan: its targets are the results, then the new values of arrays that are swapped.
    shapes: of the results.  swapped: the numbers of those arrays.  changed: of those that steps change.
    """

    plan: Plan
    shapes: tuple[tuple[int, ...], ...]
    swapped: tuple[int, ...]
    changed: tuple[int, ...]


def program_of(key: object, entries: Sequence[Entry], cells: Cells, context: Context) -> Program:
    """The program of a description, to run on arrays that are where these are and have their dtypes.

    key: of all that the plan depends on, but for the Context and the plugins.
    """
    dtypes = [cell.dtype for cell in cells if cell.dtype is not None]
    assert len(dtypes) == len(cells), "settled"
    whole_key = ("program", context, plugin_generation(), key)
    compiled: Compiled = PLANS.get(whole_key, lambda: _compile(Described(entries, dtypes, context)))
    for way in (_OnHost, _OnDevice):
        if way.fits(compiled, cells):
            return way(compiled)
    return _Bound(compiled)


def _compile(described: Described) -> Compiled:
    graph = described.graph
    values = [_new_value(graph, each) for each in described.assigned]
    plan = lower(graph, [*described.results, *values])
    numbers = tuple(each.number for each in described.assigned)
    changed = sorted({number for number, _, _ in plan.written})
    return Compiled(plan, tuple(value.shape for value in described.results), numbers, tuple(changed))


def _new_value(graph: Graph, assigned: Assigned) -> IRValue:
    """What an array is to hold, in its shape and dtype."""
    target, value = assigned.target, assigned.value
    if value.shape != target.shape:
        value = graph.reshape(value, (1,) * (target.ndim - value.ndim) + value.shape)
        value = graph.op("Broadcast", value, shape=target.shape)
    return graph.coerce(value, None, target.dtype, graph.context)


class Program(ABC):
    """A compiled description, which runs on any arrays like those that it was compiled for.

    plan: the steps.  float_sources: per float of the plan its value, or the number of it among those that are given.
    """

    __slots__ = ("_constants", "_shapes", "changed", "float_sources", "plan", "swapped")

    def __init__(self, compiled: Compiled) -> None:
        plan = self.plan = compiled.plan
        self.swapped = compiled.swapped
        self.changed = compiled.changed
        self._shapes = compiled.shapes
        self.float_sources: list[tuple[bool, Any]] = [(kind == "constant", value) for kind, value in plan.floats]
        is_constant = all(constant for constant, _ in self.float_sources)
        self._constants = [value for _, value in self.float_sources] if is_constant else None

    @abstractmethod
    def run(self, cells: Cells, floats: Sequence[float]) -> list[NdArray]:
        """Compute: the results, in new arrays. Where it fails, every array is as it was.

        cells: settled, of the arrays in their order.  floats: the run-time floats.
        """

    def run_bound(self, cells: Cells, floats: Sequence[float]) -> list[NdArray]:
        """The same by a binding, which a trace and a verification see step by step."""
        plan = self.plan
        made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
        Binding(plan, cells, made, self._floats(floats)).run()
        for cell in made:
            cell.settle()
        for number in self.changed:
            cells[number].touched()
        count = len(self._shapes)
        self._swap(cells, [(cell.place, cell.dtype, cell.storage) for cell in made[count:]])
        return [NdArray.over(cell, shape) for cell, shape in zip(made, self._shapes, strict=False)]

    def _floats(self, given: Sequence[float]) -> Sequence[float]:
        """The value of each float of the plan."""
        if self._constants is not None:
            return self._constants
        return [value if constant else given[value] for constant, value in self.float_sources]

    def _swap(self, cells: Cells, made: Iterable[tuple[Place, Any, Any]]) -> None:
        """Have arrays hold what was made: all of them, or none; nothing in here fails."""
        if WATCHES:
            announce(id(cells[number]) for number in (*self.swapped, *self.changed))
        for number, (place, dtype, storage) in zip(self.swapped, made, strict=True):
            cells[number].exchange(place, dtype, storage)


class _OnHost(Program):
    """One of native steps in host memory, by addresses."""

    __slots__ = ("_by_address", "_drawn", "_new_bytes", "_new_dtypes", "_read", "_results")

    def __init__(self, compiled: Compiled) -> None:
        super().__init__(compiled)
        plan, count = self.plan, len(self._shapes)
        memories = {number: plan.slots[slot].memory for number, _, _, slot in plan.requests}
        self._read = sorted(memories)
        slots = [plan.slots[number] for number in plan.targets]
        given = [*(memories[number] for number in self._read), *(slot.memory for slot in slots)]
        self._by_address = by_address(plan, given)
        self._results = _results_of(compiled, HOST)
        self._new_bytes = [slot.desc.nbytes for slot in slots[count:]]
        self._new_dtypes = [slot.desc.dtype for slot in slots[count:]]
        self._drawn = [plan.slots[step.random_slot].source[1] for step in plan.steps if step.random_slot >= 0]

    @staticmethod
    def fits(compiled: Compiled, cells: Cells) -> bool:
        """Whether a program can run so."""
        plan = compiled.plan
        return ByAddress.fits(plan) and all(
            cells[number].place is place and cells[number].dtype == dtype for number, place, dtype, _ in plan.requests
        )

    def run(self, cells: Cells, floats: Sequence[float]) -> list[NdArray]:
        """See Program."""
        addresses: list[Any] = [cells[number].storage.address for number in self._read]  # type: ignore[union-attr]  # settled
        made = []
        for spares, shape in self._results:
            array = spares.get()
            array.shape = shape
            made.append(array)
            addresses.append(array.cell.storage.address)  # type: ignore[union-attr]  # spares have memory
        if not self.swapped and not self._drawn:
            self._by_address.run(addresses, self._floats(floats))
            return made
        new = [HostStorage(nbytes) for nbytes in self._new_bytes]
        addresses += [storage.address for storage in new]
        self._run_drawing(cells, addresses, self._floats(floats))
        self._swap(cells, [(HOST, dtype, storage) for dtype, storage in zip(self._new_dtypes, new, strict=True)])
        return made

    def _run_drawing(self, cells: Cells, addresses: Sequence[int], floats: Sequence[float]) -> None:
        """Run on states of random ops that went on; they go back where it fails."""
        for number in self._drawn:
            advance(cells[number])
        try:
            self._by_address.run(addresses, floats)
        except BaseException:
            for number in self._drawn:
                advance(cells[number], -1)
            raise


class _OnDevice(Program):
    """One of launches on one device, on arrays by shape."""

    __slots__ = ("_new", "_on_device", "_read", "_results")

    def __init__(self, compiled: Compiled) -> None:
        super().__init__(compiled)
        plan, count = self.plan, len(self._shapes)
        requests = {number: (dtype, plan.slots[slot].memory) for number, _, dtype, slot in plan.requests}
        self._read = [(number, dtype) for number, (dtype, _) in sorted(requests.items())]
        slots = [plan.slots[number] for number in plan.targets]
        given = [*(requests[number][1] for number, _ in self._read), *(slot.memory for slot in slots)]
        self._on_device = PlanOnDevice(plan, given)
        self._results = _results_of(compiled, self._on_device.place)
        self._new = [(slot.desc.size, slot.desc.dtype) for slot in slots[count:]]

    @staticmethod
    def fits(compiled: Compiled, cells: Cells) -> bool:
        """Whether a program can run so."""
        plan = compiled.plan
        return (
            PlanOnDevice.fits(plan)
            and not plan.written
            and all(
                cells[number].place in (HOST, place) and cells[number].dtype == dtype
                for number, place, dtype, _ in plan.requests
            )
        )

    def run(self, cells: Cells, floats: Sequence[float]) -> list[NdArray]:
        """See Program."""
        place = self._on_device.place
        storages: list[Any] = []
        for number, dtype in self._read:
            cell = cells[number]
            # What is only read, and read there for the second time, comes to stay.
            is_there = cell.place is place or cell.come_to(place, dtype)
            storages.append(cell.storage if is_there else fetched(cell, place, dtype))
        made = []
        for spares, shape in self._results:
            array = spares.get()
            array.shape = shape
            made.append(array)
            storages.append(array.cell.storage)
        new = [DeviceStorage(place, size, dtype) for size, dtype in self._new]
        self._on_device.run([storage.address for storage in (*storages, *new)], self._floats(floats))
        if new:
            place.failures.look()  # before it is the value of an array
            self._swap(cells, [(place, storage.dtype, storage) for storage in new])
        return made


class _Bound(Program):
    """Any other: each run binds the plan."""

    __slots__ = ()

    def run(self, cells: Cells, floats: Sequence[float]) -> list[NdArray]:
        """See Program."""
        return self.run_bound(cells, floats)


def _results_of(compiled: Compiled, place: Place) -> list[tuple[Spares[NdArray], tuple[int, ...]]]:
    """Where the arrays of the results come from, and their shapes."""
    plan = compiled.plan
    descs = [plan.slots[slot].desc for slot in plan.targets]
    return [
        (spares_of(NdArray, desc.size, desc.dtype, place), shape)
        for desc, shape in zip(descs, compiled.shapes, strict=False)
    ]
