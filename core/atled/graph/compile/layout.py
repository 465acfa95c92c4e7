"""Layout: chains of nodes compute on images in the order of axes that their implementations want."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.graph.compile.wanted import wanted_layout, wants_other_layout
from atled.graph.nodes.dispatch import choose, place_of
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.channel_axis import Channelled, back_axes, front_axes
from atled.ops.spec import SPECS
from atled_contexts import Decision

Axes = tuple[int, ...]


def lay_out(
    graph: Graph, nodes: Sequence[IRNode], results: Sequence[IRValue], apart: Iterable[IRNode] = ()
) -> tuple[list[IRNode], list[IRValue]]:
    """The nodes to run instead of `nodes`, in order, and the results: images are transposed where that is wanted.

    Ops that have no order of their own follow what they read, so that transposes stay at the ends of a chain. Every
    result and every array outside keeps its order.

    results: values that must exist although no node may read them.  apart: nodes that stay as they are.
    """
    rewriting = _Rewriting(graph, nodes, set(results), set(apart))
    return rewriting.made, [rewriting.shown.get(value, value) for value in results]


class _Form(NamedTuple):
    """How a value is made of another one: its axis i is axis `axes[i]` of the source."""

    source: IRValue
    axes: Axes


class _Other(NamedTuple):
    """A node in another order of axes; per input and output its axes in terms of those of now, None: as they are.

    op: the name of what computes the same in any order, where the op itself does not.
    """

    attributes: Mapping[str, Any]
    inputs: Sequence[Axes | None]
    outputs: Sequence[Axes | None]
    op: str = ""


class _Rewriting:
    """The nodes, rewritten.

    made: they.  forms: of values that nodes made in another order, how they follow from what was made.
    waiting: those of them that are not in memory: nothing has read them so far.
    copies: permuted values by what they are made of and the axes.
    wished: values that are wanted in another order further on, with the axes.
    shown: results that became views, with what they show.
    """

    def __init__(self, graph: Graph, nodes: Sequence[IRNode], results: set[IRValue], apart: set[IRNode]) -> None:
        self._graph = graph
        self._results = results
        self._apart = apart
        self._views: dict[IRValue, list[IRValue]] = {}
        for node in nodes:
            for value in node.outputs:
                if value.is_view:
                    self._views.setdefault(value.base, []).append(value)
        self.wished = _wishes(nodes)
        self.made: list[IRNode] = []
        self.forms: dict[IRValue, _Form] = {}
        self.waiting: set[IRValue] = set()
        self.copies: dict[_Form, IRValue] = {}
        self.shown: dict[IRValue, IRValue] = {}
        for node in nodes:
            if not (self._replaced(node) or self._is_second_name(node) or self._is_put_off(node)):
                self._keep(node)

    def _keep(self, node: IRNode) -> None:
        """Put a node as it is, behind what makes its inputs."""
        for value in node.inputs:
            if value in self.waiting:
                self._make(value)
        self.made.append(node)

    def _is_second_name(self, node: IRNode) -> bool:
        """Whether a node only names a value that waits: then both do."""
        source = node.inputs[0] if node.inputs else None
        if source not in self.forms or node.outputs[0].shows is not source.shows:
            return False
        name = node.outputs[0]
        if not name.is_view or name.is_window or name.shape != source.shape:
            return False
        self.forms[name] = self.forms[source]
        if source not in self.waiting:
            return False
        self.waiting.add(name)
        return True

    def _is_put_off(self, node: IRNode) -> bool:
        """Whether a node is a transpose that can wait for a node that reads its result in that order."""
        value = node.inputs[0] if node.name == "Transpose" else None
        if value is None or value.is_window or node.computed or node in self._apart:
            return False
        form = self._reduced(value, node.attributes["axes"])
        array = form.source.base.array
        # What it reads may change before it is wanted.
        if (array is not None and array.values) or not self._can_move(node, form.source.desc, form.axes):
            return False
        self.forms[node.outputs[0]] = form
        self.waiting.add(node.outputs[0])
        if self._must_exist(node.outputs[0]):
            self._make(node.outputs[0])
        return True

    def _replaced(self, node: IRNode) -> bool:
        """Put a node in another order in place of one that asks for it or follows what it reads, where that can be."""
        if node.spec is None or node.decision is None or node.computed or node in self._apart:
            return False
        if any(value is not None and value.is_window for value in node.inputs):
            return False
        if wants_other_layout(node):
            other: _Other | None = _turned(node)
        else:
            axes = self._order_around(node)
            other = None if axes is None else _follow(node, axes)
            if other is not None and self._cost(node, other) > self._cost_as_it_is(node):
                other = None
        return other is not None and self._replace(node, other)

    def _order_around(self, node: IRNode) -> Axes | None:
        """The order in which its largest input that has another one was made, else that in which it is read."""
        known = [value for value in node.inputs if value is not None and value in self.forms]
        if known:
            return _inverse(self.forms[max(known, key=lambda value: value.size)].axes)
        return next((self.wished[value] for value in node.outputs if value in self.wished), None)

    def _cost(self, node: IRNode, other: _Other) -> int:
        """Elements to transpose if the other one takes its place."""
        inputs = zip(node.inputs, other.inputs, strict=True)
        outputs = zip(node.outputs, other.outputs, strict=True)
        moved = {value for value, axes in inputs if value is not None and axes and not self._is_made(value, axes)}
        moved |= {
            value for value, axes in outputs if axes and self._must_exist(value) and not _is_view(value.desc, axes)
        }
        return sum(value.size for value in moved)

    def _cost_as_it_is(self, node: IRNode) -> int:
        """Elements to transpose if it stays, for it and for those that want what it makes in another order."""
        waiting = {value for value in node.inputs if value is not None and value in self.waiting}
        wished = {value for value in node.outputs if value in self.wished}
        return sum(value.size for value in waiting | wished)

    def _must_exist(self, value: IRValue) -> bool:
        return value in self._results or value.array is not None

    def _reduced(self, value: IRValue, axes: Axes) -> _Form:
        """The permuted value in terms of one that was made."""
        form = self.forms.get(value)
        return _Form(value, axes) if form is None else _Form(form.source, tuple(form.axes[axis] for axis in axes))

    def _is_made(self, value: IRValue, axes: Axes) -> bool:
        form = self._reduced(value, axes)
        return form in self.copies or _is_view(form.source.desc, form.axes)

    def _replace(self, node: IRNode, other: _Other) -> bool:
        """Put the other one in the place of a node; False where its backend does not compute that, or no transpose."""
        spec, old = SPECS[other.op] if other.op else node.spec, node.decision
        assert spec is not None and old is not None
        given = list(zip(node.inputs, other.inputs, strict=True))
        descs = tuple(None if value is None else _permuted(value.desc, axes) for value, axes in given)
        by_operands = old.call.by_operands
        decision = choose(
            spec, descs, other.attributes, node.context, may_spare=node.is_sparing, by_operands=by_operands
        )
        if (decision.backend, decision.call.inputs) != (old.backend, descs):
            return False
        forms = [self._reduced(value, axes) for value, axes in given if value is not None and axes]
        moved = [(form.source.desc, form.axes) for form in forms]
        back = zip(decision.call.outputs, other.outputs, strict=True)
        moved += [(desc, _inverse(axes)) for desc, axes in back if axes]
        if not all(self._can_move(node, desc, axes) for desc, axes in moved):
            return False
        inputs = tuple(v if v is None else self._permute(node, v, axes or tuple(range(v.ndim))) for v, axes in given)
        new = IRNode(spec, inputs, other.attributes, node.context, decision)
        self.made.append(new)
        new.is_sparing = node.is_sparing
        new.changed = node.changed
        for value in node.changed.values():
            value.node = new
        new.outputs = tuple(
            self._output(new, position, value, axes)
            for position, (value, axes) in enumerate(zip(node.outputs, other.outputs, strict=True))
        )
        for value in node.outputs:
            if value in self.waiting and (self._must_exist(value) or _is_view(value.desc, self.forms[value].axes)):
                self._make(value)
        return True

    def _output(self, new: IRNode, position: int, value: IRValue, axes: Axes | None) -> IRValue:
        """An output of a new node for that of the old one."""
        if axes is None:
            value.node = new
            return value
        assert new.decision is not None
        made = IRValue(self._graph, new.decision.call.outputs[position], value.place, new, position)
        self.forms[value] = _Form(made, _inverse(axes))
        self.waiting.add(value)
        return made

    def _permute(self, node: IRNode, value: IRValue, axes: Axes) -> IRValue:
        """The permuted value, for a node."""
        if _is_identity(axes):
            if value in self.waiting:
                self._make(value)
            return value
        form = self._reduced(value, axes)
        if _is_identity(form.axes):
            return form.source
        found = self.copies.get(form)
        if found is None:
            desc = _permuted(form.source.desc, form.axes)
            if _is_view(form.source.desc, form.axes):
                found = self._view(node, form.source, desc)
            else:
                found = IRValue(self._graph, desc, form.source.place)
                self._transpose(node, form, found)
            self.copies[form] = found
        return found

    def _make(self, value: IRValue) -> None:
        """Have a value as it is: in memory of its own, or where that may be as a view of what was made."""
        self.waiting.remove(value)
        form = self.forms[value]
        node = value.node
        assert node is not None
        if value.is_view:
            self._keep(node)
            return
        if not _is_view(form.source.desc, form.axes):
            self._transpose(node, form, value)
            return
        if self._may_show(value, form.source):
            self._add(self._showing(node, form.source, value), value)
            if value in self._results:
                self.shown[value] = form.source
            return
        view = self._view(node, form.source, value.desc)
        decision = choose(SPECS["Identity"], (view.desc,), {}, node.context, by_operands=self._graph.by_operands)
        self._add(IRNode(SPECS["Identity"], (view,), {}, node.context, decision), value)

    def _may_show(self, value: IRValue, source: IRValue) -> bool:
        """Whether a value may be a view; a result only of what can be one in its place, and is none yet."""
        if not self._must_exist(value):
            return True
        is_own = source.external < 0 and source.base is source and source.array is None
        return value.array is None and is_own and source not in self._results and source not in self.shown.values()

    def _view(self, node: IRNode, source: IRValue, desc: ArrayDesc) -> IRValue:
        """A view of the source with another shape."""
        output = IRValue(self._graph, desc, None)
        return self._add(self._showing(node, source, output), output)

    def _showing(self, node: IRNode, source: IRValue, output: IRValue) -> IRNode:
        """The node of a view, which a value becomes, with its own views."""
        for value in (output, *self._views.get(output, ())):
            value.base, value.shows = source.base, source.shows
        return IRNode(SPECS["Reshape"], (source,), {"shape": output.shape, "inplace": True}, node.context, None)

    def _transpose(self, node: IRNode, form: _Form, output: IRValue) -> None:
        decision = self._decision(node, form.source.desc, form.axes)
        assert decision is not None
        self._add(IRNode(SPECS["Transpose"], (form.source,), {"axes": form.axes}, node.context, decision), output)

    def _add(self, node: IRNode, output: IRValue) -> IRValue:
        node.outputs = (output,)
        output.node, output.position = node, 0
        self.made.append(node)
        return output

    def _can_move(self, node: IRNode, desc: ArrayDesc, axes: Axes) -> bool:
        return _is_view(desc, axes) or self._decision(node, desc, axes) is not None

    @staticmethod
    def _decision(node: IRNode, desc: ArrayDesc, axes: Axes) -> Decision[Any] | None:
        """Who transposes where a node computes; None if nobody does, or only after a cast."""
        assert node.decision is not None
        # Places are moved as the integers that they are.
        by_operands = node.decision.call.by_operands or not is_float(desc.dtype)
        decision = choose(SPECS["Transpose"], (desc,), {"axes": axes}, node.context, by_operands=by_operands)
        is_here = place_of(decision, node.context) is place_of(node.decision, node.context)
        return decision if is_here and decision.call.inputs == (desc,) else None


def _wishes(nodes: Sequence[IRNode]) -> dict[IRValue, Axes]:
    """The values that nodes want in another order, or that only lead to such ones; with the axes."""
    wished: dict[IRValue, Axes] = {}
    for node in reversed(nodes):
        if wants_other_layout(node):
            other: _Other | None = _turned(node)
        else:
            axes = next((wished[value] for value in node.outputs if value in wished), None)
            other = None if axes is None or node.decision is None else _follow(node, axes)
        if other is not None:
            named = zip(node.inputs, other.inputs, strict=True)
            wished.update((value, axes) for value, axes in named if value is not None and axes)
    return wished


def _turned(node: IRNode) -> _Other:
    """A node on images in the other order."""
    spec, attributes = node.spec, node.attributes
    assert isinstance(spec, Channelled)
    count, is_last = len(attributes[spec.spatial]), attributes["channel_last"]
    order = front_axes if is_last else back_axes
    inputs = [
        order(value.ndim, count) if value is not None and name in spec.channelled else None
        for name, value in zip(spec.input_names, node.inputs, strict=True)
    ]
    outputs = [
        order(value.ndim, count) if name in spec.channelled else None
        for name, value in zip(spec.outputs, node.outputs, strict=True)
    ]
    return _Other({**attributes, "channel_last": not is_last}, inputs, outputs)


def _follow(node: IRNode, axes: Axes) -> _Other | None:
    """A node in an order of axes that it has no opinion on; None where it has one, or nobody told how it goes."""
    spec = node.spec
    assert spec is not None
    if spec.channelled:
        other = _turned(node) if wanted_layout(node) == "" else None
        return other if other is not None and axes in (*other.inputs, *other.outputs) else None
    if spec.inplace or (node.inputs and node.inputs[0] is not None and node.inputs[0].ndim != len(axes)):
        return None
    rule = _RULES.get(spec.name)
    if rule is None and spec.program is not None and set(spec.attribute_names) <= {*spec.float_names, "inplace"}:
        rule = _elementwise
    return None if rule is None else rule(node, axes)


def _elementwise(node: IRNode, axes: Axes) -> _Other | None:
    """Inputs with one element broadcast in any order."""
    fits = all(value is None or value.ndim == len(axes) or value.size == 1 for value in node.inputs)
    if not fits or any(value.ndim != len(axes) for value in node.outputs):
        return None
    return _with_axes(node, axes, {})


def _normalization(node: IRNode, axes: Axes) -> _Other | None:
    return _with_axes(node, axes, {"axes": tuple(axes.index(axis) for axis in node.attributes["axes"])})


def _prelu(node: IRNode, axes: Axes) -> _Other | None:
    return _with_axes(node, axes, {"base_axis": axes.index(node.attributes["base_axis"])})


def _concatenation(node: IRNode, axes: Axes) -> _Other | None:
    return _with_axes(node, axes, {"axis": axes.index(node.attributes["axis"])})


def _slice(node: IRNode, axes: Axes) -> _Other | None:
    bounds = {name: node.attributes[name] for name in ("start", "stop", "step")}
    return _with_axes(node, axes, {name: tuple(given[axis] for axis in axes) for name, given in bounds.items()})


def _broadcast(node: IRNode, axes: Axes) -> _Other | None:
    return _with_axes(node, axes, {"shape": tuple(node.attributes["shape"][axis] for axis in axes)})


def _global_average(node: IRNode, axes: Axes) -> _Other | None:
    spatial = tuple(sorted(axes.index(axis) for axis in range(2, len(axes))))
    return _with_axes(node, axes, {"axes": spatial, "keep_dims": True})._replace(op="Mean")


def _reduction(node: IRNode, axes: Axes) -> _Other | None:
    """Where the axes of the sum are taken out, those that stay must have the same order in both."""
    summed = node.attributes["axes"]
    kept = [axis for axis in axes if axis not in summed]
    if not node.attributes["keep_dims"] and kept != sorted(kept):
        return None
    return _with_axes(node, axes, {"axes": tuple(sorted(axes.index(axis) for axis in summed))})


def _with_axes(node: IRNode, axes: Axes, attributes: Mapping[str, Any]) -> _Other:
    """The node with its arrays of all axes permuted."""

    def order(value: IRValue | None) -> Axes | None:
        return axes if value is not None and value.ndim == len(axes) else None

    return _Other({**node.attributes, **attributes}, list(map(order, node.inputs)), list(map(order, node.outputs)))


_RULES: Mapping[str, Callable[[IRNode, Axes], _Other | None]] = {
    "Identity": _elementwise,
    "Cast": _elementwise,
    "BatchNormalization": _normalization,
    "BatchNormalizationGrad": _normalization,
    "PReLU": _prelu,
    "Concatenate": _concatenation,
    "Slice": _slice,
    "Broadcast": _broadcast,
    "GlobalAveragePooling": _global_average,
    "Sum": _reduction,
    "Mean": _reduction,
}
"""What an order of axes means for ops that compute in any; the elementwise ones are not listed."""


def _permuted(desc: ArrayDesc, axes: Axes | None) -> ArrayDesc:
    return desc if axes is None else ArrayDesc(tuple(desc.shape[axis] for axis in axes), desc.dtype)


def _inverse(axes: Axes) -> Axes:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def _is_identity(axes: Axes) -> bool:
    return axes == tuple(range(len(axes)))


def _is_view(desc: ArrayDesc, axes: Axes) -> bool:
    """Whether only axes of size 1 move, so that the elements stay where they are."""
    long = [axis for axis in axes if desc.shape[axis] != 1]
    return long == sorted(long)
