"""Casts of formulas: what widens an input or narrows a result becomes part of the formula beside it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.dtypes import is_float
from atled.graph.compile.fusion import FusedOp
from atled.graph.compile.wanted import is_float_cast
from atled.graph.nodes.ir import IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.formula import Expr, Program

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class CastingOp(FusedOp, abstract=True):
    """A formula on operands of several dtypes, which are widened when they are read, and rounded when they are stored.

    dtypes: of the outputs.
    """

    def __init__(self, program: Program, names: Sequence[str], dtypes: Sequence[np.dtype]) -> None:
        self.dtypes = tuple(dtypes)
        super().__init__(program, names)

    def infer(self, *inputs: ArrayDesc, **attributes: Any) -> Sequence[ArrayDesc]:
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        return tuple(ArrayDesc(shape, dtype) for dtype in self.dtypes)

    def reference(self, *inputs: np.ndarray, **attributes: Any) -> Sequence[np.ndarray]:
        return self.results(*inputs, **attributes)


class _Output(NamedTuple):
    """One output of a formula: its name there, the expression, the value that it makes."""

    name: str
    expression: Expr
    value: IRValue


def fuse_casts(nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`, without float casts that a formula can do as it reads or stores.

    Bits are those of the casts: a formula is computed in the widest dtype that it reads, and nothing is rounded twice.
    results: values that must exist afterwards although no node may read them.
    """
    casts = [node for node in nodes if is_float_cast(node)]
    if not any(map(_takes_casts, nodes)):
        return list(nodes)
    fusing = _Casts(nodes, set(results))
    for cast in casts:
        if not fusing.widen(cast):
            fusing.narrow(cast)
    return fusing.nodes


def _takes_casts(node: IRNode) -> bool:
    spec, decision = node.spec, node.decision
    if spec is None or spec.program is None or decision is None or node.computed:
        return False
    if decision.call.by_operands and decision.implementation.integers and decision.implementation.fuses:
        return False  # fusion has put together what can be
    if not decision.implementation.casts or dict(spec.program.in_place) != dict(spec.inplace):
        return False
    return all(value is not None and is_float(value.dtype) for value in (*node.inputs, *node.outputs))


def _real(values: Iterable[IRValue]) -> np.dtype:
    """The dtype that a formula computes in."""
    return _DOUBLE if any(value.dtype == _DOUBLE for value in values) else _SINGLE


def _present(values: Iterable[IRValue | None]) -> list[IRValue]:
    return [value for value in values if value is not None]


class _Casts:
    """Nodes from which casts are taken out, one after the other."""

    def __init__(self, nodes: Sequence[IRNode], results: set[IRValue]) -> None:
        self._nodes: dict[IRNode, IRNode | None] = {node: node for node in nodes}  # what became of each
        self._results = results
        self._readers: dict[IRValue, dict[IRNode, None]] = {}
        for node in nodes:
            for value in _present(node.inputs):
                self._readers.setdefault(value, {})[node] = None
        self._maker = {value: node for node in nodes for value in node.outputs}
        self._specs: dict[Hashable, CastingOp] = {}  # those of one kind have one op, so that they can be in one group

    @property
    def nodes(self) -> list[IRNode]:
        """What is left."""
        return [node for node in self._nodes.values() if node is not None]

    def widen(self, cast: IRNode) -> bool:
        """Have the readers of a cast read what it was made of, if it loses nothing and all of them can."""
        source, made = cast.inputs[0], cast.outputs[0]
        assert source is not None
        readers = self._readers.get(made, {})
        is_exact = np.can_cast(source.dtype, made.dtype, "safe")
        array = source.base.array
        # What an array held before it changes is read where the cast stands, not behind.
        if not is_exact or not readers or made in self._results or (array is not None and array.values):
            return False
        if made.base.array is not None or source.is_window:
            return False  # a step changes it in place; or who casts takes windows, which readers need not
        changed = []
        for reader in readers:
            node = self._nodes[reader]
            if node is None or not self._is_beside(node, cast):
                return False
            inputs = [source if value is made else value for value in _present(node.inputs)]
            new = self._with(node, inputs, self._outputs_of(node), "Cast", is_first=True)
            if _real(inputs) != _real(_present(node.inputs)) or new is None:
                return False
            changed.append((reader, new))
        for reader, new in changed:
            self._put(reader, new)
            self._readers.setdefault(source, {})[reader] = None
        self._drop(cast)
        return True

    def narrow(self, cast: IRNode) -> bool:
        """Have the formula that makes what a cast reads store the result of the cast, too, or instead."""
        source, made = cast.inputs[0], cast.outputs[0]
        assert source is not None
        maker = self._maker.get(source)
        node = None if maker is None else self._nodes[maker]
        if maker is None or node is None or not self._is_beside(node, cast) or source.is_in_place:
            return False
        if source.dtype != _real(_present(node.inputs)):
            return False  # it would be rounded once only
        outputs = self._outputs_of(node)
        (stored,) = (output for output in outputs if output.value is source)
        taken = {output.name for output in outputs}
        own_name = next(item for number in count() if (item := f"cast{number}") not in taken)
        outputs.append(_Output(own_name, stored.expression, made))
        if source not in self._results and list(self._readers[source]) == [cast]:
            outputs.remove(stored)
        new = self._with(node, _present(node.inputs), outputs, "Cast", is_first=False)
        if new is None:
            return False
        self._put(maker, new)
        self._maker[made] = maker
        self._drop(cast)
        return True

    def _is_beside(self, node: IRNode, cast: IRNode) -> bool:
        """Whether who computes a node can do the cast for it."""
        if not _takes_casts(node):
            return False
        mine, other = node.decision, cast.decision
        assert mine is not None and other is not None and cast.inputs[0] is not None
        place = node.outputs[0].place
        return mine.backend == other.backend and place is cast.inputs[0].place and place is cast.outputs[0].place

    @staticmethod
    def _outputs_of(node: IRNode) -> list[_Output]:
        assert node.spec is not None and node.spec.program is not None
        return [_Output(*pair, value) for pair, value in zip(node.spec.program.outputs, node.outputs, strict=True)]

    def _with(
        self, node: IRNode, inputs: Sequence[IRValue], outputs: Sequence[_Output], name: str, *, is_first: bool
    ) -> IRNode | None:
        """A node with other inputs and outputs, which does a cast as well; None where it is not accepted."""
        old, decision = node.spec, node.decision
        assert old is not None and old.program is not None and decision is not None
        dtypes = tuple(output.value.dtype for output in outputs)
        names = old.names if isinstance(old, FusedOp) else (old.name,)
        names = (name, *names) if is_first else (*names, name)
        written = tuple((output.name, output.expression) for output in outputs)
        key = names, old.program, written, dtypes
        spec = self._specs.get(key)
        if spec is None:
            program = Program(old.program.inputs, old.program.attributes, written)
            spec = self._specs[key] = CastingOp(program, names, dtypes)
        call: Call = decision.call
        new_call = call.replaced_by(spec, (value.desc for value in inputs), (output.value.desc for output in outputs))
        accepts = decision.implementation.accepts
        if accepts is not None and accepts(new_call) is not True:
            return None
        made = IRNode(spec, tuple(inputs), node.attributes, node.context, decision.made_for(spec.name, new_call))
        made.outputs = tuple(output.value for output in outputs)
        made.changed = node.changed
        return made

    def _put(self, old: IRNode, new: IRNode) -> None:
        self._nodes[old] = new
        new.make(new.outputs, new.changed)

    def _drop(self, cast: IRNode) -> None:
        self._nodes[cast] = None
        assert cast.inputs[0] is not None
        del self._readers[cast.inputs[0]][cast]
