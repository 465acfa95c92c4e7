"""The intermediate representation: nodes, whose implementations are chosen when they are added, and their values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.place import HOST, Place
from atled.errors import RefusedError, four_parts
from atled.graph.nodes.dispatch import BetweenTransposes, choose, choose_anywhere, choose_strided, is_sparing, place_of
from atled.ops.spec import SPECS, Attribute, Input, OpSpec
from atled.strides import Window, bounds, is_injective, leaves, overlap, reshape, whole
from atled_contexts import Context, Decision

_NOTHING: Mapping[int, Any] = {}


class ChangedElsewhereError(RuntimeError):
    """An op would change another copy of an array than the one that the run makes or changes."""


class WindowOp(OpSpec, abstract=True):
    """Elements of the memory in which its input is, from number `offset` on, by strides; exists only inside graphs.

    Strides and offset count elements of that whole memory, whatever part of it the input shows.
    """

    inputs = (Input("x", kind="keep"),)
    attributes = (Attribute("shape", "ints"), Attribute("strides", "ints"), Attribute("offset", "int"))
    views = True
    no_gradient = "raises"

    def infer(self, x: ArrayDesc, *, shape: tuple[int, ...], **_: Any) -> ArrayDesc:
        return ArrayDesc(shape, x.dtype)


_WINDOW = WindowOp("Window", "A window on an array.")


class FloatSlot:
    """A float attribute whose value is known only when the plan runs; rules may pass it on, nothing else."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def _opaque(self, *_: object) -> float:
        raise TypeError("a float attribute is a run-time value: a gradient rule can only pass it on to another op")

    __float__ = __bool__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __neg__ = _opaque
    __truediv__ = __lt__ = __gt__ = __le__ = __ge__ = _opaque

    def __repr__(self) -> str:
        return f"<float {self.index}>"


def digits_of(value: float) -> str:
    """A float in hexadecimal, for keys: 0.0 equals -0.0, which is another number, and NaN not itself."""
    return float(value).hex()


class IRArray:
    """An array whose values nodes change: each change gives it a next version, which is a value of the graph.

    Version 0 is what it holds before the plan runs, version k what it holds after k changes.

    values: those of the versions from 1 on.  names: views of the last of them, by the values for which they stand.
    """

    __slots__ = ("names", "values")

    def __init__(self) -> None:
        self.values: list[IRValue] = []
        self.names: dict[IRValue, IRValue] = {}

    @property
    def version(self) -> int:
        """The last one."""
        return len(self.values)

    def change(self, value: IRValue) -> None:
        """Take a value as the next version."""
        self.values.append(value)
        value.version = len(self.values)
        self.names.clear()


class IRValue:
    """What an array of a graph holds from one node to another: its looks, where it lives, which node makes it.

    desc: shape and dtype.
    node, position: the node that makes it and which of its outputs it is; node is None for an external value, position
        -1 for an input that the node changed and does not return.
    external: number of the array outside the graph that holds it before the plan runs, or -1.
    shows: the value that it is a view of; itself unless it is one.  version: which of its array, where it is no view.
    base: the value whose memory it has; itself unless it is a view, or what a node made of an array in place, or in
        another order of axes: then one that no node makes.
    offset: elements of that memory in front of its first one.
    array: what it is a version of, where it is its base; None if it is none outside and no node changes it.
    known_as: the value that asks for its gradient: itself, unless it is a later version of that one.
    """

    __slots__ = (
        "_place",
        "array",
        "base",
        "desc",
        "external",
        "graph",
        "known_as",
        "node",
        "offset",
        "position",
        "shows",
        "version",
    )

    def __init__(
        self,
        graph: Graph,
        desc: ArrayDesc,
        place: Place | None,
        node: IRNode | None = None,
        position: int = 0,
        external: int = -1,
        base: IRValue | None = None,
        known_as: IRValue | None = None,
        offset: int = 0,
    ) -> None:
        self.graph = graph
        self.desc = desc
        self._place = place
        self.node = node
        self.position = position
        self.external = external
        self.base = self if base is None else base
        self.offset = offset
        self.shows = self
        self.version = 0
        self.known_as = self if known_as is None else known_as
        self.array: IRArray | None = None

    @property
    def place(self) -> Place | None:
        """The memory; None for an external value without a reader so far, whose place its first reader decides."""
        return self.base._place

    def place_at(self, place: Place | None) -> None:
        """Decide on a place, if it has none yet."""
        if self.base._place is None:
            self.base._place = place

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes per axis."""
        return self.desc.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.desc.dtype

    @property
    def ndim(self) -> int:
        """Count of axes."""
        return len(self.desc.shape)

    @property
    def size(self) -> int:
        """Count of elements."""
        return self.desc.size

    @property
    def is_view(self) -> bool:
        """Whether it shows another value."""
        return self.shows is not self

    @property
    def window(self) -> Window:
        """Which elements of its memory it has."""
        return Window(self.desc.shape, self.desc.written_strides, self.offset)

    @property
    def is_window(self) -> bool:
        """Whether it has other elements of its memory than all, or those in another order."""
        base = self.base
        if base is self:
            return False
        return bool(self.offset) or self.desc.strides is not None or self.desc.size != base.desc.size

    def is_same_window(self, other: IRValue) -> bool:
        """Whether two values that share memory have the same elements of it, in the same order."""
        if not (self.desc.is_contiguous and other.desc.is_contiguous):
            return self.offset == other.offset and self.desc == other.desc
        return self.offset == other.offset and self.size == other.size

    def shares_memory(self, other: IRValue) -> bool:
        """Whether two values have the same memory, or that of one array in one dtype."""
        if self.base is other.base:
            return True
        return self.base.array is not None and self.base.array is other.base.array and self.dtype == other.dtype

    def touches(self, other: IRValue) -> bool:
        """Whether an element of the one is an element of the other."""
        return self.shares_memory(other) and overlap(self.window, other.window)

    def interferes(self, other: IRValue) -> bool:
        """Whether it is, but not always that in its own place."""
        return self.shares_memory(other) and not self.is_same_window(other) and overlap(self.window, other.window)

    @property
    def is_in_place(self) -> bool:
        """Whether the node that makes it has changed the memory of another value for that."""
        base = self.base
        return base is not self and not self.is_view and (base.node is not None or base.external >= 0)

    def _operate(self, other: IRValue | float, op: str, scalar_op: str, sign: int = 1) -> IRValue:
        if isinstance(other, IRValue):
            return self.graph.op(op, self, other)
        return self.graph.op(scalar_op, self, val=sign * other)

    def __add__(self, other: IRValue | float) -> IRValue:
        return self._operate(other, "Add2", "AddScalar")

    def __sub__(self, other: IRValue | float) -> IRValue:
        return self._operate(other, "Sub2", "AddScalar", -1)

    def __mul__(self, other: IRValue | float) -> IRValue:
        return self._operate(other, "Mul2", "MulScalar")

    def __truediv__(self, other: IRValue | float) -> IRValue:
        if isinstance(other, IRValue):
            return self.graph.op("Div2", self, other)
        return self.graph.op("MulScalar", self, val=1.0 / other)

    def __pow__(self, exponent: float) -> IRValue:
        return self.graph.op("PowScalar", self, val=exponent)

    def __neg__(self) -> IRValue:
        return self.graph.op("MulScalar", self, val=-1.0)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> IRValue:
        return self.graph.op("RSubScalar", self, val=other)

    def __rtruediv__(self, other: float) -> IRValue:
        return self.graph.op("RDivScalar", self, val=other)

    def __repr__(self) -> str:
        return f"<{self.desc} on {self.place}>"


class IRNode:
    """One op call in a graph.

    spec, attributes: what; float attributes are FloatSlots.  inputs: None where an optional one is absent.
    decision: who computes it; None for a view, which needs no work, and for a transfer between memories.
    computed: True if its outputs already exist outside (a forward op seen from a backward graph).
    changed: per position of an input that it changes in place, the next version of that.
    is_sparing: whether nobody needs its auxiliary outputs, not even its gradient.
    """

    __slots__ = ("attributes", "changed", "computed", "context", "decision", "inputs", "is_sparing", "outputs", "spec")

    def __init__(
        self,
        spec: OpSpec | None,
        inputs: tuple[IRValue | None, ...],
        attributes: Mapping[str, Any],
        context: Context,
        decision: Decision | None,
        computed: bool = False,
    ) -> None:
        self.spec = spec
        self.inputs = inputs
        self.attributes = attributes
        self.context = context
        self.decision = decision
        self.computed = computed
        self.outputs: tuple[IRValue, ...] = ()
        self.changed: Mapping[int, IRValue] = _NOTHING
        self.is_sparing = False

    def make(self, outputs: Iterable[IRValue], changed: Mapping[int, IRValue] = _NOTHING) -> None:
        """Make values that other nodes made before."""
        self.outputs = tuple(outputs)
        self.changed = changed
        for position, value in enumerate(self.outputs):
            value.node = self
            value.position = position

    def spares(self, position: int) -> bool:
        """Whether an output is an auxiliary one that nobody needs."""
        return self.is_sparing and position >= len(self.outputs) - len(self.spec.auxiliary if self.spec else ())

    @property
    def mutated(self) -> tuple[int, ...]:
        """The positions of the inputs that it changes in place, but for those that are outputs, too."""
        return () if self.spec is None else self.spec.mutated_with(self.attributes)

    @property
    def name(self) -> str:
        """The op's name; "Transfer" for a copy between memories."""
        return "Transfer" if self.spec is None else self.spec.name

    def __repr__(self) -> str:
        return f"<{self.name} {list(self.inputs)} -> {list(self.outputs)}>"


class Graph:
    """A graph of nodes, not the user's of recorded calls: in an order in which they can run, being built.

    context: that of nodes which gradient rules add; set to the context of the node whose rule runs.
    floats: where each float comes from: ("constant", value), ("function", number of the call, attribute name), or
        ("solver", place of the parameter among those that move, attribute name).
    reads_latest: whether nodes that are added read every array as the nodes before them leave it; from the first change
        of one on until the graph is lowered, by passes that name the versions.
    by_operands: whether nodes that are added take their dtypes from their inputs, by NumPy's promotion, instead of from
        the type configs of their Contexts.
    is_recorded: whether the nodes become functions of the user's graph, instead of steps of a plan.
    is_in_parts: whether formulas are in parts, or apart from steps that could carry them, so that none is compiled: the
        plan is to run once.
    """

    is_recorded = False
    is_in_parts = False

    def __init__(self, context: Context, aliases: Sequence[int] = (), by_operands: bool = False) -> None:
        """aliases: per outside array the number of the first that is the same one; those beyond are all different."""
        self.context = context
        self.nodes: list[IRNode] = []
        self.floats: list[tuple[Any, ...]] = []
        self.reads_latest = False
        self.by_operands = by_operands
        self._aliases = aliases
        self._has_windows = False
        self._copies: dict[tuple[IRValue, Context], IRValue] = {}
        self._arrays: dict[int, IRArray] = {}
        self._external_at: dict[tuple[int, tuple[int, ...], Place | None, np.dtype], IRValue] = {}
        self._moved: dict[tuple[IRValue, Place], IRValue] = {}
        self._constants: dict[str, FloatSlot] = {}

    @property
    def has_windows(self) -> bool:
        """Whether there are windows on memory among the nodes."""
        return self._has_windows

    def array(self, number: int) -> IRArray:
        """The outside array of a number."""
        first = self._aliases[number] if number < len(self._aliases) else number
        found = self._arrays.get(first)
        if found is None:
            found = self._arrays[first] = IRArray()
        return found

    def external(self, number: int, desc: ArrayDesc, place: Place | None = None) -> IRValue:
        """What outside array `number` holds before the plan runs, at a place and in a dtype; one IRValue for each.

        place: None for where it is first used, so that a plan does not depend on where the array happens to be.
        """
        assert desc.is_contiguous, "windows are views of a whole array"
        key = (number, desc.shape, place, desc.dtype)
        value = self._external_at.get(key)
        if value is None:
            value = self._external_at[key] = IRValue(self, desc, place, external=number)
            value.array = self.array(number)
        return value

    def store(self, value: IRValue, number: int) -> None:
        """Have a value that a step makes in memory of its own become the next version of outside array `number`."""
        array = self.array(number)
        assert value.array is None and value.base is value and value.external < 0
        value.array = array
        array.change(value)
        self.reads_latest = True

    def current(self, value: IRValue) -> IRValue:
        """What the array of a value holds behind all nodes so far: the value itself, unless one changed it since."""
        array = value.base.array
        if array is None or value.shows.version == array.version:
            return value
        latest = array.values[-1]
        if latest.known_as is value.known_as and latest.desc == value.desc and latest.offset == value.offset:
            return latest
        found = array.names.get(value.known_as)
        if found is None:
            if value.is_window or latest.is_window:
                found = self._window(latest, value.window, value.known_as)
            else:
                found = self._show(latest, value.shape, value.known_as)
            array.names[value.known_as] = found
        return found

    def _show(self, value: IRValue, shape: tuple[int, ...], known_as: IRValue | None = None) -> IRValue:
        """A view of a value."""
        attributes = {"shape": shape, "inplace": True}
        return self._add_view(SPECS["Reshape"], value, attributes, self.context, False, known_as).outputs[0]

    def window(self, value: IRValue, window: Window) -> IRValue:
        """A window on the memory in which a value is; strides and offset count from the first element of that."""
        if self.reads_latest:
            value = self.current(value)
        if not window.size:
            window = window._replace(offset=0)  # beyond the end there is no address
        if window == value.window:
            return value
        if leaves(window, value.base.size):
            first, end = bounds(window)
            raise RefusedError(
                four_parts(
                    f"a window of shape {window.shape}, strides {window.strides}, offset {window.offset}",
                    f"it names elements {first} to {end - 1} of an array of {value.base.size}",
                    "",
                    "keep shape, strides and offset, which count elements, within the array",
                )
            )
        return self._window(value, window)

    def _window(self, value: IRValue, window: Window, known_as: IRValue | None = None) -> IRValue:
        self._has_windows = True
        node = IRNode(_WINDOW, (value,), window._asdict(), self.context, None)
        desc = ArrayDesc(window.shape, value.dtype, window.strides)
        return self._shown(node, value, desc, window.offset, known_as)

    def _shown(self, node: IRNode, source: IRValue, desc: ArrayDesc, offset: int, known_as: IRValue | None) -> IRValue:
        """What the node of a view makes."""
        output = IRValue(self, desc, None, node, 0, base=source.base, known_as=known_as, offset=offset)
        output.shows = source.shows
        node.outputs = (output,)
        self.nodes.append(node)
        return output

    def assign(self, target: IRValue, value: IRValue) -> IRValue:
        """Have an array hold a value, broadcast and cast to what it holds: the next version of the target.

        target: an outside array, or a window on one.
        """
        if not is_injective(target.window):
            raise RefusedError(
                four_parts(
                    f"an assignment to a window of shape {target.shape}, strides {target.desc.written_strides}",
                    "some of its elements are one element of the array",
                    "",
                    "assign to a window whose elements are all different ones",
                )
            )
        if value.dtype != target.dtype:
            value = self.op("Cast", value, dtype=target.dtype)
        node = self.add(SPECS["Assign"], (target, value), {}, self.context)
        return node.outputs[0]

    def assign_within(self, made: IRValue, window: Window, value: IRValue) -> IRValue:
        """Have a window on a value that was made hold another one, wherever that can be done: the value there."""
        inputs = self.window(made, window), value
        _, place = self._decided(SPECS["Assign"], inputs, {}, self.context)
        made = self.coerce(self.current(made), place, made.dtype, self.context)
        self.assign(self.window(made, window), value)
        return made

    def constant(self, value: float) -> FloatSlot:
        """A float that never changes."""
        digits = digits_of(value)
        slot = self._constants.get(digits)
        if slot is None:
            slot = self._constants[digits] = self.float_from("constant", value)
        return slot

    def float_from(self, *source: Any) -> FloatSlot:
        """A float that is looked up when the plan is bound."""
        self.floats.append(source)
        return FloatSlot(len(self.floats) - 1)

    def op(self, name: str, *inputs: IRValue | None, **attributes: Any) -> Any:
        """Add a node for an op: its output, or a tuple if it has several (auxiliary ones included)."""
        spec = SPECS.get(name) or _derived(name)
        given_now = attributes
        if spec.float_names:
            given_now = {k: 0.0 if isinstance(v, FloatSlot) else v for k, v in attributes.items()}
        checked = spec.check_attributes(given_now, [None if v is None else v.desc for v in inputs])
        for key in spec.float_names:
            given = attributes.get(key)
            checked[key] = given if isinstance(given, FloatSlot) else self.constant(checked[key])
        outputs = self.add(spec, inputs, checked, self.context).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def add(
        self,
        spec: OpSpec,
        inputs: Sequence[IRValue | None],
        attributes: Mapping[str, Any],
        context: Context,
        computed: bool = False,
    ) -> IRNode:
        """Add a node with checked attributes; inputs are cast and moved to where the chosen implementation runs."""
        if self.reads_latest:
            inputs = [None if value is None else self.current(value) for value in inputs]
        if spec.views:
            assert inputs[0] is not None
            return self._add_view(spec, inputs[0], attributes, context, computed)
        changing = (*spec.mutated_with(attributes), *spec.inplace.values())
        if changing:
            inputs = self._apart(changing, inputs, context)
            if self._has_windows and spec is not SPECS["Assign"]:
                node = self._on_copies(spec, changing, inputs, attributes, context)
                if node is not None:
                    return node
        decision, place = self._decided(spec, inputs, attributes, context)
        coerced: list[IRValue | None] = []
        items, last = spec.inputs, len(spec.inputs) - 1
        for position, (value, desc) in enumerate(zip(inputs, decision.call.inputs, strict=True)):
            if value is None or desc is None:
                coerced.append(value)
                continue
            item = items[position if position < last else last]
            if item.kind == "random_state":
                value.place_at(HOST)
                coerced.append(value)
            elif position in changing:
                coerced.append(self._mutable(value, place, desc.dtype, spec))
            else:
                where = HOST if item.on_host else place
                if (
                    self._has_windows
                    and value.is_window
                    and not self._is_taken(value, desc, item.name, decision, where)
                ):
                    value = self._copy(value, context)
                is_there = value.base._place is where and value.desc.dtype == desc.dtype  # as nearly all are
                coerced.append(value if is_there else self.coerce(value, where, desc.dtype, context))
        node = IRNode(spec, tuple(coerced), attributes, context, decision, computed)
        node.is_sparing = is_sparing(decision, context)
        if changing and not computed:
            changed = self._change(node)
            node.outputs = tuple(
                changed[spec.inplace[position]]
                if position in spec.inplace
                else IRValue(self, desc, place, node, position)
                for position, desc in enumerate(decision.call.outputs)
            )
        else:
            outputs = enumerate(decision.call.outputs)
            node.outputs = tuple([IRValue(self, desc, place, node, position) for position, desc in outputs])
        self.nodes.append(node)
        return node

    def _decided(
        self, spec: OpSpec, inputs: Sequence[IRValue | None], attributes: Mapping[str, Any], context: Context
    ) -> tuple[Decision, Place]:
        """Who computes a call, and where."""
        descs = tuple([None if value is None else value.desc for value in inputs])
        if self._has_windows and any(desc is not None and desc.strides is not None for desc in descs):
            decision = choose_strided(spec, descs, attributes, context, by_operands=self.by_operands)
        else:
            decision = choose(spec, descs, attributes, context, by_operands=self.by_operands)
        place = place_of(decision, context)
        if self._has_windows and not self._copies_from(spec, inputs, decision, place):
            decision = choose_anywhere(spec, descs, context, by_operands=self.by_operands)
            place = place_of(decision, context)
        return decision, place

    @staticmethod
    def _is_taken(value: IRValue, desc: ArrayDesc, name: str, decision: Decision, place: Place) -> bool:
        """Whether a window can be an input as it is, or is cast first, which makes a copy of it.

        desc: what the call has there.
        """
        spec, implementation = decision.call.spec, decision.implementation
        # Code of the user is given whole arrays; loops on a device launch their steps on rows of whole ones. Transposes
        # that a plan puts around a call are of arrays, which nothing changes in between.
        if spec.opaque or (spec.by_engine and place is not HOST) or isinstance(implementation, BetweenTransposes):
            return False
        if desc.dtype != value.dtype:
            return True
        if desc.strides != value.desc.strides:
            return False
        if value.desc.is_contiguous and place.begins_anywhere(value.offset * value.dtype.itemsize):
            return True
        return implementation.takes_strides((name,))

    def _apart(
        self, changing: Sequence[int], inputs: Sequence[IRValue | None], context: Context
    ) -> list[IRValue | None]:
        """The inputs of a call that changes some, with copies of those that it would overwrite while it reads them."""
        changed = [value for n in changing if (value := inputs[n]) is not None]
        return [
            self._copy(value, context)
            if value is not None and any(value.interferes(other) for other in changed)
            else value
            for value in inputs
        ]

    def _copy(self, value: IRValue, context: Context) -> IRValue:
        """The elements of a window in memory of their own; one copy for all."""
        found = self._copies.get((value, context))
        if found is None:
            found = self.add(SPECS["Identity"], (value,), {}, context).outputs[0]
            self._copies[value, context] = found
        return found

    def _copies_from(self, spec: OpSpec, inputs: Sequence[IRValue | None], decision: Decision, place: Place) -> bool:
        """Whether a copy can be made where it was decided, from or to a window that begins anywhere."""
        value = inputs[0] if spec is SPECS["Identity"] or spec is SPECS["Assign"] else None
        if value is None or not value.is_window:
            return True
        return self._is_taken(value, value.desc, spec.input_names[0], decision, place)

    def _on_copies(
        self,
        spec: OpSpec,
        changing: Sequence[int],
        inputs: Sequence[IRValue | None],
        attributes: Mapping[str, Any],
        context: Context,
    ) -> IRNode | None:
        """A node that changes copies of windows, which are assigned then; None where it changes them in place."""
        windows = [n for n in changing if (value := inputs[n]) is not None and value.is_window]
        if not windows:
            return None
        descs = tuple(None if value is None else value.desc.contiguous for value in inputs)
        decision = choose(spec, descs, attributes, context, by_operands=self.by_operands)
        place = place_of(decision, context)
        copied = list(inputs)
        for n in windows:
            value = inputs[n]
            assert value is not None
            if not self._is_taken(value, value.desc, spec.input_at(n).name, decision, place):
                made = self.add(SPECS["Identity"], (value,), {}, context).outputs[0]
                copied[n] = self.coerce(made, place, value.dtype, context)
        if all(one is other for one, other in zip(inputs, copied, strict=True)):
            return None
        node = self.add(spec, copied, attributes, context)
        for n, (value, copy) in enumerate(zip(inputs, copied, strict=True)):
            if value is not None and value is not copy:
                self.assign(value, node.changed[n])
        return node

    def _change(self, node: IRNode) -> Mapping[int, IRValue]:
        """Make the next versions of the inputs that a node changes."""
        spec = node.spec
        assert spec is not None
        if not (node.mutated or spec.inplace):
            return node.changed
        positions = dict.fromkeys(node.mutated, -1) | {source: position for position, source in spec.inplace.items()}
        changed = {}
        for source, position in positions.items():
            before = node.inputs[source]
            if before is not None:
                array = before.base.array
                if array is None:
                    array = before.base.array = IRArray()
                after = IRValue(
                    self,
                    before.desc,
                    None,
                    node,
                    position,
                    base=before.base,
                    known_as=before.known_as,
                    offset=before.offset,
                )
                array.change(after)
                changed[source] = after
        node.changed = changed
        self.reads_latest = True
        return changed

    def _add_view(
        self,
        spec: OpSpec,
        source: IRValue,
        attributes: Mapping[str, Any],
        context: Context,
        computed: bool,
        known_as: IRValue | None = None,
    ) -> IRNode:
        (desc,) = spec.infer_outputs([source.desc.contiguous], attributes)
        if not source.desc.is_contiguous:
            shown = reshape(source.window, desc.shape)
            if shown is None:
                source = self.add(SPECS["Identity"], (source,), {}, context).outputs[0]
            else:
                desc = ArrayDesc(desc.shape, desc.dtype, shown.strides)
        node = IRNode(spec, (source,), attributes, context, None, computed)
        self._shown(node, source, desc, source.offset, known_as)
        return node

    def _mutable(self, value: IRValue, place: Place, dtype: np.dtype, spec: OpSpec) -> IRValue:
        """The array itself, which an op is going to change; never a cast copy, which would lose the change."""
        value.place_at(place)
        if value.place is place and value.dtype == dtype:
            return value
        if value.base.external < 0 or value.shows.version:
            raise ChangedElsewhereError(
                four_parts(
                    f"{spec.name}, which changes an array of shape {value.shape} as {dtype} on {place}",
                    f"another op of the same run makes or changes that array as {value.dtype} on {value.place}",
                    "a run changes one copy of an array: what one op does would be lost to the other",
                    "compute both on one device in one type config; or run them one by one, each root by a forward "
                    "of its own; or give each an array of its own",
                )
            )
        copy = self._copy_of(value.base, place, dtype)
        return copy if value is value.base else self._window(copy, value.window, value.known_as)

    def _copy_of(self, value: IRValue, place: Place, dtype: np.dtype) -> IRValue:
        """The copy that an outside array has at a place in a dtype."""
        return self.external(value.external, ArrayDesc(value.shape, dtype), place)

    def coerce(self, value: IRValue, place: Place | None, dtype: np.dtype, context: Context) -> IRValue:
        """The value at a place (None: wherever) with a dtype; adds a Cast or a transfer where it is not there."""
        value.place_at(place)
        if value.dtype != dtype:
            value = self.add(SPECS["Cast"], (value,), {"dtype": dtype}, context).outputs[0]
        return value if place is None or value.place is place else self._at(value, place, context)

    def _at(self, value: IRValue, place: Place, context: Context) -> IRValue:
        """The value at another place: a copy that the outside array keeps there, else a transfer; one for all."""
        found = self._moved.get((value, place))
        if found is not None:
            return found
        base = value.base
        # What a node of this graph changed outside must be copied after that, not before all steps.
        stored_outside = base.external >= 0 and value.shows.version == 0
        node = IRNode(None, (value,), {}, context, None, computed=stored_outside)
        if stored_outside:
            moved = self._copy_of(value if value.external >= 0 else base, place, base.dtype)
            if value.external < 0:
                assert value.node is not None
                view = IRNode(value.node.spec, (moved,), value.node.attributes, context, None)
                source, moved = moved, IRValue(self, value.desc, None, view, 0, base=moved, offset=value.offset)
                moved.shows = source
                view.outputs = (moved,)
        elif value.is_window:
            # All of the memory goes: not every device has windows of its own, and the view is the same there.
            whole_here = self._window(value, whole(base.shape))
            moved = self._moved[value, place] = self._window(self._at(whole_here, place, context), value.window)
            return moved
        else:
            moved = IRValue(self, value.desc, place, node)
        node.outputs = (moved,)
        # Also where nothing is to run: gradients find their way from the copy to the value through this node.
        self.nodes.append(node)
        self._moved[value, place] = moved
        return moved

    def alias(self, value: IRValue) -> IRValue:
        """A second name of a value: the same memory, but a value of its own."""
        return self._show(self.current(value), value.shape)

    def reshape(self, value: IRValue, shape: Sequence[int]) -> IRValue:
        """The same memory with another shape."""
        wanted = tuple(shape)
        if value.shape == wanted:
            return value
        assert math.prod(wanted) == value.size, f"reshape {value.shape} to {wanted}"
        return self.op("Reshape", value, shape=wanted)

    def sum_to(self, value: IRValue, shape: tuple[int, ...]) -> IRValue:
        """The sum over the axes along which `shape` was broadcast to the value's shape."""
        if value.shape == shape:
            return value
        extra = value.ndim - len(shape)
        axes = tuple(range(extra)) + tuple(
            extra + i for i, size in enumerate(shape) if size == 1 and value.shape[extra + i] != 1
        )
        if axes:
            value = self.op("Sum", value, axes=axes, keep_dims=True)
        return self.reshape(value, shape)


def _derived(name: str) -> OpSpec:
    from atled.ops.elementwise import derived_spec  # elementwise ops are specs themselves; only this name is needed

    return derived_spec(name)
