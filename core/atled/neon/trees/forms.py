"""The form of op-trees: what is equal for those that differ in nothing but their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.errors import four_parts
from atled.neon.trees.building import NUMBERS
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.tensor import Tensor


class Form:
    """What trees consist of: their nodes and tensors, and what is equal for trees that differ in their tensors only.

    parts: nodes and tensors, these also by themselves, in the order in which they are met first.
    numbers: of the parts, by their identity.
    key: of ops, attributes, shapes, dtypes, and of which tensors are the same or have which elements of one memory.
    """

    __slots__ = ("_cells", "key", "numbers", "parts", "tensors")

    def __init__(self, start: Form | None = None) -> None:
        """start: what it consists of at first; its key is only of what comes then."""
        self.key: list[Any] = []
        if start is None:
            self.parts: list[Any] = []
            self.tensors: list[Any] = []
            self.numbers: dict[int, int] = {}
            self._cells: dict[Any, Any] = {}
        else:
            self.parts, self.tensors = start.parts.copy(), start.tensors.copy()
            self.numbers, self._cells = start.numbers.copy(), start._cells.copy()

    def read(self, root: Any) -> None:
        """Take in a tree, a tensor or a number; TypeError where there is something else in it."""
        parts, tensors, numbers, cells = self.parts, self.tensors, self.numbers, self._cells
        note = self.key.append
        stack = [root]
        while stack:
            part = stack.pop()
            name = id(part)
            if name in numbers:
                note(numbers[name])
                continue
            kind = type(part)
            if kind is OpTreeNode:
                numbers[name] = len(parts)
                parts.append(part)
                about, a, b = part
                # Of elementwise nodes the shape follows from the operands.
                note(about["op"] if len(about) == 2 and a is not None else (*about.items(),))
                if b is not None:
                    stack.append(b)
                    stack.append(a)
                else:
                    note(None)
                    if a is not None:
                        stack.append(a)
                    else:
                        note(None)
            elif isinstance(part, Tensor):
                numbers[name] = len(parts)
                parts.append(part)
                view = part.view
                cell, desc, offset = view.cell, view.desc, view.offset
                first, begin = cells.setdefault(cell, (len(tensors), offset))
                tensors.append(part)
                note((desc.shape, desc.dtype.num, desc.strides, cell.size, first, offset - begin))
            elif kind is float or kind is int or part is None or isinstance(part, NUMBERS):
                note(kind)
                note(part or repr(part))  # 0.0 and -0.0 are equal, and not the same
            elif kind is tuple:
                note((len(part),))
                stack += part[::-1]
            else:
                asked = f"an op-tree with an operand of type {kind.__name__}"
                remedy = "make the tree of tensors, op-trees and numbers"
                raise TypeError(four_parts(asked, "that is no tensor, op-tree or number", "", remedy))

    def placed(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """What is equal for tensors of which the same ones have the same elements of memory that it has."""
        cells = self._cells
        key: list[Any] = []
        new: dict[Any, tuple[int, int]] = {}
        for number, tensor in enumerate(tensors):
            view = tensor.view
            cell, desc, offset = view.cell, view.desc, view.offset
            first, begin = cells.get(cell) or new.setdefault(cell, (-1 - number, offset))
            key += (desc.shape, desc.dtype.num, desc.strides, cell.size, first, offset - begin)
        return (*key,)
