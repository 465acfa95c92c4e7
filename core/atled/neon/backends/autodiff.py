"""Autodiff: the gradients of an op-tree, as op-trees, tensors or arrays."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description
from atled.neon.backends.backend import Backend
from atled.neon.trees.gradients import Form, gradients
from atled.neon.trees.lowering import Lowering
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.tensor import Tensor
from atled.strides import overlap


class Autodiff:
    """The gradients of the sum of an op-tree with respect to tensors.

    The same tree, backend and error give the same object, as long as somebody has it.

    op_tree: the tree.  be: the backend of its tensors.
    next_error: what the elements are multiplied by before they are summed, a constant: a tensor or op-tree of the shape
        of the tree; None for ones.

    TypeError: something is none of these.  ValueError: shapes differ, tensors are of another backend, the tree is an
    assignment, or has the shape of a target that it has not got.
    """

    __slots__ = ("__weakref__", "_form", "_inputs", "_kept", "_key", "be", "dtype", "next_error", "op_tree")

    op_tree: Any
    be: Any
    next_error: Any
    dtype: np.dtype
    _form: Form
    _inputs: tuple[Tensor, ...]
    _key: tuple[Any, ...]
    _kept: tuple[Any, Description, list[Any]] | None

    def __new__(cls, op_tree: Any, be: Any, next_error: Any = None) -> Autodiff:
        """See the class."""
        _check_types(op_tree, be, next_error)
        form = Form()
        form.read(op_tree)
        inputs = tuple(form.tensors)
        form.key.append("error")
        form.read(next_error)
        # Whoever is found has the tree, and with it all that is named by its identity here.
        key = (cls, id(be), *form.key, *map(id, form.tensors))
        found = _KNOWN.get(key)
        if found is not None:
            return found
        _check(op_tree, be, next_error, form)
        made = super().__new__(cls)
        made.op_tree, made.be, made.next_error, made._form, made._kept = op_tree, be, next_error, form, None
        made._inputs, made._key = inputs, key
        made.dtype = be.default_dtype
        return _KNOWN.setdefault(key, made)

    def get_grad_op_tree(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The gradients with respect to tensors: op-trees, or the tensor that one is; unused ones get `tensor * 0`.

        Views of one memory are told apart: a tensor gets what arrives at its own elements, by whichever view.
        """
        self._check_tensors("get_grad_op_tree", tensors)
        return gradients(self._form, self.op_tree, self.next_error, self.be, tensors)

    def back_prop_grad(self, tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Write the gradients with respect to tensors into others, by one program.

        gradients: of the shapes of the tensors; one may be the error, or a part of it: it is written behind the rest.

        ValueError: one of another shape or backend, or that has elements of a tensor of the tree. Nothing is written.
        """
        self._check_tensors("back_prop_grad", tensors)
        self._check_tensors("back_prop_grad", gradients)
        kept, key = self._kept, (*map(id, tensors), *map(id, gradients))
        if kept is not None and kept[0] == key:
            kept[1].run()
            return
        _check_buffers(tensors, gradients, self._inputs)
        self._assign(tensors, gradients, key)

    def get_grad_tensor(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The gradients with respect to tensors, in new tensors of their shapes and the backend's default dtype."""
        self._check_tensors("get_grad_tensor", tensors)
        made = [self.be.empty(tensor.shape) for tensor in tensors]
        self._assign(tensors, made)
        return made

    def get_grad_asnumpyarray(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """The gradients with respect to tensors, as arrays of the backend's default dtype."""
        return [tensor.get() for tensor in self.get_grad_tensor(tensors)]

    def cleanup(self) -> None:
        """Let go of the tree and its tensors; it gives no gradients then."""
        _KNOWN.pop(self._key, None)
        self.op_tree = self.next_error = self._kept = None
        self._form, self._inputs = Form(), ()

    def _assign(self, tensors: Sequence[Tensor], targets: Sequence[Tensor], key: tuple[int, ...] = ()) -> None:
        """Compute gradients by one program, which is kept for the next time if it has a key."""
        if not targets:
            return
        d = Description(self.be.context)
        lowering = Lowering(d, None, targets[0])
        for target, tree in zip(targets, self.get_grad_op_tree(tensors), strict=True):
            d.assign(target.view, lowering.value(tree))
        d.run()
        if key and not lowering.drew:
            # Not beyond the life of a tensor that it was made for: another one could have its identity then.
            watched = [weakref.ref(each, self._forget) for each in (*tensors, *targets)]
            self._kept = key, d, watched

    def _forget(self, _: Any) -> None:
        self._kept = None

    def _check_tensors(self, asked: str, tensors: Any) -> None:
        if not isinstance(tensors, list | tuple) or not all(isinstance(each, Tensor) for each in tensors):
            given = [type(each).__name__ for each in tensors] if isinstance(tensors, list | tuple) else tensors
            raise TypeError(
                four_parts(f"{asked} of {given}", "that is no list of tensors", "", "pass a list of tensors")
            )
        if self.op_tree is None:
            raise ValueError(
                four_parts(asked, "cleanup() has let go of the op-tree", "", "make an Autodiff of it anew")
            )
        for each in tensors:
            _check_backend(asked, each, self.be)


_OPERANDS = OpTreeNode, Tensor
_KNOWN: weakref.WeakValueDictionary[tuple[Any, ...], Autodiff] = weakref.WeakValueDictionary()


def _check_types(op_tree: Any, be: Any, next_error: Any) -> None:
    if isinstance(op_tree, _OPERANDS) and isinstance(be, Backend) and isinstance(next_error, (*_OPERANDS, NoneType)):
        return
    asked = _asked(op_tree, be, next_error)
    if not isinstance(op_tree, _OPERANDS):
        raise TypeError(four_parts(asked, "the first argument is no op-tree", "", "pass an op-tree, such as x * y"))
    if not isinstance(be, Backend):
        raise TypeError(four_parts(asked, "the second argument is no backend", "", "pass what gen_backend gave"))
    remedy = "pass a tensor or an op-tree of the shape of the first argument, or None for ones"
    raise TypeError(four_parts(asked, "the error is no tensor or op-tree", "", remedy))


def _check(op_tree: Any, be: Any, next_error: Any, form: Form) -> None:
    asked = _asked(op_tree, be, next_error)
    if any(part[0]["op"] == "assign" for part in form.parts if isinstance(part, OpTreeNode)):
        raise ValueError(four_parts(asked, "there is an assignment in it", "", "pass the op-tree that is assigned"))
    shape = op_tree.shape
    if shape is None or None in shape:
        wrong = f"only a target gives the tree its shape, which is {shape} so far"
        raise ValueError(four_parts(asked, wrong, "", "combine it with a tensor that has the shape"))
    if next_error is not None and next_error.shape != shape:
        wrong = f"the tree has shape {shape}, the error {next_error.shape}"
        raise ValueError(four_parts(asked, wrong, "", "give an error of the shape of the tree"))
    for tensor in form.tensors:
        _check_backend("Autodiff", tensor, be)


def _asked(*arguments: Any) -> str:
    return f"Autodiff({', '.join(map(_named, arguments))})"


def _named(argument: Any) -> str:
    """What an argument is: to print all of a tree would say less."""
    is_shown = isinstance(argument, _OPERANDS)
    return f"{type(argument).__name__} of shape {argument.shape}" if is_shown else shortened(argument)


def _check_backend(asked: str, tensor: Tensor, be: Any) -> None:
    if tensor.backend is not be:
        wrong = f"a tensor of shape {tensor.shape} is of another backend, maybe of one that was cleaned up"
        raise ValueError(four_parts(asked, wrong, "", "make all tensors of one backend"))


def _check_buffers(tensors: Sequence[Tensor], buffers: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Refuse what gradients cannot be written into."""
    if len(tensors) != len(buffers):
        wrong = f"{len(tensors)} tensors and {len(buffers)} buffers"
        raise ValueError(four_parts("back_prop_grad", wrong, "", "give a buffer for each tensor"))
    for tensor, buffer in zip(tensors, buffers, strict=True):
        asked = f"back_prop_grad of a tensor of shape {tensor.shape} into one of shape {buffer.shape}"
        if tensor.shape != buffer.shape:
            raise ValueError(four_parts(asked, "the shapes differ", "", "give a buffer of the tensor's shape"))
        if any(_overlap(buffer, other) for other in (*inputs, *tensors)):
            wrong = "the buffer has elements of a tensor that gradients are taken of, or of one of the op-tree"
            raise ValueError(four_parts(asked, wrong, "", "give a buffer of its own"))


def _overlap(one: Tensor, other: Tensor) -> bool:
    return one.view.cell is other.view.cell and overlap(one.view.window, other.view.window)
