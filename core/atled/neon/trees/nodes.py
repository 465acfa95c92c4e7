"""OpTreeNode: an expression of tensors that has not been computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.nervana_object import NervanaObject
from atled.neon.trees import walks
from atled.neon.trees.assignment import assign, assigned_anew, plan_of
from atled.neon.trees.building import NUMBERS, builder_of, operand_count, shape_of
from atled.neon.trees.operand import Operand

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor

_new = tuple.__new__
_OPERANDS = (Operand, *NUMBERS)


class _Shape:
    """The shape of a node, and, asked of the class, a function that gives that of any operand."""

    def __get__(self, node: Any, owner: Any) -> Any:
        return shape_of if node is None else node[0]["shape"]


class OpTreeNode(Operand, tuple[Any, Any, Any]):
    """A dictionary with the op and its shape, and the left and right operand: trees, tensors, numbers or None.

    A node may name an op spec of the core as well: then its dictionary has the attributes of the call, as pairs, and
    where it is not the first one the position of the output; the right operand is a tuple where there are more than
    two.

    shape: sizes per axis; None in it, or for it, is what only the target of an assignment gives.
    """

    shape = _Shape()

    def __new__(cls, op_dict: dict[str, Any], a: Any, b: Any) -> OpTreeNode:
        return _new(cls, (op_dict, a, b))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """TypeError: a tree is neither pickled nor copied by `copy`."""
        asked, wrong = (
            f"a pickle or a copy by `copy` of {shortened(self)}",
            "an op-tree refers to tensors, memory of a backend",
        )
        remedy = "build it again; trees do not change, so one may be used wherever a copy would be"
        raise TypeError(four_parts(asked, wrong, "", remedy))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            four_parts(f"{name} of an op-tree", "op-trees do not change", "", "make a new one with OpTreeNode")
        )

    @staticmethod
    def build(op: str, a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
        """A tree of the op and its operands; where `out` is given, or the op is assign, it is computed at once.

        a, b: tensors, op-trees, numbers; None for an absent one.  kwargs: what the dictionary of the node has besides.
        Returns: the tree; `out`, or what was assigned to; NotImplemented for an operand of another type.

        ValueError: an unknown op, shapes that do not fit, an axis out of range.
        """
        make = builder_of(op)
        for each in (a, b):
            if not (each is None or isinstance(each, _OPERANDS)):
                return NotImplemented
        needed = operand_count(op)
        if (a is None and needed > 0) or (b is None and needed > 1):
            wrong = f"of {needed} operands one is None" if needed > 1 else "its operand is None"
            raise TypeError(four_parts(f"op-tree node {op!r}", wrong, "", "pass tensors, op-trees or numbers"))
        target = a if op == "assign" else out
        if target is not None and (isinstance(target, tuple) or not isinstance(target, Operand)):
            wrong = f"{type(target).__name__} is no tensor"
            raise TypeError(four_parts(f"op-tree node {op!r} into `out`", wrong, "", "pass a tensor to write to"))
        if a is not None and not isinstance(a, Operand) and not isinstance(b, Operand):
            a = _constant(a)
        node = _new(OpTreeNode, make(op, a, b, kwargs))
        if op == "assign":
            assign(a, b)
            return a
        if out is None:
            return node
        assign(out, node)
        return out

    def execute(self) -> Tensor:
        """Assign: the op must be assign, and that of no other node. Returns what was assigned to."""
        about, target, value = self
        nodes = [each for each in walks.different(value) if walks.is_node(each)]
        if about["op"] != "assign" or any(each[0]["op"] == "assign" for each in nodes):
            wrong = "the op of its root, and of no other node, has to be assign"
            remedy = "assign with `out[:] = tree`, or make OpTreeNode.build('assign', out, tree)"
            raise ValueError(four_parts(f"execution of op-tree node {about['op']!r}", wrong, "", remedy))
        assign(target, value)
        found: Tensor = target
        return found

    @property
    def T(self) -> Any:
        """Its axes in the other order; of three the last two are swapped."""
        return OpTreeNode.build("transpose", self, None)

    def transpose(self, out: Any = None) -> Any:
        """`T`, or `out`, to which it is assigned."""
        return OpTreeNode.build("transpose", self, None, out=out)

    def astensor(self) -> Tensor:
        """The values, in a new tensor of the backend's default dtype."""
        return assigned_anew(self)

    def asnumpyarray(self) -> np.ndarray:
        """The values, in a new array of the backend's default dtype."""
        values: np.ndarray = assigned_anew(self).get()
        return values

    @property
    def plan(self) -> Any:  # a plan of the core, which front ends do not import
        """The steps that assignment runs, and who computes them; `print` shows it. Nothing is computed.

        A tree that is no assignment is planned as if it were assigned to a new tensor.
        """
        return plan_of(self)

    def key(self) -> tuple[Any, ...]:
        """What is equal for trees of the same ops, with the same attributes, on the same tensors."""
        return walks.key(self)

    def intrinsic_key_maps(self) -> tuple[tuple[Any, ...], dict[Any, int], dict[int, Any]]:
        """A key in which tensors are numbers, the number of each tensor, and the tensor of each number."""
        return walks.intrinsic_key_maps(self)

    def traverse(self, st: list[Any]) -> list[Any]:
        """Append leaves and the dictionaries of nodes to a list, operands in front of their op; returns the list."""
        st += walks.postfix(self)
        return st

    def optree_to_list(self) -> list[Any]:
        """A list of dictionary, left and right operand, of which those that are trees are lists, too."""
        return walks.to_list(self)

    @staticmethod
    def list_to_optree(l: list[Any]) -> OpTreeNode:  # noqa: E741  # the name that programs may use as a keyword
        """The tree of such a list. ValueError: a list that is none."""
        if len(l) != 3 or not isinstance(l[0], dict):
            wrong = "a node is a list of its dictionary, its left and its right operand"
            raise ValueError(
                four_parts(f"list_to_optree({shortened(l)})", wrong, "", "pass what optree_to_list returned")
            )
        about, *operands = l
        a, b = (OpTreeNode.list_to_optree(each) if isinstance(each, list) else each for each in operands)
        return OpTreeNode(about, a, b)

    def pp(self) -> str:
        """The tree as a formula."""
        return walks.infix(self)

    def __str__(self) -> str:
        return walks.written(self)

    __repr__ = __str__


Operand.node_class = OpTreeNode


def _constant(value: Any) -> OpTreeNode:
    """A number where all operands are: an array of one element, in the dtype of the present backend."""
    dtype = "float32" if NervanaObject.be is None else str(np.dtype(NervanaObject.be.default_dtype))
    attributes = ("val", float(value)), ("shape", (1, 1)), ("dtype", dtype)
    return OpTreeNode({"op": "Constant", "shape": (1, 1), "attributes": attributes}, None, None)
