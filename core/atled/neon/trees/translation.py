"""From calls of the core back to op-trees, in the names of these where there is one, and folded to what is readable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from atled.keyed import CallMade
from atled.neon.trees.building import transposed_axes
from atled.neon.trees.nodes import OpTreeNode
from atled.ops import formula
from atled.ops.formula import Apply, Expr, Name, Number, name, number

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "+": "add",
        "-": "sub",
        "*": "mul",
        "/": "div",
        "**": "pow",
        "<": "lt",
        "<=": "le",
        ">": "gt",
        ">=": "ge",
        "==": "eq",
        "!=": "ne",
        "and": "mul",
        "or": "maximum",
        "sigmoid": "sig",
        "sign": "sgn",
        **{
            each: each
            for each in ("neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "tanh", "rint", "minimum", "maximum")
        },
    }
)
"""What formulas are made of, by the names that op-trees have for it; conditions are 0 or 1 in these."""

_SIMPLIFIED: Mapping[str, Callable[..., Expr]] = MappingProxyType(
    {
        "+": formula.add,
        "-": formula.subtract,
        "*": formula.multiply,
        "/": formula.divide,
        "**": formula.power,
        "neg": formula.negate,
        "where": formula.where,
    }
)
_WORKED_OUT = MappingProxyType({"log": np.log, "exp": np.exp, "exp2": np.exp2, "sqrt": np.sqrt})


class Term:
    """What a value of the core is in op-trees.

    formula: of other terms, by their names; a number where all elements are that.
    desc: of the value. What the formula gives may still have to be broadcast to it.
    """

    __slots__ = ("desc", "formula")

    def __init__(self, formula: Expr, desc: Any) -> None:
        """desc: what has the shape, and the dtype where it is a number."""
        self.formula = formula
        self.desc = desc

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value."""
        shape: tuple[int, ...] = self.desc.shape
        return shape

    @property
    def constant(self) -> float | None:
        """The number that all elements are; None where they are not one."""
        return self.formula.value if isinstance(self.formula, Number) else None


class Translation:
    """Makes op-trees of calls.

    given: by the number of a value the op-tree or tensor that it is.
    """

    def __init__(self, given: Mapping[int, Any]) -> None:
        self._trees: dict[Expr, Any] = {}  # of terms that have one
        self._terms: dict[int, Term] = {}
        for value, tree in given.items():
            self._terms[value] = self._named(tree)

    def take(self, call: CallMade) -> None:
        """Translate a call, after those that it reads from."""
        operands = [None if each is None else self._terms[each] for each in call.inputs]
        special = _SPECIAL.get(call.spec.name)
        term = None if special is None else special(self, call, *operands)
        if term is None and call.spec.program is not None and len(call.outputs) == 1:
            term = self._elementwise(call, operands)
        if term is not None:
            self._terms[call.number] = term
            return
        for position in range(len(call.outputs)):
            tree = self._called(call, operands, position)
            self._terms[call.number + position] = self._named(tree)

    def tree(self, value: int) -> Any:
        """The op-tree or tensor of a value; a number where that is all of it."""
        term = self._terms[value]
        return term.constant if term.constant is not None else self._whole(term)

    def constant(self, value: float, shape: tuple[int, ...], dtype: np.dtype) -> OpTreeNode:
        """An op-tree of equal numbers."""
        return _core_node("Constant", shape, (), {"val": value, "shape": shape, "dtype": dtype})

    # Terms to trees.

    def _named(self, tree: Any) -> Term:
        """A term for a tree."""
        named = name(f"v{len(self._trees)}")
        self._trees[named] = tree
        return Term(named, tree)

    def _whole(self, term: Term) -> Any:
        """The tree of a term, in its shape."""
        if term.constant is not None:
            return self.constant(term.constant, term.shape, term.desc.dtype)
        tree = self._tree(term.formula)
        return tree if tree.shape == term.shape else _core_node("Broadcast", term.shape, (tree,), {"shape": term.shape})

    def _tree(self, expr: Expr) -> Any:
        """The tree of a formula; a number for a number."""
        if isinstance(expr, Number):
            return int(expr.value) if expr.value.is_integer() and abs(expr.value) < 2**31 else expr.value
        trees, stack = self._trees, [expr]
        while stack:  # no further than to what has a tree: formulas share most of what they are made of
            node = stack[-1]
            if node in trees:
                stack.pop()
                continue
            assert isinstance(node, Apply), "terms have trees"
            missing = [each for each in node.args if each not in trees and not isinstance(each, Number)]
            stack += missing
            if not missing:
                trees[node] = self._applied(node)
        return trees[expr]

    def _applied(self, node: Apply) -> Any:
        a, *rest = [self._tree(each) for each in node.args]
        if node.op == "not":
            return OpTreeNode.build("sub", 1, a)
        if node.op != "where":
            return OpTreeNode.build(_WORDS[node.op], a, *(rest or [None]))
        if all(isinstance(each, Number) for each in node.args[1:]) and rest == [1, 0]:
            return a
        shapes = [each.shape for each in (a, *rest) if not isinstance(each, int | float)]
        return _core_node("Where", np.broadcast_shapes(*shapes), (a, *rest), {})

    # Calls to terms.

    def _elementwise(self, call: CallMade, operands: Sequence[Term | None]) -> Term | None:
        """The formula of an elementwise op, of those of its operands; None where trees have no words for it."""
        program = call.spec.program
        assert program is not None
        values: dict[str, Expr] = {key: number(call.attributes[key]) for key in program.attributes}
        for key, term in zip(program.inputs, operands, strict=True):
            assert term is not None
            values[key] = term.formula
        (expr,) = program.expressions
        if any(node.op not in _WORDS and node.op not in ("where", "not") for node in formula.postorder((expr,))):
            return None
        return Term(_simplified(expr, values), call.outputs[0])

    def _called(self, call: CallMade, operands: Sequence[Term | None], position: int) -> OpTreeNode:
        """A node that names the op of the core."""
        trees = [None if term is None else self._whole(term) for term in operands]
        while trees and trees[-1] is None:
            trees.pop()
        node = _core_node(call.spec.name, call.outputs[position].shape, trees, call.attributes)
        if len(call.outputs) > 1:
            node[0]["output"] = position
        return node

    def _constant(self, call: CallMade) -> Term:
        return Term(number(call.attributes["val"]), call.outputs[0])

    def _broadcast(self, call: CallMade, x: Term) -> Term:
        return Term(x.formula, call.outputs[0])

    def _reshape(self, call: CallMade, x: Term) -> Term | None:
        shape = call.outputs[0].shape
        return Term(x.formula, call.outputs[0]) if x.constant is not None or shape == x.shape else None

    def _sum(self, call: CallMade, x: Term) -> Term | None:
        """The sum of what is repeated is a product."""
        axes, keep_dims = call.attributes["axes"], call.attributes["keep_dims"]
        (desc,) = call.outputs
        axes = tuple(sorted(axis % len(x.shape) for axis in axes))
        if x.constant is not None:
            count = float(np.prod([x.shape[axis] for axis in axes]))
            return Term(formula.multiply(x.formula, number(count)), desc)
        tree = self._tree(x.formula)
        if len(tree.shape) != len(x.shape) or len(x.shape) < 2:
            return None
        repeated = [axis for axis in axes if tree.shape[axis] != x.shape[axis]]
        summed = tuple(axis for axis in axes if axis not in repeated)
        if not keep_dims and (repeated or len(x.shape) - len(axes) < 2):
            return None
        term = x
        if summed:
            about = {"axis": summed if len(summed) > 1 else summed[0]}
            if keep_dims and len(x.shape) > 2:
                about["kept"] = True
            term = self._named(OpTreeNode.build("sum", tree, None, **about))
        count = float(np.prod([x.shape[axis] for axis in repeated]))
        return Term(formula.multiply(term.formula, number(count)), desc)

    def _transpose(self, call: CallMade, x: Term) -> Term | None:
        if x.constant is not None:
            return Term(x.formula, call.outputs[0])
        if call.attributes["axes"] != transposed_axes(len(x.shape)) or len(x.shape) < 2:
            return None
        return self._named(_turned(self._whole(x)))

    def _product(self, call: CallMade, a: Term, b: Term) -> Term | None:
        """Products of two matrices; those of more are the core's."""
        if len(a.shape) != 2 or len(b.shape) != 2:
            return None
        if a.constant is not None or b.constant is not None:
            return self._product_with_constant(call, a, b)
        x, y = self._whole(a), self._whole(b)
        x = _turned(x) if call.attributes.get("transpose_a") else x
        y = _turned(y) if call.attributes.get("transpose_b") else y
        return self._named(OpTreeNode.build("dot", x, y))

    def _product_with_constant(self, call: CallMade, a: Term, b: Term) -> Term:
        """A product with a matrix of equal numbers: sums of the rows or columns of the other, repeated."""
        first, second = (call.attributes.get(f"transpose_{each}", False) for each in "ab")
        summed: Expr = number(a.shape[0 if first else 1])
        if b.constant is None:
            summed = self._summed(b, 1 if second else 0, is_turned=second)
        elif a.constant is None:
            summed = self._summed(a, 0 if first else 1, is_turned=first)
        for factor in (a, b):
            if factor.constant is not None:
                summed = formula.multiply(summed, factor.formula)
        return Term(summed, call.outputs[0])

    def _summed(self, x: Term, axis: int, *, is_turned: bool) -> Expr:
        tree = OpTreeNode.build("sum", self._whole(x), None, axis=axis)
        return self._named(_turned(tree) if is_turned else tree).formula


_SPECIAL: Mapping[str, Any] = MappingProxyType(
    {
        "Constant": Translation._constant,
        "Broadcast": Translation._broadcast,
        "Reshape": Translation._reshape,
        "Sum": Translation._sum,
        "Transpose": Translation._transpose,
        "BatchMatmul": Translation._product,
        "Dot": Translation._product,
    }
)


def _simplified(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """A formula with values in the place of names, and what is plain worked out."""
    new: dict[Expr, Expr] = {}

    def get(node: Expr) -> Expr:
        return values[node.id] if isinstance(node, Name) else new.get(node, node)

    for node in formula.postorder((expr,)):
        args = [get(arg) for arg in node.args]
        simplified = _SIMPLIFIED.get(node.op)
        if simplified is not None:
            new[node] = simplified(*args)
        elif node.op in _WORKED_OUT and isinstance(args[0], Number):
            new[node] = number(_WORKED_OUT[node.op](args[0].value))
        else:
            new[node] = formula.apply(node.op, *args)
    return get(expr)


def _turned(tree: Any) -> Any:
    """The transposed matrix; of a transposed one what it was."""
    if isinstance(tree, OpTreeNode) and tree[0]["op"] == "transpose":
        return tree[1]
    return OpTreeNode.build("transpose", tree, None)


def _core_node(op: str, shape: tuple[int, ...], operands: Sequence[Any], attributes: Mapping[str, Any]) -> OpTreeNode:
    """A node that names an op spec of the core; of more than two operands, the further ones are a tuple."""
    about: dict[str, Any] = {"op": op, "shape": shape}
    if attributes:
        about["attributes"] = tuple(attributes.items())
    a, *further = operands or [None]
    return OpTreeNode(about, a, tuple(further) if len(further) > 1 else further[0] if further else None)
