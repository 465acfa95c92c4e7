"""Assignment of op-trees to tensors: each, or several at once, runs as one program, which a kept tree keeps, too."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.dtypes import epsilon
from atled.errors import four_parts
from atled.keyed import Description, Pattern, View
from atled.neon.nervana_object import NervanaObject
from atled.neon.trees.building import Shape, known_shape, reduction_of, shape_of
from atled.neon.trees.filling import refuse_target
from atled.neon.trees.lowering import Lowering
from atled.neon.trees.repeats import note_repeat, repeated
from atled.neon.trees.walks import tensors_of

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor

_PLACES = ("argmax", "argmin")
_KEPT_COUNT = 4
"""Targets for which a tree keeps its descriptions: more are described anew, which takes up to ten times as long."""


def assign(target: Tensor, tree: Any) -> None:
    """Have a tensor hold what an op-tree, a tensor or a number gives, cast to its dtype.

    ValueError: the shape does not broadcast to the target's, a tensor is of another backend, the target's was cleaned
    up, or the target is a copy that stands for a view. Where it fails, the target is as it was.
    """
    if target.backend.closed or target.view.read_only:
        refuse_target(target)
    if not isinstance(tree, tuple):
        _described(target, tree)[0].run()
        return
    noted: dict[str, Any] = tree.__dict__  # a node, which alone is a tuple here
    kept: _Kept | None = noted.get("kept")
    found = None if kept is None else kept.get(id(target))
    if found is not None and found[0]() is target:
        found[1].run()
        return
    d = _assigned_alike(target, tree, *noted["alike"]) if "alike" in noted else _assigned(target, tree)
    if d is None:
        return
    if kept is not None:
        kept.add(target, d)
    elif "kept" in noted:
        noted["kept"] = _Kept()  # assigned a second time it is worth keeping
        noted["kept"].add(target, d)
    else:
        noted["kept"] = None


def _assigned(target: Tensor, tree: Any) -> Description | None:
    """Assign a tree: the description; None where it drew random numbers, which it would not draw again."""
    key, d = repeated(target, tree)
    if d is not None:
        if tree[0]["shape"] != target.shape:
            _check_shape(target.shape, tree[0]["shape"])
        d.run()
        return d
    d, drew = _described(target, tree)
    d.run()
    if key is not None:
        note_repeat(key, target, tree, d)
    return None if drew else d


def _assigned_alike(
    target: Tensor, tree: Any, assignments: Assignments, backend: object, views: Sequence[View]
) -> Description | None:
    """The same of a tree that differs from others in nothing but its tensors, of a backend."""
    d = assignments.run(target, views) if backend is target.backend else None
    if d is not None:
        return d
    d, drew = _described(target, tree)
    d.run()
    if drew:
        return None
    assignments.note(target, views, d)
    return d


class _Kept(dict[int, tuple[Any, Description]]):
    """The descriptions of a tree for some targets, by the identity of these, as long as they live."""

    def add(self, target: Tensor, d: Description) -> None:
        """Keep one; those of more targets than are kept are forgotten."""
        if len(self) >= _KEPT_COUNT:
            self.clear()
        key, itself = id(target), weakref.ref(self)

        def forget(_: object) -> None:
            kept = itself()
            if kept is not None:
                kept.pop(key, None)

        self[key] = weakref.ref(target, forget), d


class Assignments:
    """How trees are assigned that differ in nothing but their tensors: what was described once goes for all of them.

    Which tensors are the same ones, or have which elements of one memory, does not differ either.
    """

    __slots__ = ("_patterns",)

    def __init__(self) -> None:
        self._patterns: dict[Any, Pattern] = {}

    def run(self, target: Tensor, views: Sequence[View]) -> Description | None:
        """Assign such a tree: the description; None where none was noted for such a target, or that has its memory.

        views: of its tensors, in an order that is that of all such trees; the target is of their backend.
        """
        view = target.view
        pattern = self._patterns.get((view.desc, view.cell.size))
        return None if pattern is None else pattern.run([*views, view])

    def note(self, target: Tensor, views: Sequence[View], d: Description) -> None:
        """Remember an assignment that was described anew, of a tree of tensors to one with memory of its own."""
        view = target.view
        if any(each.cell is view.cell for each in views):
            return
        pattern = d.pattern([*views, view])
        if pattern is not None:
            if len(self._patterns) >= _KEPT_COUNT:
                self._patterns.clear()
            self._patterns[view.desc, view.cell.size] = pattern


def assign_all(pairs: Sequence[tuple[Tensor, Any]], numbers: Sequence[tuple[Any, float]] = ()) -> Description:
    """Have tensors hold what op-trees give, all at once: each tree reads the values from before.

    pairs: targets, and their op-trees, tensors or numbers; one pair at least.
    numbers: nodes that stand for Python numbers in the trees, and these numbers, which are the first values of the
        description: `set_number(n, value)` changes the one at n.

    Returns: the description, which has run, and which does the same with the numbers that it has then when it runs
    again; only random numbers stay those that were drawn.  ValueError: as of `assign`, for each. Where it fails, all
    targets are as they were.
    """
    for target, tree in pairs:
        if target.backend.closed or target.view.read_only:
            refuse_target(target)
        _check_shape(target.shape, shape_of(tree))
    first = pairs[0][0]
    d = Description(first.backend.context)
    lowering = Lowering(d, {node: d.number(float(value)) for node, value in numbers}, first)
    for target, tree in pairs:
        lowering.aim(target)
        d.assign(target.view, lowering.value(tree))
    d.run()
    return d


def assigned_anew(tree: Any) -> Tensor:
    """A new tensor with the values of an op-tree, in the default dtype of its backend."""
    backend, shape = _surroundings(tree)
    made: Tensor = backend.empty(shape)
    assign(made, tree)
    return made


def plan_of(tree: Any) -> Any:  # a plan of the core, which front ends do not import
    """The plan of an assignment, or of the assignment of another tree to a new tensor."""
    if tree[0]["op"] == "assign":
        _, target, value = tree
    else:
        backend, shape = _surroundings(tree)
        target, value = backend.empty(shape), tree
    return _described(target, value, is_run=False)[0].plan


def _surroundings(tree: Any) -> tuple[Any, tuple[int, ...]]:
    """The backend and the shape of an op-tree; ValueError where the tree does not have them."""
    tensors, shape = tensors_of(tree), shape_of(tree)
    backend = tensors[0].backend if tensors else NervanaObject.be
    if backend is not None and shape is not None and None not in shape:
        return backend, shape
    wrong = "it has no tensor, and there is no backend" if backend is None else "only a target gives its shape"
    asked = f"a new tensor for op-tree node {tree[0]['op']!r}"
    raise ValueError(four_parts(asked, wrong, "", "make a tensor, and assign the tree to that"))


def _described(target: Tensor, tree: Any, *, is_run: bool = True) -> tuple[Description, bool]:
    """The description of an assignment, and whether random numbers were drawn for it, which they are if it is run."""
    shape = tree[0]["shape"] if isinstance(tree, tuple) else shape_of(tree)
    if shape != target.shape:
        _check_shape(target.shape, shape)
    if isinstance(tree, tuple) and tree[0]["op"] in _PLACES:
        _check_holds(target, tree)
    d = Description(target.backend.context)
    lowering = Lowering(d, None, target, draws=is_run)
    d.assign(target.view, lowering.value(tree))
    return d, lowering.drew


def _check_shape(target: tuple[int, ...], shape: Shape | None) -> None:
    """Refuse what does not broadcast to a target; what is not known yet of a shape will be that of the target."""
    if shape is None:
        return
    behind = target[len(target) - len(shape) :]
    if len(shape) <= len(target) and all(n in (1, None, size) for n, size in zip(shape, behind, strict=True)):
        return
    asked = f"an assignment of an op-tree of shape {shape} to a tensor of shape {target}"
    remedy = "make the target of the tree's shape, or reshape it"
    raise ValueError(four_parts(asked, "the one does not broadcast to the other", "", remedy))


def _check_holds(target: Tensor, tree: Any) -> None:
    """Refuse a target whose dtype does not hold all indices that an argmax or argmin may give."""
    about, dtype, shape = tree[0], target.dtype, known_shape(tree[0]["op"], tree[1])
    last = reduction_of(about["op"], shape, about["axis"], False).elements - 1
    most = np.iinfo(dtype).max if dtype.kind in "iu" else 1 if dtype.kind == "b" else round(2 / epsilon(dtype))
    if last > most:
        asked = (
            f"{about['op']} of shape {shape} over axis {about['axis']} into a tensor {dtype.name}{list(target.shape)}"
        )
        wrong = f"{dtype.name} does not hold the index {last}"
        raise ValueError(four_parts(asked, wrong, "", "assign to a tensor with dtype=numpy.int32"))
