"""From op-trees to descriptions of programs: each node is described once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keyed import Description, NdArray, attributes_of
from atled.neon.trees.building import Shape, axes_of, shape_of, squeezed, transposed_axes
from atled.neon.trees.operand import Operand
from atled.neon.trees.rows import ELEMENTWISE, REDUCTIONS
from atled.sequences import RECORDERS, by_hand

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor

_DIRECT = {op: spec for op, spec in ELEMENTWISE.items() if op != "pow"}
"""What is a call of an op spec whatever the operands are."""

_FLOATING = frozenset(
    ("div", "sqrt", "exp", "exp2", "log", "log2", "safelog", "sig", "sig2", "tanh", "tanh2", "onehot")
)
_TENSOR: Any = Operand  # that is no node
_CALLS_LIMIT = 1024  # reductions by shape and axes
_ABSENT, _FURTHER = -1, -2  # no operand; a tuple of further ones


def lowered(d: Description, tree: Any, known: Mapping[Any, int] | None = None, target: Tensor | None = None) -> int:
    """The value, in a description, of an op-tree, a tensor or a number.

    known: values in it that stand for some tensors or nodes, by identity.
    target: what it is assigned to, which says the shape of random numbers and the count of a onehot, and whose backend
        draws.

    ValueError: a tensor is of another backend than the target.
    """
    return Lowering(d, known, target).value(tree)


class Lowering:
    """Describes op-trees in one description; equal numbers become one value, so that equal sub-trees are computed once.

    drew: whether there were random numbers in them, which a description has drawn when it runs.
    """

    __slots__ = ("_d", "_done", "_draws", "_numbers", "_target", "_wanted", "drew")

    def __init__(
        self,
        d: Description,
        known: Mapping[Any, int] | None = None,
        target: Tensor | None = None,
        *,
        draws: bool = True,
    ) -> None:
        """draws: whether random numbers are drawn; for plans zeros stand for them."""
        self._d = d
        self._target = target
        self._draws = draws
        # By identity, which is how tensors and nodes are hashed. Numbers are not in it: equal ones may be of two types.
        self._done: dict[Any, int] = {None: _ABSENT}
        if known:
            self._done.update(known)
        self._numbers: dict[tuple[type, Any], int] = {}
        self._wanted: dict[int, Shape | None] | None = None
        self.drew = False

    def aim(self, target: Tensor) -> None:
        """Describe trees that are assigned to another target from now on."""
        self._target = target
        self._wanted = None

    def value(self, root: Any) -> int:
        """The value of an op-tree, a tensor or a number."""
        done, entries, leaf = self._done, self._d.entries, self._leaf
        found, spec_of = done.get, _DIRECT.get
        if not isinstance(root, tuple):
            return done[root] if root in done else leaf(root)
        if root in done:
            return done[root]
        # Without recursion: trees that loops have built are deeper than Python's stack.
        stack = [root]
        pop = stack.pop
        while stack:
            node = pop()
            about, a, b = node
            left, right = found(a), found(b)
            if left is None:
                if isinstance(a, tuple):
                    # Behind b, so that it comes first: random numbers are drawn from left to right.
                    has_two = right is None and isinstance(b, tuple) and type(b) is not tuple
                    stack += (node, b, a) if has_two else (node, a)
                    continue
                left = leaf(a)
            if right is None:
                if not isinstance(b, tuple):
                    right = leaf(b)
                elif type(b) is not tuple:
                    stack += node, b
                    continue
                else:
                    right, waiting = _FURTHER, self._waiting(b)
                    if waiting:
                        stack += node, *waiting
                        continue
            spec = spec_of(about["op"])
            if spec is None:
                # Two nodes may have waited for it: what it draws is drawn once.
                made = done[node] if node in done else self._other(root, node, left, right)
            else:
                made = len(entries)
                entries.append((spec, (left,) if right == _ABSENT else (left, right)))
            done[node] = made
        return done[root]

    def _waiting(self, further: tuple[Any, ...]) -> list[Any]:
        """Those of further operands that are to be done first."""
        return [each for each in further[::-1] if isinstance(each, tuple) and each not in self._done]

    def _leaf(self, leaf: Any) -> int:
        if isinstance(leaf, _TENSOR):
            target = self._target
            if target is not None and leaf.backend is not target.backend:
                raise _foreign(leaf, target)
            number = self._d.leaf(leaf.view)
            self._done[leaf] = number
        else:
            value: Any = leaf.item() if isinstance(leaf, np.generic) else leaf
            key = type(value), value
            known = self._numbers.get(key)
            number = self._d.number(value) if known is None else known
            if value != 0:  # 0.0 and -0.0 are equal, and not the same
                self._numbers[key] = number
        return number

    def _other(self, root: Any, node: Any, left: int | None, right: int | None) -> int:
        """The value of a node that is not elementwise, of a random one, or of one that names an op spec."""
        op = node[0]["op"]
        if op in REDUCTIONS:
            return self._reduction(node, left)
        method = _OTHERS.get(op)
        if method is not None:
            made: int = method(self, root, node, left, right)
            return made
        further = [None if each is None else self.value(each) for each in node[2]] if right == _FURTHER else [right]
        operands = [None if each == _ABSENT else each for each in (left, *further)]
        while operands and operands[-1] is None:
            operands.pop()
        called = self._d.call(op, *operands, **dict(node[0].get("attributes", ())))
        return self._d.output(called, node[0]["output"]) if "output" in node[0] else called

    def _reduction(self, node: Any, x: int | None) -> int:
        about, shape = node[0], shape_of(node[1])
        entries = self._d.entries
        spec, attributes, is_reshaped = _reduction_call(about["op"], shape, about["axis"], about["shape"])
        entries.append((spec, (x,), attributes))
        called = len(entries) - 1
        return self._d.call("Reshape", called, shape=about["shape"]) if is_reshaped else called

    def _transpose(self, root: Any, node: Any, x: int | None, _: int | None) -> int:
        return self._d.call("Transpose", x, axes=transposed_axes(len(node[0]["shape"])))

    def _dot(self, root: Any, node: Any, x: int | None, y: int | None) -> int:
        return self._d.call("Dot", x, y)

    def _power(self, root: Any, node: Any, x: int | None, exponent: int | None) -> int:
        """Squares and square roots, which NumPy takes for powers of arrays, too, are several times as quick."""
        _, a, b = node
        if type(b) is int and b == 2:
            return self._d.call("Square", x)
        if type(b) is float and b in (2.0, 0.5) and _is_float(a):
            return self._d.call("Square" if b == 2 else "Sqrt", x)
        return self._d.call("Pow2", x, exponent)

    def _shift(self, root: Any, node: Any, x: int | None, by: int | None) -> int:
        return self._d.call("ShiftByValue" if node[0].get("value", True) else "ShiftByExponent", x, by)

    def _take(self, root: Any, node: Any, x: int | None, index: int | None) -> int:
        axis, shapes = node[0]["axis"], [shape_of(each) for each in node[1:]]
        assert shapes[0] is not None and shapes[1] is not None
        if axis is None:
            flat = self._d.call("Reshape", x, shape=(int(np.prod(shapes[0], dtype=int)),))
            return self._d.call("Take", flat, index, axis=0)
        return self._d.call("Take", x, self._d.call("Reshape", index, shape=squeezed(shapes[1])), axis=axis)

    def _onehot(self, root: Any, node: Any, indices: int | None, _: int | None) -> int:
        shape = self._wanted_of(root, node)
        axis, index = node[0]["axis"], node[1]
        count = shape[-2 + axis]
        assert count is not None
        index_count = node[0]["shape"][1 - axis]
        dtype = str(np.dtype(index.backend.default_dtype))
        rows = self._d.call("Reshape", indices, shape=(index_count, 1))
        made = self._d.call("OneHot", rows, shape=(count,), dtype=dtype)
        return made if axis == 1 else self._d.call("Transpose", made, axes=(1, 0))

    def _rand(self, root: Any, node: Any, _: int | None, __: int | None) -> int:
        return self._drawn(self._wanted_of(root, node))

    def _binarize(self, root: Any, node: Any, x: int | None, _: int | None) -> int:
        if not node[0].get("stochastic"):
            return self._d.call("Binarize", x)
        number = self._leaf
        half = self._d.call("Div2", self._d.call("Add2", x, number(1)), number(2))
        likely = self._d.call("MinimumTies", self._d.call("MaximumTies", half, number(0)), number(1))
        shape = shape_of(node[1])
        drawn = self._drawn(self._wanted_of(root, node) if shape is None or None in shape else shape)
        is_positive = self._d.call("OneWhereLess", drawn, likely)
        return self._d.call("Sub2", self._d.call("Mul2", is_positive, number(2)), number(1))

    def _drawn(self, shape: Shape) -> int:
        """Uniform numbers of the backend's generator, as a leaf."""
        self.drew = True
        if RECORDERS:
            by_hand("an op-tree draws random numbers")
        assert self._target is not None
        values = self._target.backend.rng.uniform(size=shape) if self._draws else np.zeros(shape)
        return self._d.leaf(NdArray.from_numpy_array(values))

    def _wanted_of(self, root: Any, node: Any) -> Shape:
        """The shape of a node that has it from its surroundings; ValueError where these do not have it."""
        if self._wanted is None or id(node) not in self._wanted:
            self._wanted = wanted(root, None if self._target is None else self._target.shape)
        shape = self._wanted[id(node)]
        if shape is None or (node[0]["op"] == "onehot" and shape[-2 + node[0]["axis"]] is None):
            asked = f"op-tree node {node[0]['op']!r}"
            remedy = "assign the tree to a tensor"
            raise ValueError(four_parts(asked, "it has the size of its target, and there is none", "", remedy))
        return shape


_OTHERS = {
    "pow": Lowering._power,
    "transpose": Lowering._transpose,
    "dot": Lowering._dot,
    "shift": Lowering._shift,
    "take": Lowering._take,
    "onehot": Lowering._onehot,
    "rand": Lowering._rand,
    "binarize": Lowering._binarize,
}


def _is_float(operand: Any, depth: int = 4) -> bool:
    """Whether an operand is of a float dtype for certain, as far as a few nodes tell."""
    if isinstance(operand, tuple):
        about, *operands = operand
        if about["op"] in _FLOATING:
            return True
        is_told = depth > 0 and about["op"] in (*ELEMENTWISE, "sum", "max", "min", "dot", "transpose")
        return is_told and any(_is_float(each, depth - 1) for each in operands)
    return isinstance(operand, float) or (isinstance(operand, _TENSOR) and operand.dtype.kind == "f")


@lru_cache(_CALLS_LIMIT)
def _reduction_call(op: str, shape: Any, axis: Any, made: Shape) -> tuple[str, Any, bool]:
    """The op spec of a reduction, its attributes, and whether the result has to be reshaped."""
    axes, spec = axes_of(axis, len(shape)), REDUCTIONS[op]
    keeps = len(made) == len(shape)
    return spec, attributes_of(spec, axes=axes, keep_dims=keeps), not keeps and len(shape) - len(axes) != len(made)


def wanted(root: Any, shape: Shape | None) -> dict[int, Shape | None]:
    """By identity of the nodes of a tree the shapes that they are to have, for a target of a shape."""
    found: dict[int, Shape | None] = {}
    stack: list[tuple[Any, Shape | None]] = [(root, shape)]
    while stack:
        node, shape = stack.pop()
        if id(node) in found:
            continue
        found[id(node)] = shape
        about, a, b = node
        if about["op"] == "dot":
            m, n = shape_of(a), shape_of(b)
            assert m is not None and n is not None
            shapes: list[Shape | None] = [
                (*m[:-1], n[-2] if m[-1] is None else m[-1]),
                (*n[:-2], m[-1] if n[-2] is None else n[-2], n[-1]),
            ]
        elif about["op"] in ELEMENTWISE or about["op"] in ("shift", "binarize"):
            shapes = [shape if shape is not None else about["shape"]] * 2
        else:
            shapes = [shape_of(a) if isinstance(a, tuple) else None] * 2
        stack += [
            (each, size)
            for each, size in zip((b, a), shapes[::-1], strict=True)
            if isinstance(each, tuple) and type(each) is not tuple
        ]
    return found


def _foreign(leaf: Any, target: Any) -> ValueError:
    """The error of a tensor of another backend than its target's."""
    return ValueError(
        four_parts(
            f"an assignment to a tensor of shape {target.shape}",
            f"the op-tree has a tensor of shape {leaf.shape} of another backend, maybe of one that was cleaned up",
            "",
            "make all tensors of one backend; copy values of others by get() and array()",
        )
    )
