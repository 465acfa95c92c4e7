"""One op at a time: the compiled form of a single call, found again by a small key."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array import ArrayCell
from atled.call import ArrayDesc
from atled.graph.binding import Binding, native_error
from atled.graph.dispatch import compute_dtype
from atled.graph.ir import Graph, IRValue
from atled.graph.lowering import lower
from atled.graph.plan import Template
from atled.ops.spec import OpSpec
from atled.place import HOST
from atled.storage import HostStorage
from atled_contexts import Context, count_fallback, is_observed, native_executor, plugin_generation

ABSENT = -9
"""Stands for an absent optional input among the codes of a key."""

_LIMIT = 20_000
_SMALL = 4096  # elements: some microseconds, for which the interpreter lock is not worth giving away (parts = 0)
_CALLS: dict[Hashable, OneCall] = {}


def settle_inputs(cells: Sequence[ArrayCell | None], context: Context) -> tuple[int, ...]:
    """Make sure that the inputs hold values; their codes."""
    codes = []
    for cell in cells:
        if cell is None:
            codes.append(ABSENT)
            continue
        if cell.lazy is not None or cell.storage is None:
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
        if len(_CALLS) >= _LIMIT:
            _CALLS.clear()
        found = _CALLS[key] = OneCall(spec, cells, shapes, attributes, context)
    return found


class OneCall:
    """A template of one op, run on any cells that look like those it was made for.

    A single native step in host memory runs without a binding: its addresses are written into a spare argument block.
    """

    __slots__ = (
        "_address",
        "_addresses",
        "_blocks",
        "_executor",
        "_float_words",
        "_mutated",
        "_native",
        "_outputs",
        "_parts",
        "_workspace",
        "fallback",
        "template",
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
        self._native = all(cell is None or cell.place is HOST for cell in cells) and self._plan_native(self.template)

    def _plan_native(self, template: Template) -> bool:
        """Work out the short way, if there is one."""
        if len(template.steps) != 1 or template.steps[0].native is None:
            return False
        (step,) = template.steps
        native = step.native
        executor: Any = native_executor(step.backend)
        if not hasattr(executor, "run_kernel") or any(slot.place is not HOST for slot in template.slots):
            return False
        assert native is not None and step.prepared is not None and step.node.spec is not None
        words = list(native.arguments)
        self._workspace = step.prepared.workspace
        self._addresses = [
            (words[position], template.slots[slot].source[1])
            for position, slot in enumerate(step.arguments[: step.input_count])
            if slot >= 0 and words[position] >= 0
        ]
        self._outputs = [
            (words[step.input_count + position], template.slots[slot].desc.dtype)
            for position, slot in enumerate(step.arguments[step.input_count :])
        ]
        if self._workspace:
            self._addresses.append((words[len(step.arguments)], -1))
        self._float_words = [native.attributes.get(name, -1) for name in step.node.spec.float_names]
        self._mutated = tuple(step.node.spec.mutated)
        self._executor = executor
        self._address = native.address
        self._parts = native.parts
        if step.node.spec.program is not None and step.node.outputs[0].size <= _SMALL:
            self._parts = 0
        self._blocks = [self._new_block()]
        # A random op has its call count raised by a binding.
        return not step.node.spec.inplace and not step.node.spec.random

    def _new_block(self) -> tuple[np.ndarray, np.ndarray, int]:
        """An argument block as int64, the same as float64, and its address."""
        native = self.template.steps[0].native
        assert native is not None
        block = native.block.copy()
        return block, block.view(np.float64), block.ctypes.data

    def run(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        """Compute. inputs must be settled; outputs: one cell per output, None for one that nobody wants."""
        if not self._native or is_observed():
            self._run_bound(inputs, outputs, floats)
            return
        blocks = self._blocks
        # Popping is atomic: each thread has a block of its own.
        spare = blocks.pop() if blocks else self._new_block()
        block, real_block, address = spare
        for word, number in self._addresses:
            if number >= 0:
                block[word] = inputs[number].storage.address
        kept: list[object] = []
        if self._workspace:
            scratch = HostStorage(self._workspace)
            kept.append(scratch)
            block[self._addresses[-1][0]] = scratch.address
        for (word, dtype), cell in zip(self._outputs, outputs, strict=True):
            if cell is None:
                cell = ArrayCell(self._output_size(word))
                kept.append(cell)
            block[word] = cell.output(HOST, dtype).address  # type: ignore[union-attr]  # host memory
        for word, value in zip(self._float_words, floats, strict=True):
            if word >= 0:
                real_block[word] = value
        status = self._executor.run_kernel(self._address, address, self._parts)
        blocks.append(spare)
        if self._mutated:
            for number in self._mutated:
                inputs[number].touched()  # type: ignore[union-attr]  # what is mutated is there
        if self.fallback is not None:
            count_fallback(self.fallback.op, self.fallback.backend)
        if status:
            raise native_error(self.template.steps[0], status)

    def _output_size(self, word: int) -> int:
        step = self.template.steps[0]
        position = [w for w, _ in self._outputs].index(word)
        return self.template.slots[step.arguments[step.input_count + position]].desc.size

    def _run_bound(
        self, inputs: Sequence[ArrayCell | None], outputs: Sequence[ArrayCell | None], floats: Sequence[float]
    ) -> None:
        """The long way: any number of steps on any devices."""
        template = self.template
        absent = ArrayCell(0)
        values = [source[1] if source[0] == "constant" else floats[source[1]] for source in template.floats]
        results = list(outputs) if template.targets else []
        in_plans = [cell for cell in outputs if cell is not None and cell.bound]
        Binding(template, [absent if cell is None else cell for cell in inputs], results, values).run()
        for cell in in_plans:
            cell.touched()
