"""One op at a time: the compiled form of a single call, found again by a small key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import Any, NoReturn

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ABSENT, ArrayCell, Look, Storage, look_of
from atled.arrays.epoch import WRITES
from atled.arrays.failures import EXPECTING
from atled.arrays.place import HOST
from atled.arrays.spares import spare_workspaces_of
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.call import FormWord
from atled.graph.compile.lower import lower
from atled.graph.compile.native_errors import native_error
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Slot
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.record.value import RecordedCall, Value
from atled.graph.run.binding import Binding, go_back
from atled.graph.run.by_address import ByAddress, by_address, form_of, has_form
from atled.graph.run.inline_launch import InlineLaunch, inline_maker, on_device
from atled.graph.run.kept_casts import kept_cast
from atled.graph.run.launching import guarded
from atled.graph.run.on_device import PlanOnDevice, launch_all, launch_by_shape
from atled.graph.run.travelling import fetched
from atled.limits.caches import Generations
from atled.ops.spec import OpSpec
from atled.type_configs import compute_dtype
from atled_contexts import Context, Decision, count_fallback, is_observed, native_executor, plugin_generation

_BYTE = np.dtype(np.uint8)
_INT64 = np.dtype(np.int64)
_CALLS: Generations[OneCall] = Generations("calls", 1024)


def settle_inputs(cells: Sequence[ArrayCell | None], context: Context) -> tuple[int, ...]:
    """Make sure that the inputs hold values; their codes."""
    codes = []
    for cell in cells:
        if cell is None:
            codes.append(ABSENT)
            continue
        if cell.pending is not None or cell.storage is None:
            cell.settle(compute_dtype(context.backends[0][1]))
        codes.append(cell.code)
    return tuple(codes)


def one_call(
    kind: int,
    codes: tuple[int, ...],
    spec: OpSpec,
    shapes: Sequence[tuple[int, ...] | None],
    attributes: Mapping[str, Any],
    context: Context,
) -> OneCall:
    """The compiled form of a call; the key is (kind, codes), the rest is for making it.

    It is made for what the codes say: meanwhile another thread may have cast an input, or moved it.
    """
    key = (kind, codes, plugin_generation())
    found = _CALLS.get(key)
    if found is None:
        found = _CALLS.find_old(key)
    if found is None:
        looks = [None if code == ABSENT else look_of(code) for code in codes]
        found = _CALLS.add(key, _compile(spec, looks, shapes, attributes, context))
    return found


def drawn_count(random_state: ArrayCell) -> int:
    """The count of calls of a random state, which is there in host memory."""
    storage: Any = random_state.storage
    return int(storage.array((2,), _INT64)[1])


def advance(random_state: ArrayCell | None, by: int = 1) -> None:
    """Raise the count of calls of a random state, which is there in host memory."""
    assert random_state is not None
    storage: Any = random_state.storage
    storage.array((2,), _INT64)[1] += by
    random_state.touched()


class OneCall:
    """One op, compiled for arrays that look like those it was made for, and run on any such arrays.

    This class takes the long way: each run binds a plan, of any number of steps on any devices. Its subclasses take
    shorter ones (`_run`) where they fit, and the long one while anything observes the calls.

    plan: the steps.  fallback: the decision, if it is one.  mutated: the inputs that are changed.
    """

    __slots__ = ("fallback", "mutated", "plan")

    def __init__(self, node: IRNode, plan: Plan, fallback: Decision | None) -> None:
        self.plan = plan
        self.fallback = fallback
        self.mutated = node.mutated

    def run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        """Compute. inputs must be settled; outputs: one cell per output, None for one that nobody wants."""
        if is_observed():
            OneCall._run(self, inputs, outputs, floats)
        else:
            self._run(inputs, outputs, floats)

    def _run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        """Compute the way of the class, while nothing observes it."""
        plan = self.plan
        absent = ArrayCell(0)
        results = list(outputs) if plan.targets else []
        in_plans = [cell for cell in outputs if cell is not None and cell.use]
        cells = [absent if cell is None else cell for cell in inputs]
        Binding(plan, cells, results, _floats_of(plan, floats)).run()
        for cell in in_plans:
            cell.touched()


class ShortCall(OneCall, ABC):
    """A call whose arrays are all in host memory, as its steps read them: it runs without a binding.

    outputs: dtype and count of elements of all outputs.
    """

    __slots__ = ("_random_state", "_sources", "outputs")

    def __init__(
        self, node: IRNode, plan: Plan, fallback: Decision | None, sources: Sequence[int], outputs: Sequence[Slot]
    ) -> None:
        super().__init__(node, plan, fallback)
        self._sources = list(sources)  # of each array that is read, which input of the call it is; -1: an absent one
        self.outputs: list[tuple[np.dtype, int]] = [(slot.desc.dtype, slot.desc.size) for slot in outputs]
        self._random_state = _random_state_of(node)

    def _run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        if WATCHES:
            announce(id(inputs[number]) for number in self.mutated)
        storages: list[Any] = [None if number < 0 else inputs[number].storage for number in self._sources]  # type: ignore[union-attr]  # settled
        held: list[ArrayCell] = []
        changed: list[Any] = [inputs[number] for number in self.mutated]  # what is mutated is there
        try:
            if changed:
                writer = get_ident()
                for cell in changed:
                    cell.writer = writer
                next(WRITES)  # who sees that nothing was written meanwhile need not look at these
            for (dtype, size), given in zip(self.outputs, outputs, strict=True):
                if given is None:
                    held.append(ArrayCell(size))
                    storages.append(held[-1].output(HOST, dtype))
                else:
                    changed.append(given)
                    storages.append(given.begin_write(HOST, dtype))
            if self._random_state >= 0:
                advance(inputs[self._random_state])
            status = self._compute(storages, floats)
        finally:
            for cell in changed:
                cell.end_write()
        if self.fallback is not None:
            count_fallback(self.fallback.op, self.fallback.backend)
        if status:
            self.fail(status, [0 if storage is None else storage.address for storage in storages])

    def fail(self, status: int, addresses: Sequence[int]) -> NoReturn:
        """Raise what the code of a kernel that failed means; addresses: of its inputs at least, in order."""
        raise native_error(self.plan.steps[0], status, addresses)

    @abstractmethod
    def _compute(self, storages: Sequence[Any], floats: Sequence[float]) -> int:
        """Run on the storages of inputs and outputs; what the kernel returned."""


class NativeCall(ShortCall):
    """A single native step, run by `run_call` of its backend's executor.

    `run_call(form, *values)` copies the argument block out of a form, puts the values into it, runs the kernel and
    gives what that returned.

    form: address of the words that `FormWord` names.
    workspaces: memory for the time of a run, or None.
    is_direct: whether its values are the addresses of all inputs and outputs as they come, that of a workspace if
        there are any, then the floats. What it changes is to be `touched` afterwards, and a random state, which is
        the last input, to be advanced before.
    """

    __slots__ = ("_executor", "_form", "form", "is_direct", "workspaces")

    place = HOST

    def __init__(self, node: IRNode, plan: Plan, fallback: Decision | None) -> None:
        (step,) = plan.steps
        assert step.prepared is not None
        sources = [-1 if slot < 0 else plan.slots[slot].source[1] for slot in step.arguments[: step.input_count]]
        results = [plan.slots[slot] for slot in step.arguments[step.input_count :]]
        super().__init__(node, plan, fallback, sources, results)
        workspace = step.prepared.workspace
        self.workspaces = spare_workspaces_of(workspace) if workspace else None
        self._form = form_of(plan, step)
        self.form: int = self._form.ctypes.data
        self._executor: Any = native_executor(step.backend)
        is_straight = all(number in (-1, position) for position, number in enumerate(sources))
        self.is_direct = is_straight and fallback is None

    @staticmethod
    def fits(spec: OpSpec, plan: Plan) -> bool:
        """Whether a call can run so. Long blocks are too much for the stack."""
        if spec.inplace or len(plan.steps) != 1:
            return False
        return plan.is_on_host and has_form(plan.steps[0]) and not _has_windows(plan)

    @property
    def launch(self) -> Callable[..., int]:
        """`run_call` of the executor, which puts a quicker one into its place at the first call."""
        run_call: Callable[..., int] = self._executor.run_call
        return run_call

    def inline_launch(self) -> InlineLaunch | None:
        """How an inline cache launches it: where it is a kernel and nothing else, which keeps the interpreter lock."""
        is_brief = self.workspaces is None and int(self._form[FormWord.PARTS]) == 0
        make = inline_maker([self._executor]) if is_brief else None
        return None if make is None else InlineLaunch(make, form=self.form)

    def _compute(self, storages: Sequence[Any], floats: Sequence[float]) -> int:
        return self.run_on([0 if storage is None else storage.address for storage in storages], floats)

    def run_on(self, addresses: Sequence[int], floats: Iterable[float]) -> int:
        """Run on the addresses of inputs and outputs; what the kernel returned."""
        status: int
        if self.workspaces is None:
            status = self._executor.run_call(self.form, *addresses, *floats)
        else:
            memory = self.workspaces.take()
            status = self._executor.run_call(self.form, *addresses, memory.address, *floats)
            self.workspaces.put(memory)
        return status


def _random_state_of(node: IRNode) -> int:
    """Which input is its random state; -1 where it has none."""
    return len(node.inputs) - 1 if node.spec is not None and node.spec.random else -1


def _has_windows(plan: Plan) -> bool:
    """Whether a step is given other arrays than those of the call as they are."""
    return any(slot.is_window for slot in plan.slots)


class ProgramCall(ShortCall):
    """Several native steps, run as one program."""

    __slots__ = ("_program",)

    def __init__(self, node: IRNode, plan: Plan, fallback: Decision | None) -> None:
        slots = plan.slots
        targets = [slots[number] for number in plan.targets]
        super().__init__(node, plan, fallback, [number for number, *_ in plan.requests], targets)
        given = [slots[slot].memory for *_, slot in plan.requests]
        self._program = by_address(plan, [*given, *(slot.memory for slot in targets)])

    @staticmethod
    def fits(spec: OpSpec, plan: Plan) -> bool:
        """Whether a call can run so."""
        return not spec.inplace and not spec.views and ByAddress.fits(plan)

    def _compute(self, storages: Sequence[Any], floats: Sequence[float]) -> int:
        self._program.run([storage.address for storage in storages], _floats_of(self.plan, floats))
        return 0


class PythonCall(ShortCall):
    """A single step that is a Python function of NumPy arrays."""

    __slots__ = ("_descs", "_function", "_workspace")

    def __init__(self, node: IRNode, plan: Plan, fallback: Decision | None) -> None:
        (step,) = plan.steps
        assert step.prepared is not None and step.prepared.run is not None
        slots = [None if number < 0 else plan.slots[number] for number in step.arguments]
        sources = [-1 if slot is None else slot.source[1] for slot in slots[: step.input_count]]
        results = [slot for slot in slots[step.input_count :] if slot is not None]
        super().__init__(node, plan, fallback, sources, results)
        self._workspace = step.prepared.workspace
        self._descs = [None if slot is None else (slot.desc.shape, slot.desc.dtype) for slot in slots]
        self._function = step.prepared.run

    @staticmethod
    def fits(spec: OpSpec, plan: Plan) -> bool:
        """Whether a call can run so."""
        if len(plan.steps) != 1 or not plan.is_on_host or _has_windows(plan):
            return False
        (step,) = plan.steps
        if step.node.spec is None or spec.inplace or spec.random or spec.opaque:
            return False
        if step.prepared is None or step.prepared.run is None:
            return False
        return all(plan.slots[number].source[0] == "target" for number in plan.targets)

    def _compute(self, storages: Sequence[Any], floats: Sequence[float]) -> int:
        arguments = [
            None if desc is None else storage.array(*desc) for desc, storage in zip(self._descs, storages, strict=False)
        ]
        if self._workspace:
            arguments.append(HostStorage(self._workspace).array((self._workspace,), _BYTE))
        guarded(self.plan.steps[0], self._function, [*arguments, *floats])
        return 0


class CastCall(OneCall):
    """A call in host memory that casts inputs first: not those of which the cast is kept (`kept_cast`).

    casts: the inputs that it casts, and the dtypes.  way: the call on inputs as they are, which are like `looks`.
    compile_for: compiles it for arrays like those given, some of which are casts.
    outputs: as of a `ShortCall`.
    """

    __slots__ = ("_casts", "_compile_for", "_copies", "_direct", "_forms", "_looks", "_way", "outputs")

    def __init__(
        self,
        node: IRNode,
        way: ShortCall,
        casts: Sequence[tuple[int, np.dtype]],
        looks: Sequence[Look | None],
        compile_for: Callable[[Sequence[Look | None]], OneCall],
    ) -> None:
        super().__init__(node, way.plan, way.fallback)
        self._casts, self._way, self._looks, self._compile_for = casts, way, looks, compile_for
        self._copies = [(number, (HOST, dtype)) for number, dtype in casts]
        self._forms: dict[int, OneCall] = {}  # by which casts are kept, a bit each
        self._direct: NativeCall | None = None  # the form for which all are, if that is direct
        self.outputs = way.outputs

    def direct_on(self, inputs: Sequence[ArrayCell | None]) -> tuple[NativeCall, list[Any]] | None:
        """A direct call to be made in the place of this one, and the storages that are its inputs.

        None: not all casts are kept, or the call on them is not direct, or was not made so far.
        """
        direct = self._direct
        if direct is None:
            return None
        storages: list[Any] = [None if cell is None else cell.storage for cell in inputs]
        for number, key in self._copies:
            copy = inputs[number].known_copy(key)  # type: ignore[union-attr]  # what is cast is there
            if copy is None:
                return None
            storages[number] = copy
        return direct, storages

    def _run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        given, which = list(inputs), 0
        for bit, (number, dtype) in enumerate(self._casts):
            cell = kept_cast(inputs[number], dtype)
            if cell is not None:
                given[number] = cell
                which |= 1 << bit
        if not which:
            self._way._run(inputs, outputs, floats)
            return
        form = self._forms.get(which)
        if form is None:
            looks = list(self._looks)
            for bit, (number, dtype) in enumerate(self._casts):
                if which >> bit & 1:
                    looks[number] = Look(HOST, dtype)
            form = self._forms[which] = self._compile_for(looks)
            if which + 1 == 1 << len(self._casts) and isinstance(form, NativeCall) and form.is_direct:
                self._direct = form
        form._run(given, outputs, floats)


class DeviceCall(OneCall):
    """A call on one device, whose inputs are there, or in host memory with the dtype that it reads.

    place: the memory of the device.  outputs: dtype and count of elements of all outputs, None for one left out.
    launch: `launch(form, *arrays by shape, *floats)`, with memory for the time of a run behind the outputs where there
        are `workspaces`.  form: nothing: that is for machine code.
    is_direct: whether `launch` may be given what the inputs have for an address.
    """

    __slots__ = ("_is_random", "form", "is_direct", "launch", "outputs", "place", "workspaces")

    def __init__(self, node: IRNode, plan: Plan, looks: Sequence[Look | None]) -> None:
        super().__init__(node, plan, None)
        step = plan.steps[0]
        self.place = plan.place_of(step)
        targets = [plan.slots[number] if number >= 0 else None for number in plan.targets]
        self.outputs = [None if slot is None else (slot.desc.dtype, slot.desc.size) for slot in targets]
        self.form = None
        self.workspaces = None
        if len(plan.steps) == 1:
            self.launch = launch_by_shape(plan, step)
            if step.workspace:
                self.workspaces = spare_workspaces_of(step.workspace, self.place)
        else:
            memories = dict.fromkeys(range(len(looks)), -1)  # of an absent input
            memories.update((number, plan.slots[slot].memory) for number, *_, slot in plan.requests)
            memories.update((~number, plan.slots[slot].memory) for number, slot in enumerate(plan.targets))
            self.launch = launch_all(plan, list(memories.values()))
        self._is_random = _random_state_of(node) >= 0
        self.is_direct = all(look is None or look.place is self.place for look in looks)

    @staticmethod
    def fits(node: IRNode, plan: Plan, looks: Sequence[Look | None]) -> bool:
        """Whether a call can run so."""
        spec = node.spec
        if spec is None or spec.inplace or spec.opaque or not plan.steps or plan.fallbacks:
            return False
        step = plan.steps[0]
        place = plan.place_of(step)
        return (
            place is not HOST
            and step.prepared is not None
            and step.prepared.run is not None
            and (len(plan.steps) == 1 or (PlanOnDevice.fits(plan) and not node.mutated))
            and all(number < 0 or plan.slots[number].source[0] == "target" for number in plan.targets)
            and all(look is None or look.place in (HOST, place) for look in looks)
            and _dtypes_fit(plan, looks)
        )

    def _run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        made: list[tuple[ArrayCell, np.dtype, Storage] | None] = []
        for output, given in zip(self.outputs, outputs, strict=True):
            if output is None:
                made.append(None)
                if given is not None:
                    given.leave_out()
            else:
                dtype, size = output
                cell = ArrayCell(size) if given is None else given
                made.append((cell, dtype, cell.reserve(self.place, dtype)))
        written = [each for each in made if each is not None]
        if WATCHES:
            announce(id(cell) for cell, *_ in written)
        arrays = [self._copied(cell) for cell in (inputs[:-1] if self._is_random else inputs)]
        writer = get_ident()
        try:
            for cell, *_ in written:
                cell.writer = writer
                cell.outdate_copies()
            if self._is_random:
                advance(inputs[-1])
                arrays.append(random_state_by_shape(inputs[-1]))
            self.compute(inputs, arrays, [None if each is None else each[2].address for each in made], floats)
            if EXPECTING and self._is_random:
                states = [arrays[-1][(2,)]]
                self.place.failures.remember(id(inputs[-1]), partial(go_back, states))
            # Not before: what a failed run leaves in there is no value of theirs.
            for cell, dtype, storage in written:
                cell.written_at(self.place, dtype, storage)
                if cell.use or cell.is_source:
                    cell.touched()
        finally:
            for cell, *_ in written:
                cell.writer = 0

    def inline_launch(self) -> InlineLaunch | None:
        """How an inline cache launches it: where it is one step."""
        is_alone = len(self.plan.steps) == 1 and self.workspaces is None
        return on_device(self.plan, self.plan.steps[0]) if is_alone else None

    def fetch(self, inputs: Sequence[ArrayCell | None]) -> list[Any]:
        """The present values of settled inputs on the device, each by shape (`DeviceStorage.address`).

        What is only read, and read there for the second time, comes to stay: later calls find it there.
        """
        place = self.place
        if not self.mutated:
            for cell in inputs:
                if cell is not None and cell.place is not place and cell.dtype is not None:
                    cell.come_to(place, cell.dtype)
        return [self._copied(cell) for cell in inputs]

    def _copied(self, cell: ArrayCell | None) -> Any:  # Any: the device's own array type, by shape
        if cell is None:
            return None
        assert cell.dtype is not None
        return fetched(cell, self.place, cell.dtype).address

    def compute(
        self,
        inputs: Sequence[ArrayCell | None],
        arrays: Sequence[Any],
        outputs: Sequence[Any],
        floats: Iterable[float],
    ) -> None:
        """Compute from the arrays of the inputs into others, all by shape; inputs that the op changes have new values.

        arrays: of a random op with its random state.
        """
        if not self.mutated:
            self._launch_with_workspace(arrays, outputs, floats)
            return
        changed: list[Any] = [inputs[number] for number in self.mutated]
        if WATCHES:
            announce(map(id, changed))
        try:
            self._launch_with_workspace(arrays, outputs, floats)
        finally:  # a launch that fails may have changed them
            for cell in changed:
                cell.touched()
        for cell in changed:
            cell.written_at(self.place, cell.dtype, cell.storage_at(self.place, cell.dtype))

    def _launch_with_workspace(self, arrays: Sequence[Any], outputs: Sequence[Any], floats: Iterable[float]) -> None:
        workspaces = self.workspaces
        if workspaces is None:
            self.launch(None, *arrays, *outputs, *floats)
            return
        memory = workspaces.take()
        self.launch(None, *arrays, *outputs, memory.address, *floats)
        workspaces.put(memory)


def random_state_by_shape(cell: ArrayCell | None) -> Any:  # Any: like an array of a device
    """A random state, which steps on devices read in host memory."""
    assert cell is not None
    storage: Any = cell.storage
    return {(2,): storage.array((2,), _INT64)}


def _compile(
    spec: OpSpec,
    looks: Sequence[Look | None],
    shapes: Sequence[tuple[int, ...] | None],
    attributes: Mapping[str, Any],
    context: Context,
    *,
    keeps_casts: bool = True,
) -> OneCall:
    """Compile a call for arrays like `looks`, to run the shortest way that fits.

    keeps_casts: whether what it casts of inputs may be kept.
    """
    graph = Graph(context)
    inputs: list[IRValue | None] = []
    for number, (look, shape) in enumerate(zip(looks, shapes, strict=True)):
        if look is None or shape is None:
            inputs.append(None)
        else:
            inputs.append(graph.external(number, ArrayDesc(shape, look.dtype)))
    slots = {name: graph.float_from("call", position) for position, name in enumerate(spec.float_names)}
    node = graph.add(spec, inputs, {**attributes, **slots}, context)
    results = [None if node.spares(position) else value for position, value in enumerate(node.outputs)]
    plan = lower(graph, [] if spec.views else results)
    fallback = node.decision if node.decision is not None and node.decision.fallback else None
    if _reads_as_given(plan, looks):
        for way in (NativeCall, ProgramCall, PythonCall):
            if way.fits(spec, plan):
                short = way(node, plan, fallback)
                casts = _casts_of(spec, looks, node) if keeps_casts else []
                if not casts:
                    return short
                compile_for = partial(
                    _compile, spec, shapes=shapes, attributes=attributes, context=context, keeps_casts=False
                )
                return CastCall(node, short, casts, looks, compile_for)
    if DeviceCall.fits(node, plan, looks):
        return DeviceCall(node, plan, looks)
    return OneCall(node, plan, fallback)


def _casts_of(spec: OpSpec, looks: Sequence[Look | None], node: IRNode) -> list[tuple[int, np.dtype]]:
    """The inputs that a node reads in another dtype than the arrays have, and in which."""
    changed = {*node.mutated, *spec.inplace.values()}
    return [
        (number, value.dtype)
        for number, (look, value) in enumerate(zip(looks, node.inputs, strict=True))
        if look is not None and value is not None and number not in changed and look.dtype != value.dtype
    ]


def _reads_as_given(plan: Plan, looks: Sequence[Look | None]) -> bool:
    """Whether all inputs are where and as they are read: what an op changes has to be there in its dtype first."""
    if -1 in plan.targets:
        return False  # the short ways compute all results
    return all(look is None or look.place is HOST for look in looks) and _dtypes_fit(plan, looks)


def _dtypes_fit(plan: Plan, looks: Sequence[Look | None]) -> bool:
    """Whether all inputs have the dtype in which they are read."""
    wanted = [(looks[number], dtype) for number, _, dtype, _ in plan.requests]
    return all(look is not None and look.dtype == dtype for look, dtype in wanted)


def _floats_of(plan: Plan, floats: Sequence[float]) -> list[float]:
    """The value of every float of a plan, those of the call given."""
    return [source[1] if source[0] == "constant" else floats[source[1]] for source in plan.floats]


def call_function(
    function: RecordedCall, inputs: Sequence[Value | None], outputs: Sequence[Value | None]
) -> tuple[OneCall, tuple[object, ...]]:
    """Run one function on given values, which need not be those of its graph; its state is that of its own.

    Returns the compiled call, and the shapes and codes of inputs that it was compiled for.
    """
    shapes: list[tuple[int, ...] | None] = [None if value is None else value.shape for value in inputs]
    function.setup(shapes)
    cells = [None if value is None else value.data.cell for value in inputs]
    if function.random_state is not None:
        cells.append(function.random_state)
        shapes.append((2,))
    spec = function.spec
    codes = settle_inputs(cells, function.context)
    call = one_call(function.kind, codes, spec, shapes, function.attributes, function.context)
    results: list[ArrayCell | None] = []
    for position, cell in enumerate(function.auxiliary):
        value = outputs[position] if position < len(outputs) else None
        results.append(cell if cell is not None or value is None else value.data.cell)
    call.run(cells, results, [function.attributes[name] for name in spec.float_names])
    _show_state(function, inputs, outputs)
    return call, (*shapes[: len(inputs)], *codes[: len(inputs)])


def _show_state(function: RecordedCall, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> None:
    """Give outputs that are not the function's own what it does not write to them: views, and results that it keeps."""
    for value, desc, cell in zip(outputs, function.output_descs, function.auxiliary, strict=False):
        if value is None:
            continue
        if function.spec.views and inputs[0] is not None:
            if value.data.cell is not inputs[0].data.cell:
                value.data = NdArray.over(inputs[0].data.cell, desc.shape)
        elif cell is not None and value.data.cell is not cell:
            value.data.copy_from(NdArray.over(cell, desc.shape))
