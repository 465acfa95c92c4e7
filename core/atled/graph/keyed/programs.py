"""Programs: what descriptions are compiled to, and the ways in which they run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST, DeviceStorage, Place
from atled.arrays.results import Results
from atled.arrays.spares import Spares, spares_of
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.graph.compile.plans import PLANS
from atled.graph.keyed.compiling import Compiled, compile_entries
from atled.graph.keyed.entries import VIEW, Described, Entry, Leaves
from atled.graph.keyed.kept import Kept
from atled.graph.nodes.ir import IRNode
from atled.graph.run.binding import Binding
from atled.graph.run.by_address import ByAddress, CallByAddress, by_address
from atled.graph.run.on_device import PlanOnDevice
from atled.graph.run.one_call import advance, drawn_count
from atled.graph.run.program_packs import ProgramPacks
from atled.graph.run.travelling import fetched
from atled_contexts import Context, plugin_generation

_PLACES_LIMIT = 64
_ASSIGNED_BYTES = 1 << 17
"""Arrays of more bytes are not held for `assigning`: the memory that one leaves would not be free, for 1 us in 20."""

Cells = Sequence[ArrayCell]

Reader = Callable[[Sequence[NdArray]], object]
"""Reads results, before arrays are given other memory; if that fails, they are not."""


class Source:
    """What a program is compiled from: a description, and what its arrays are like.

    key: of all of it, but for the Context, the plugins, and where in their arrays views begin.
    has_views: whether there are any.
    """

    def __init__(self, key: object, entries: Sequence[Entry], cells: Cells, context: Context) -> None:
        self._key = "program", context, plugin_generation(), key
        self._entries = tuple(entries)
        self.has_views = any(entry[:1] == (VIEW,) for entry in self._entries)
        self._leaves = leaves_of(cells)
        self._context = context

    def compiled(self) -> Compiled:
        """Compiled, or found, to run on addresses to which a run adds where views begin."""
        return self._found(self._leaves)

    def placed(self, begins: Sequence[int], cells: Cells) -> Compiled:
        """The same for views that begin at these elements of arrays of the sizes of these."""
        own = (*begins, *[0] * (len(cells) - len(begins)))
        return self._found(self._leaves._replace(begins=own, sizes=tuple(cell.size for cell in cells)))

    def _found(self, leaves: Leaves) -> Compiled:
        where = None if leaves.begins is None else (leaves.begins, leaves.sizes)
        key = (*self._key, where)
        found: Compiled = PLANS.get(key, lambda: compile_entries(self._entries, leaves, self._context))
        return found

    def described(self) -> Described:
        """Its graph."""
        return Described(self._entries, self._leaves, self._context)


def leaves_of(cells: Cells) -> Leaves:
    """What arrays are like, to which a run adds where views begin."""
    dtypes = [cell.dtype for cell in cells if cell.dtype is not None]
    assert len(dtypes) == len(cells), "settled"
    return Leaves(dtypes, [cell.size for cell in cells], None)


def described(entries: Sequence[Entry], cells: Cells, context: Context) -> Described:
    """The graph of a description, on arrays with the dtypes of these."""
    return Described(entries, leaves_of(cells), context)


def program_of(key: object, entries: Sequence[Entry], cells: Cells, context: Context) -> Program:
    """The program of a description, to run on arrays that are where these are and have their dtypes."""
    source = Source(key, entries, cells, context)
    compiled = source.compiled()
    if compiled.fits_addresses and _OnHost.fits(compiled, cells):
        return _OnHost(source, compiled)
    return _Placed(source, compiled) if source.has_views else _placed(source, compiled, cells)


def _placed(source: Source, compiled: Compiled, cells: Cells) -> Program:
    """A program whose plan says where views begin, or that has none."""
    return _OnDevice(source, compiled) if _OnDevice.fits(compiled, cells) else _Bound(source, compiled)


class Program(Kept):
    """A compiled description, which runs on any arrays like those that it was compiled for."""

    __slots__ = (
        "_constants",
        "_float_sources",
        "_has_views",
        "_shapes",
        "_source",
        "changed",
        "compiled",
        "swapped",
    )

    def __init__(self, source: Source, compiled: Compiled) -> None:
        plan = self.plan = compiled.plan
        self.compiled = compiled
        self.swapped = compiled.swapped
        self.changed = compiled.changed
        self._source = source
        self._shapes = compiled.shapes
        self._has_views = source.has_views
        # Per float of the plan whether it never changes, and its value, or its number among those that are given.
        self._float_sources: list[tuple[bool, Any]] = [(kind == "constant", value) for kind, value in plan.floats]
        is_constant = all(constant for constant, _ in self._float_sources)
        self._constants = [value for _, value in self._float_sources] if is_constant else None

    def nodes(self) -> list[IRNode]:
        """The nodes of its graph that compute, before anything is fused."""
        return [node for node in self._source.described().graph.nodes if node.decision is not None]

    @abstractmethod
    def run(
        self, cells: Cells, begins: Sequence[int], floats: Sequence[float], reader: Reader | None = None
    ) -> list[NdArray]:
        """Compute: the results, in new arrays. Where it fails, every array is as it was.

        cells: settled, of the arrays in their order.  begins: elements in front of the first leaf of each; none at all
        where there are no views.  floats: the run-time floats.
        """

    def run_out(self, cells: Cells, floats: Sequence[float]) -> list[np.ndarray]:
        """`run` without views, with results in new NumPy arrays."""
        made: list[np.ndarray] = []
        self.run(cells, (), floats, lambda results: made.extend([each.data for each in results]))
        return made

    def kept(self, cells: Cells, floats: Sequence[float]) -> Callable[[], list[np.ndarray] | None] | None:
        """`run_out` to be called again and again, for arrays that mostly stay where they are; None: none is quicker.

        It gives None, with nothing run, where one of them has other memory by now, or something watches it.
        """
        return None

    def assigning(self, cells: Cells, begins: Sequence[int], floats: Sequence[float]) -> Callable[[], bool] | None:
        """`run` without results, to be called again and again for small arrays; None: there is no quicker one.

        It gives whether it has run: not where an array has other memory by now, or something watches it.
        """
        return None

    def run_bound(
        self, cells: Cells, begins: Sequence[int], floats: Sequence[float], reader: Reader | None = None
    ) -> list[NdArray]:
        """The same by a binding, which a trace and a verification see step by step."""
        # Where views begin matters to it; whole arrays begin where the plan has them begin.
        compiled = self._source.placed(begins, cells) if self._has_views else self.compiled
        plan = compiled.plan
        made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
        Binding(plan, cells, made, self._floats(floats)).run()
        for cell in made:
            cell.settle()
        for number in compiled.changed:
            cells[number].touched()
        count = len(compiled.shapes)
        results = [NdArray.over(cell, shape) for cell, shape in zip(made, compiled.shapes, strict=False)]
        if reader is not None:
            reader(results)
        _swap(cells, compiled.swapped, [(cell.place, cell.dtype, cell.storage) for cell in made[count:]])
        return results

    def _floats(self, given: Sequence[float]) -> Sequence[float]:
        """The value of each float of the plan."""
        if self._constants is not None:
            return self._constants
        return [value if constant else given[value] for constant, value in self._float_sources]


def _swap(cells: Cells, numbers: Sequence[int], made: Sequence[tuple[Place, Any, Any]]) -> None:
    """Have arrays hold what was made: all of them, once nothing can be wrong with it any more."""
    for place in {place for place, _, _ in made}:
        place.failures.look()
    if WATCHES:
        announce(id(cells[number]) for number in numbers)
    for number, (place, dtype, storage) in zip(numbers, made, strict=True):
        cells[number].exchange(place, dtype, storage)


class _OnHost(Program):
    """One of native steps in host memory, by addresses."""

    __slots__ = (
        "_by_address",
        "_drawn",
        "_drawn_inside",
        "_draws",
        "_is_pure",
        "_moves",
        "_new_bytes",
        "_new_dtypes",
        "_out",
        "_packs",
        "_read",
        "_results",
        "_run_plain",
    )

    def __init__(self, source: Source, compiled: Compiled) -> None:
        super().__init__(source, compiled)
        plan, count = self.plan, len(self._shapes)
        memories = {number: plan.slots[slot].memory for number, _, _, slot in plan.requests}
        self._read = sorted(memories)
        slots = [plan.slots[number] for number in plan.targets]
        given = [*(memories[number] for number in self._read), *(slot.memory for slot in slots)]
        # A view may begin elsewhere at the next run.
        packs = None if source.has_views else ProgramPacks(plan, {*self.changed, *self.swapped})
        self._packs = packs or None
        self._by_address = by_address(plan, [*given, *packs.memories] if packs else given)
        self._results = _results_of(compiled, HOST)
        self._out = [Results(shape, slot.desc.dtype) for slot, shape in zip(slots, self._shapes, strict=False)]
        self._new_bytes = [slot.desc.nbytes for slot in slots[count:]]
        self._new_dtypes = [slot.desc.dtype for slot in slots[count:]]
        self._drawn = [plan.slots[step.random_slot].source[1] for step in plan.steps if step.random_slot >= 0]
        self._drawn_inside = [plan.slots[slot].source[1] for slot in plan.drawn_inside]
        self._draws = bool(self._drawn or self._drawn_inside)
        self._is_pure = not (self.swapped or self.changed or self._draws)
        self._run_plain: Callable[[Sequence[int]], None] | None = None
        call = self._by_address
        if self._is_pure and self._packs is None and isinstance(call, CallByAddress) and call.is_plain:
            self._run_plain = call.run_plain
        dtypes = {number: dtype for number, _, dtype, _ in plan.requests}
        self._moves = [(number, compiled.lows[number], dtypes[number].itemsize) for number in self._read]

    @staticmethod
    def fits(compiled: Compiled, cells: Cells) -> bool:
        """Whether a program can run so."""
        plan = compiled.plan
        return ByAddress.fits(plan) and all(
            cells[number].place is place and cells[number].dtype == dtype for number, place, dtype, _ in plan.requests
        )

    def run(
        self, cells: Cells, begins: Sequence[int], floats: Sequence[float], reader: Reader | None = None
    ) -> list[NdArray]:
        """See Program."""
        made: list[NdArray] = []
        addresses: list[Any] = []  # in host memory: numbers
        for spares, shape in self._results:
            array = spares.get()
            array.shape = shape
            made.append(array)
            addresses.append(array.cell.storage.address)  # type: ignore[union-attr]  # spares have memory
        run_plain = self._run_plain
        if run_plain is None or begins:
            self._run(cells, begins, floats, addresses)
        else:  # what `_run` does then, without the questions that take as long as a small kernel
            storages: list[Any] = [cells[number].storage for number in self._read]
            run_plain([*[storage.address for storage in storages], *addresses])
        if reader is not None:
            reader(made)  # they are in host memory, where that does not fail
        return made

    def run_out(self, cells: Cells, floats: Sequence[float]) -> list[np.ndarray]:
        """See Program."""
        made = [each.new() for each in self._out]
        self._run(cells, (), floats, [address for _, address in made])
        return [array for array, _ in made]

    def _run(self, cells: Cells, begins: Sequence[int], floats: Sequence[float], made: Sequence[Any]) -> None:
        """Compute, the results into memory at some addresses."""
        # Held while the kernels run: another thread may give an array other memory.
        storages: list[Any] = [cells[number].storage for number in self._read]
        if begins:
            moves = zip(storages, self._moves, strict=True)
            addresses = [storage.address + (begins[n] + low) * size for storage, (n, low, size) in moves]
        else:
            addresses = [storage.address for storage in storages]
        addresses += made
        constants = self._constants
        values = self._floats(floats) if constants is None else constants
        new = [HostStorage(nbytes) for nbytes in self._new_bytes] if self.swapped else ()
        if new:
            addresses += [storage.address for storage in new]
        if self._packs is not None:
            packed, _held = self._packs.take(self._packs.of(cells))
            addresses += packed
        if self._is_pure:
            self._by_address.run(addresses, values)
            return
        if self._draws:
            self._run_drawing(cells, addresses, values)
        else:
            self._run_changing(cells, addresses, values)
        if new:
            _swap(
                cells,
                self.swapped,
                [(HOST, dtype, storage) for dtype, storage in zip(self._new_dtypes, new, strict=True)],
            )

    def kept(self, cells: Cells, floats: Sequence[float]) -> Callable[[], list[np.ndarray] | None] | None:
        """See Program."""
        if self._draws or self.swapped:
            return None
        held = [(cells[number], cells[number].storage) for number in self._read]
        changed = [cells[number] for number in self.changed]
        results = [each.new for each in self._out]
        addresses: list[Any] = [storage.address for _, storage in held if storage is not None]
        run_at = self._by_address.at(addresses, self._floats(floats))
        program_packs = self._packs
        packs = None if program_packs is None else program_packs.of(cells)

        def run() -> list[np.ndarray] | None:
            for cell, storage in held:
                if cell.storage is not storage or cell.pending is not None:
                    return None
            if WATCHES:
                return None
            made = [new() for new in results]
            further, _held = ((), None) if program_packs is None or packs is None else program_packs.take(packs)
            try:
                run_at([*(address for _, address in made), *further])
            finally:
                for cell in changed:
                    cell.touched()
            return [array for array, _ in made]

        return run

    def assigning(self, cells: Cells, begins: Sequence[int], floats: Sequence[float]) -> Callable[[], bool] | None:
        """See Program."""
        # Of arrays that are not read only the dtype counts, which nothing here would look at.
        if self._draws or self.swapped or self._packs is not None or self._results or len(self._read) < len(cells):
            return None
        if sum(cell.size * size for cell, (_, _, size) in zip(cells, self._moves, strict=True)) > _ASSIGNED_BYTES:
            return None
        held: list[tuple[ArrayCell, Any]] = [(cell, cell.storage) for cell in cells]
        moves = [(begins[number] + low) * size if begins else 0 for number, low, size in self._moves]
        addresses = [storage.address + move for (_, storage), move in zip(held, moves, strict=True)]
        run_at = self._by_address.at(addresses, self._floats(floats))
        changed = [cells[number] for number in self.changed]

        def run() -> bool:
            for cell, storage in held:
                if cell.storage is not storage or cell.pending is not None:
                    return False
            if WATCHES:
                return False
            try:
                run_at(())
            finally:
                for cell in changed:
                    cell.touched()
            return True

        return run

    def _run_changing(self, cells: Cells, addresses: Sequence[int], floats: Sequence[float]) -> None:
        """Run steps that change arrays."""
        changed = self.changed
        if WATCHES and changed:
            announce(id(cells[number]) for number in changed)
        try:
            self._by_address.run(addresses, floats)
        finally:
            for number in changed:
                cells[number].touched()

    def _run_drawing(self, cells: Cells, addresses: Sequence[int], floats: Sequence[float]) -> None:
        """Run steps that draw numbers: the states of these go on, and back where it fails."""
        drawn = self._drawn
        before = [(cells[number], drawn_count(cells[number])) for number in self._drawn_inside]
        for number in drawn:
            advance(cells[number])
        try:
            self._run_changing(cells, addresses, floats)
        except BaseException:
            for number in drawn:
                advance(cells[number], -1)
            for cell, count in before:
                advance(cell, count - drawn_count(cell))
            raise
        finally:
            for cell, _ in before:
                cell.touched()


class _OnDevice(Program):
    """One of launches on one device, on arrays by shape."""

    __slots__ = ("_new", "_on_device", "_read", "_results")

    def __init__(self, source: Source, compiled: Compiled) -> None:
        super().__init__(source, compiled)
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
        return PlanOnDevice.fits(plan) and all(
            cells[number].dtype == dtype
            and (cells[number].place is place or (cells[number].place is HOST and number not in compiled.changed))
            for number, place, dtype, _ in plan.requests
        )

    def run(
        self, cells: Cells, begins: Sequence[int], floats: Sequence[float], reader: Reader | None = None
    ) -> list[NdArray]:
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
        self._launch(cells, [storage.address for storage in (*storages, *new)], self._floats(floats))
        if reader is not None:
            reader(made)
        if new:
            _swap(cells, self.swapped, [(place, storage.dtype, storage) for storage in new])
        return made

    def _launch(self, cells: Cells, arrays: Sequence[Any], floats: Sequence[float]) -> None:
        changed = [cells[number] for number in self.changed]
        if WATCHES and changed:
            announce(map(id, changed))
        try:
            self._on_device.run(arrays, floats)
        finally:  # a launch that fails may have changed them
            for cell in changed:
                cell.touched()
        for cell in changed:
            assert cell.dtype is not None and cell.storage is not None
            cell.written_at(self._on_device.place, cell.dtype, cell.storage)


class _Placed(Program):
    """One with views, not by addresses: a program for each of the places where they begin, in arrays of some sizes."""

    __slots__ = ("_known",)

    def __init__(self, source: Source, compiled: Compiled) -> None:
        super().__init__(source, compiled)
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], Program] = {}

    def run(
        self, cells: Cells, begins: Sequence[int], floats: Sequence[float], reader: Reader | None = None
    ) -> list[NdArray]:
        """See Program."""
        key = tuple(begins), tuple(cell.size for cell in cells)
        program = self._known.get(key)
        if program is None:
            if len(self._known) >= _PLACES_LIMIT:
                self._known.clear()
            program = self._known[key] = _placed(self._source, self._source.placed(begins, cells), cells)
        return program.run(cells, begins, floats, reader)


class _Bound(Program):
    """Any other: each run binds the plan."""

    __slots__ = ()

    def run(
        self, cells: Cells, begins: Sequence[int], floats: Sequence[float], reader: Reader | None = None
    ) -> list[NdArray]:
        """See Program."""
        return self.run_bound(cells, begins, floats, reader)


def _results_of(compiled: Compiled, place: Place) -> list[tuple[Spares[NdArray], tuple[int, ...]]]:
    """Where the arrays of the results come from, and their shapes."""
    plan = compiled.plan
    descs = [plan.slots[slot].desc for slot in plan.targets]
    return [
        (spares_of(NdArray, desc.size, desc.dtype, place), shape)
        for desc, shape in zip(descs, compiled.shapes, strict=False)
    ]
