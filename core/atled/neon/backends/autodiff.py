"""Autodiff: the gradients of an op-tree, as op-trees, tensors or arrays."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description
from atled.neon.backends.backend import Backend
from atled.neon.backends.grad_nodes import GradNode, GradUtil
from atled.neon.trees.filling import refuse_target
from atled.neon.trees.forms import Form
from atled.neon.trees.gradients import FAMILIES, Family, keep
from atled.neon.trees.lowering import Lowering
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.tensor import Tensor
from atled.strides import overlap

__all__ = ["Autodiff", "GradNode", "GradUtil"]


class Autodiff:
    """The gradients of the sum of an op-tree with respect to tensors.

    The same tree, backend and error give the same object, as long as it is referred to.

    op_tree: the tree.  be: the backend of its tensors.
    next_error: what the elements are multiplied by before they are summed, a constant: a tensor or op-tree of the shape
        of the tree; None for ones.

    TypeError: something is none of these.  ValueError: shapes differ, tensors are of another backend, the tree is an
    assignment, or has the shape of a target that it has not got.
    """

    __slots__ = (
        "__weakref__",
        "_family",
        "_form",
        "_input_count",
        "_kept",
        "_trees",
        "be",
        "dtype",
        "next_error",
        "op_tree",
    )

    op_tree: Any
    be: Any
    next_error: Any
    dtype: np.dtype
    _form: Form
    _family: Family
    _input_count: int
    _trees: dict[tuple[int, ...], list[Any]]
    _kept: _Kept | None

    def __new__(cls, op_tree: Any, be: Any, next_error: Any = None) -> Autodiff:
        """See the class."""
        _check_types(op_tree, be, next_error)
        form = Form()
        form.read(op_tree)
        inputs = len(form.tensors)
        if next_error is not None:
            form.key.append("error")
            form.read(next_error)
        key = (be.context, be.default_dtype, *form.key)
        family = FAMILIES.get(key) or FAMILIES.find_old(key)
        if family is None:
            _check(op_tree, be, next_error, form)
            family = FAMILIES.add(key, Family())
        # The object that is found refers to the tensors, and so keeps alive all that is named by its identity here.
        identity = (cls, id(be), *map(id, form.tensors))
        found: Autodiff | None = family.object(identity)
        if found is not None and found.op_tree is not None:
            return found
        for tensor in form.tensors:
            if tensor.backend is not be:
                raise _foreign("Autodiff", tensor)
        made = super().__new__(cls)
        made.op_tree, made.be, made.next_error, made.dtype = op_tree, be, next_error, be.default_dtype
        made._form, made._family, made._input_count = form, family, inputs
        made._trees, made._kept = {}, None
        family.enter(identity, made)
        return made

    def __reduce__(self) -> NoReturn:
        """TypeError: it is neither pickled nor copied."""
        asked, wrong = "a pickle or a copy by `copy` of an Autodiff", "its tree refers to tensors, memory of a backend"
        raise TypeError(four_parts(asked, wrong, "", "build the tree again, and give it to Autodiff"))

    def get_grad_op_tree(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The gradients with respect to tensors: op-trees, or the tensor that one is; unused ones get `tensor * 0`.

        Views of one memory are told apart: a tensor gets what arrives at its own elements, by whichever view.
        """
        form, numbers = self._form, self._form.numbers
        if isinstance(tensors, list | tuple):
            key = (*[numbers.get(id(tensor), -1) for tensor in tensors],)
            if -1 not in key:  # then they are tensors of the tree, and nothing but that has to be kept alive
                found = self._trees.get(key)
                if found is None:
                    recipe = self._family.recipes.get(key)
                    found = self._trees[key] = self._derived(tensors) if recipe is None else recipe.of(form.parts)
                return found.copy()
        self._check_tensors("get_grad_op_tree", tensors)
        return self._derived(tensors)

    def back_prop_grad(self, tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Write the gradients with respect to tensors into others, by one program.

        gradients: of the shapes of the tensors; one may be the error, or a part of it: it is written behind the rest.

        ValueError: one of another shape or backend, or that has elements of a tensor of the tree. Nothing is written.
        """
        self._check_tensors("back_prop_grad", tensors)
        self._check_tensors("back_prop_grad", gradients)
        kept, key = self._kept, (*map(id, tensors), *map(id, gradients))
        if kept is not None and kept.key == key and kept.description is not None:
            kept.description.run()
            return
        _check_buffers(tensors, gradients, self._form.tensors[: self._input_count])
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
        self.op_tree = self.next_error = self._kept = None
        self._form, self._trees = Form(), {}

    def _derived(self, tensors: Sequence[Tensor]) -> list[Any]:
        return self._family.gradients(self._form, self.op_tree, self.next_error, self.be, tensors)

    def _assign(self, tensors: Sequence[Tensor], targets: Sequence[Tensor], key: tuple[int, ...] = ()) -> None:
        """Compute gradients by one program, which is kept for the next time if it has a key."""
        if not targets:
            return
        form, numbers, programs = self._form, self._form.numbers, self._family.programs
        name = (*[numbers.get(id(tensor), -1) for tensor in tensors], *form.placed(targets))
        pattern = None if -1 in name[: len(tensors)] else programs.get(name)
        d = None if pattern is None else pattern.run([each.view for each in (*form.tensors, *targets)])
        if d is None:
            d = Description(self.be.context)
            lowering = Lowering(d, None, targets[0])
            for target, tree in zip(targets, self.get_grad_op_tree(tensors), strict=True):
                d.assign(target.view, lowering.value(tree))
            d.run()
            if lowering.drew:
                return
            pattern = d.pattern([each.view for each in (*form.tensors, *targets)])
            if pattern is not None and -1 not in name[: len(tensors)]:
                keep(programs, name, pattern)
        if key:
            # Not beyond the life of a tensor that it was made for: another one could have its identity then.
            self._kept = kept = _Kept(key, d)
            kept.watch((*tensors, *targets))

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
            if each.backend is not self.be:
                raise _foreign(asked, each)
        if self.be.closed:
            wrong = "its backend was cleaned up"
            remedy = "make tensors by the present backend, NervanaObject.be, and an op-tree of them"
            raise ValueError(four_parts(asked, wrong, "", remedy))


class _Kept:
    """The program of a `back_prop_grad`, as long as the tensors live that it was made for.

    key: identities of these.
    """

    __slots__ = ("__weakref__", "_watched", "description", "key")

    def __init__(self, key: tuple[int, ...], description: Description) -> None:
        self.key = key
        self.description: Description | None = description

    def watch(self, tensors: Iterable[Tensor]) -> None:
        """Let go of the program, and with it of the memory of all, when one of these dies."""
        kept = weakref.ref(self)  # no callback may keep it alive

        def forget(_: object) -> None:
            found = kept()
            if found is not None:
                found.description = None

        self._watched = [weakref.ref(each, forget) for each in tensors]


_OPERANDS = OpTreeNode, Tensor
_ERRORS = OpTreeNode, Tensor, NoneType


def _check_types(op_tree: Any, be: Any, next_error: Any) -> None:
    if isinstance(op_tree, _OPERANDS) and isinstance(be, Backend) and isinstance(next_error, _ERRORS):
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


def _asked(*arguments: Any) -> str:
    return f"Autodiff({', '.join(map(_named, arguments))})"


def _named(argument: Any) -> str:
    """What an argument is: to print all of a tree would say less."""
    is_shown = isinstance(argument, _OPERANDS)
    return f"{type(argument).__name__} of shape {argument.shape}" if is_shown else shortened(argument)


def _foreign(asked: str, tensor: Tensor) -> ValueError:
    """The error of a tensor of another backend."""
    wrong = f"a tensor of shape {tensor.shape} is of another backend, maybe of one that was cleaned up"
    return ValueError(four_parts(asked, wrong, "", "make all tensors of one backend"))


def _check_buffers(tensors: Sequence[Tensor], buffers: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Refuse what gradients cannot be written into."""
    if len(tensors) != len(buffers):
        wrong = f"{len(tensors)} tensors and {len(buffers)} buffers"
        raise ValueError(four_parts("back_prop_grad", wrong, "", "give a buffer for each tensor"))
    for tensor, buffer in zip(tensors, buffers, strict=True):
        asked = f"back_prop_grad of a tensor of shape {tensor.shape} into one of shape {buffer.shape}"
        if buffer.view.read_only:
            refuse_target(buffer)
        if tensor.shape != buffer.shape:
            raise ValueError(four_parts(asked, "the shapes differ", "", "give a buffer of the tensor's shape"))
        if any(_overlap(buffer, other) for other in (*inputs, *tensors)):
            wrong = "the buffer has elements of a tensor that gradients are taken of, or of one of the op-tree"
            raise ValueError(four_parts(asked, wrong, "", "give a buffer of its own"))


def _overlap(one: Tensor, other: Tensor) -> bool:
    return one.view.cell is other.view.cell and overlap(one.view.window, other.view.window)
