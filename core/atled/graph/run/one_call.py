"""One op at a time: the compiled form of a single call, found again by a small key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Template
from atled.graph.nodes.dispatch import compute_dtype
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.record.value import RecordedCall, Value
from atled.graph.run.binding import Binding, guarded, native_error
from atled.graph.run.by_address import ByAddress
from atled.limits.caches import Generations
from atled.ops.spec import OpSpec
from atled_contexts import Context, count_fallback, is_observed, native_executor, plugin_generation

ABSENT = -9
"""Stands for an absent optional input among the codes of a key."""

_SMALL = 4096  # elements: some microseconds, for which the interpreter lock is not worth giving away (parts = 0)
_BYTE = np.dtype(np.uint8)
_INT64 = np.dtype(np.int64)
_BLOCK_LIMIT = 2048  # words
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
    cells: Sequence[ArrayCell | None],
    shapes: Sequence[tuple[int, ...] | None],
    attributes: Mapping[str, Any],
    context: Context,
) -> OneCall:
    """The compiled form of a call; the key is (kind, codes), the rest is for making it."""
    key = (kind, codes, plugin_generation())
    found = _CALLS.get(key)
    if found is None:
        found = _CALLS.find_old(key)
    return _CALLS.add(key, OneCall(spec, cells, shapes, attributes, context)) if found is None else found


def advance(random_state: ArrayCell | None) -> None:
    """Raise the count of calls of a random state, which is there in host memory."""
    assert random_state is not None
    storage: Any = random_state.storage
    storage.array((2,), _INT64)[1] += 1
    random_state.touched()


class OneCall:
    """A template of one op, run on any cells that look like those it was made for.

    A single native step in host memory runs without a binding, by `run_call` of its backend's executor, if that has
    one. `run_call(form, *values)` copies the argument block out of a form, puts the values into it, runs the kernel and
    gives what that returned. A form is int64 words: kernel address, parts (0: keep the interpreter lock), words of the
    block, count of addresses, count of floats, per value its word in the block or -1, then the block.

    fallback: the decision, if it is one.
    outputs: where the short way can be taken, dtype and count of elements of all outputs; else None.
    is_direct: whether its values are the addresses of all inputs and outputs as they come, that of the workspace if
        there is one, then the floats. What it changes is to be `touched` afterwards, and a random state, which is
        the last input, to be advanced before.
    is_plain: whether it is direct, and nothing is changed and nothing drawn.
    mutated: the inputs that are changed.
    workspace: bytes of workspace that the short way wants.
    """

    __slots__ = (
        "_by_address",
        "_executor",
        "_form",
        "_forms",
        "_python",
        "_random_state",
        "_sources",
        "fallback",
        "form",
        "is_direct",
        "is_plain",
        "mutated",
        "outputs",
        "template",
        "workspace",
    )

    def __init__(
        self,
        spec: OpSpec,
        cells: Sequence[ArrayCell | None],
        shapes: Sequence[tuple[int, ...] | None],
        attributes: Mapping[str, Any],
        context: Context,
    ) -> None:
        graph = Graph(context)
        inputs: list[IRValue | None] = []
        for number, (cell, shape) in enumerate(zip(cells, shapes, strict=True)):
            if cell is None or shape is None:
                inputs.append(None)
            else:
                assert cell.dtype is not None
                inputs.append(graph.external(number, ArrayDesc(shape, cell.dtype)))
        slots = {name: graph.float_from("call", position) for position, name in enumerate(spec.float_names)}
        node = graph.add(spec, inputs, {**attributes, **slots}, context)
        self.template = lower(graph, [] if spec.views else list(node.outputs))
        self.fallback = node.decision if node.decision is not None and node.decision.fallback else None
        self.outputs: list[tuple[np.dtype, int]] | None = None
        self.is_direct = self.is_plain = False
        self.workspace = 0
        self._by_address: ByAddress | None = None
        self._python: Callable[..., None] | None = None
        self.mutated = tuple(spec.mutated)
        self._random_state = len(cells) - 1 if spec.random else -1
        if self._reads_as_given(cells):
            self._plan_native(self.template)
            if self.outputs is None and not spec.inplace and not spec.views and ByAddress.fits(self.template):
                self._plan_by_address(self.template)
            if self.outputs is None:
                self._plan_python(self.template)

    def _reads_as_given(self, cells: Sequence[ArrayCell | None]) -> bool:
        """Whether all inputs are where and as they are read: what an op changes has to be there in its dtype first."""
        in_host_memory = all(cell is None or cell.place is HOST for cell in cells)
        wanted = [(cells[number], dtype) for number, _, dtype, _ in self.template.requests]
        return in_host_memory and all(cell is not None and cell.dtype == dtype for cell, dtype in wanted)

    def _plan_native(self, template: Template) -> None:
        """Work out the short way, if there is one."""
        if len(template.steps) != 1 or template.steps[0].native is None:
            return
        (step,) = template.steps
        native = step.native
        assert native is not None and step.prepared is not None and step.node.spec is not None
        spec = step.node.spec
        self._executor: Any = native_executor(step.backend)
        if not hasattr(self._executor, "run_call") or any(slot.place is not HOST for slot in template.slots):
            return
        # Long blocks are too much for the stack.
        if spec.inplace or len(native.block) > _BLOCK_LIMIT:
            return
        self.workspace = step.prepared.workspace
        # Of each input that the step takes, which array of the call it is.
        self._sources = [
            -1 if slot < 0 else template.slots[slot].source[1] for slot in step.arguments[: step.input_count]
        ]
        parts = 0 if spec.program is not None and step.node.outputs[0].size <= _SMALL else native.parts
        real_words = [native.attributes.get(name, -1) for name in spec.float_names]
        head = [native.address, parts, len(native.block), len(native.arguments), len(real_words)]
        self._form = np.array([*head, *native.arguments, *real_words, *native.block], np.int64)
        self.form: int = self._form.ctypes.data
        descs = [template.slots[slot].desc for slot in step.arguments[step.input_count :]]
        self.outputs = [(desc.dtype, desc.size) for desc in descs]
        is_straight = all(number in (-1, position) for position, number in enumerate(self._sources))
        self.is_direct = is_straight and self.fallback is None
        self.is_plain = self.is_direct and not self.mutated and self._random_state < 0

    def _plan_by_address(self, template: Template) -> None:
        """Work out the way of several native steps."""
        slots = template.slots
        requests = [(number, slots[slot].memory) for number, _, _, slot in template.requests]
        self._sources = [number for number, _ in requests]
        self._by_address = ByAddress(
            template, [memory for _, memory in requests] + [slots[n].memory for n in template.targets]
        )
        self.outputs = [(slots[number].desc.dtype, slots[number].desc.size) for number in template.targets]

    def _plan_python(self, template: Template) -> None:
        """Work out the way of a single step that is a Python function on NumPy arrays."""
        if len(template.steps) != 1 or not template.is_on_host:
            return
        (step,) = template.steps
        spec, prepared = step.node.spec, step.prepared
        if spec is None or spec.inplace or spec.random or spec.opaque or prepared is None or prepared.run is None:
            return
        if any(template.slots[number].source[0] != "target" for number in template.targets):
            return
        slots = [None if number < 0 else template.slots[number] for number in step.arguments]
        self._sources = [-1 if slot is None else slot.source[1] for slot in slots[: step.input_count]]
        self._forms = [None if slot is None else (slot.desc.shape, slot.desc.dtype) for slot in slots]
        self._python = prepared.run
        self.workspace = prepared.workspace
        self.outputs = [(slot.desc.dtype, slot.desc.size) for slot in slots[step.input_count :] if slot is not None]

    @property
    def launch(self) -> Callable[..., int]:
        """`run_call` of the executor that runs it the short way."""
        run_call: Callable[..., int] = self._executor.run_call
        return run_call

    def run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        """Compute. inputs must be settled; outputs: one cell per output, None for one that nobody wants."""
        if self.outputs is None or is_observed():
            self._run_bound(inputs, outputs, floats)
            return
        if WATCHES:
            announce(id(inputs[number]) for number in self.mutated)
        # Those that the short ways take are in host memory.
        storages: list[Any] = [None if number < 0 else inputs[number].storage for number in self._sources]  # type: ignore[union-attr]
        held: list[object] = []
        for (dtype, size), given in zip(self.outputs, outputs, strict=True):
            cell = ArrayCell(size) if given is None else given
            held.append(cell)
            storages.append(cell.output(HOST, dtype))
        if self.workspace:
            storages.append(HostStorage(self.workspace))
        if self._random_state >= 0:
            advance(inputs[self._random_state])
        status = 0
        if self._python is not None:
            self._run_python(storages, floats)
        else:
            values: list[float] = [0 if storage is None else storage.address for storage in storages]
            if self._by_address is None:
                status = self._executor.run_call(self.form, *values, *floats)
            else:
                self._run_by_address(self._by_address, values, floats)
        for number in self.mutated:
            inputs[number].touched()  # type: ignore[union-attr]  # what is mutated is there
        if self.fallback is not None:
            count_fallback(self.fallback.op, self.fallback.backend)
        if status:
            raise native_error(self.template.steps[0], status)

    def _run_python(self, storages: Sequence[Any], floats: Sequence[float]) -> None:
        """The way of a Python function."""
        arguments = [
            None if form is None else storage.array(*form) for form, storage in zip(self._forms, storages, strict=False)
        ]
        if self.workspace:
            arguments.append(storages[-1].array((self.workspace,), _BYTE))
        step = self.template.steps[0]
        assert self._python is not None
        guarded(step, self._python, [*arguments, *floats])

    def _run_by_address(self, by_address: ByAddress, values: Sequence[Any], floats: Sequence[float]) -> None:
        """The way of several native steps."""
        sources = self.template.floats
        by_address.run(values, [source[1] if source[0] == "constant" else floats[source[1]] for source in sources])

    def _run_bound(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        """The long way: any number of steps on any devices."""
        template = self.template
        absent = ArrayCell(0)
        values = [source[1] if source[0] == "constant" else floats[source[1]] for source in template.floats]
        results = list(outputs) if template.targets else []
        in_plans = [cell for cell in outputs if cell is not None and cell.plans]
        Binding(template, [absent if cell is None else cell for cell in inputs], results, values).run()
        for cell in in_plans:
            cell.touched()


def call_function(function: RecordedCall, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> OneCall:
    """Run one function on given values, which need not be those of its graph; its state is that of its own.

    Returns the compiled call.
    """
    shapes: list[tuple[int, ...] | None] = [None if value is None else value.shape for value in inputs]
    function.setup(shapes)
    cells = [None if value is None else value.data.cell for value in inputs]
    if function.random_state is not None:
        cells.append(function.random_state)
        shapes.append((2,))
    spec = function.spec
    codes = settle_inputs(cells, function.context)
    call = one_call(function.kind, codes, spec, cells, shapes, function.attributes, function.context)
    results: list[ArrayCell | None] = []
    for position, cell in enumerate(function.auxiliary):
        value = outputs[position] if position < len(outputs) else None
        results.append(cell if cell is not None or value is None else value.data.cell)
    call.run(cells, results, [function.attributes[name] for name in spec.float_names])
    _show_state(function, inputs, outputs)
    return call


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
