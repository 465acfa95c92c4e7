"""Gradients of op-trees as op-trees: by the rules of the core, once for all trees of the same form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from atled.dtypes import is_float
from atled.keyed import Description, Generations, Pattern
from atled.named_tuple import NamedTuple
from atled.neon.trees.assignment import Assignments
from atled.neon.trees.forms import Form
from atled.neon.trees.lowering import Lowering
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.parts import Shared, groups
from atled.neon.trees.tensor import Tensor
from atled.neon.trees.translation import Translation
from atled.neon.trees.walks import tensors_of

_FORMS_LIMIT = 256
_RECIPES_LIMIT = 16
_OBJECTS_LIMIT = 64

_new = tuple.__new__


class Recipe(NamedTuple):
    """How the gradients of trees of a form are made of their parts.

    numbers: further operands.  made: per node its dictionary and the numbers of its operands, or of several as a tuple:
        of parts, then numbers, then nodes that were made.
    results: the numbers of the gradients.  assigned: how each is assigned, the number of a tensor and those of all of
        its tensors; None for what is a tensor itself, or has none.
    """

    numbers: list[Any]
    made: list[tuple[dict[str, Any], int, Any]]
    results: list[int]
    assigned: list[tuple[Assignments, int, list[int]] | None]

    def of(self, parts: Sequence[Any]) -> list[Any]:
        """The gradients of a tree with these parts."""
        values = [*parts, *self.numbers]
        note = values.append
        for about, a, b in self.made:
            right = values[b] if type(b) is int else tuple([values[each] for each in b])
            note(_new(OpTreeNode, (about, values[a], right)))
        for number, assigned in zip(self.results, self.assigned, strict=True):
            if assigned is not None:
                assignments, first, tensors = assigned
                views = [values[each].view for each in tensors]
                values[number].__dict__["alike"] = assignments, values[first].backend, views
        return [values[number] for number in self.results]


class Family:
    """All trees of one form, with their errors: how gradients are made, and who asked for them.

    recipes: by the numbers of the tensors that gradients are wanted for, or how these are read.
    programs: how gradients are computed into tensors, by the same numbers and where these tensors are.
    """

    __slots__ = ("_objects", "programs", "recipes")

    def __init__(self) -> None:
        self.recipes: dict[Any, Recipe] = {}
        self.programs: dict[Any, Pattern] = {}
        self._objects: dict[Any, ref[Any]] = {}

    def object(self, identity: Any) -> Any:
        """The object that was entered under an identity, while it lives; None where there is none."""
        found = self._objects.get(identity)
        return None if found is None else found()

    def enter(self, identity: Any, entered: Any) -> None:
        """Have `object` find an object by its identity, as long as it lives."""
        if len(self._objects) >= _OBJECTS_LIMIT:
            # Without those that died; of the others the older ones may be made anew.
            living = [(each, entry) for each, entry in self._objects.items() if entry() is not None]
            self._objects = dict(living[-_OBJECTS_LIMIT // 2 :])
        self._objects[identity] = ref(entered)

    def gradients(self, form: Form, root: Any, error: Any, backend: Any, wanted: Sequence[Any]) -> list[Any]:
        """The gradients of a tree with respect to tensors or nodes, as op-trees, or as the tensor that one is.

        form: of the tree and the error.
        error: what arrives at the tree, an op-tree or tensor; None for ones.
        """
        numbers = form.numbers
        key: Any = (*[numbers.get(id(tensor), -1) for tensor in wanted],)
        if -1 in key:
            form = Form(form)
            for tensor in wanted:
                form.read(tensor)
            key = "read", *form.key
        recipe = self.recipes.get(key)
        if recipe is None:
            recipe = _recipe(form, _derived(form, root, error, backend, wanted))
            keep(self.recipes, key, recipe)
        return recipe.of(form.parts)


def keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Remember something of a form, of which there are few of a kind."""
    if len(known) >= _RECIPES_LIMIT:
        known.clear()
    known[key] = value


FAMILIES: Generations[Family] = Generations("gradients of op-trees", _FORMS_LIMIT)
"""By the form of a tree and its error, and the Context and default dtype of the backend."""


def _derived(form: Form, root: Any, error: Any, backend: Any, wanted: Sequence[Any]) -> list[Any]:
    """The gradients, by the rules of the core."""
    d = Description(backend.context)
    tensors = form.tensors
    known: dict[Any, int] = {}
    shared: dict[Any, Shared] = {}
    for group in groups([tensor.view for tensor in tensors]):
        within = [tensor for tensor in tensors if any(tensor.view is view for view in group)]
        if any(view.window != group[0].window for view in group):
            memory = Shared(d, group)
            for tensor in within:
                shared[tensor] = memory
                known[tensor] = memory.part(memory.value, tensor.view.window)
        else:
            known |= dict.fromkeys(within, d.leaf(group[0]))
    # Random numbers are not drawn: they stand for those of when the gradients are computed.
    lowering = Lowering(d, known, backend.empty(root.shape), draws=False)
    value, arriving = lowering.value(root), None if error is None else lowering.value(error)
    complete = _completed(form.parts, lambda part: d.desc(lowering.value(part)).shape)
    given = {lowering.value(part): complete.get(id(part), part) for part in reversed(form.parts)}
    floats = [each for each in wanted if type(each) is OpTreeNode or is_float(each.dtype)]
    of = [shared[each].value if each in shared else lowering.value(each) for each in floats]
    arrived = dict(zip(of, d.gradients(value, of, arriving), strict=True))
    found = {
        each: shared[each].part(arrived[number], each.view.window) if each in shared else arrived[number]
        for each, number in zip(floats, of, strict=True)
    }
    calls = d.calls(list(found.values()), list(given) + of)
    translation = Translation(given)
    for call in calls.made:
        translation.take(call)
    numbers = dict(zip(found, calls.values, strict=True))
    return [_result(translation, each, numbers.get(each), backend.default_dtype) for each in wanted]


def _completed(parts: Sequence[Any], shape_of: Callable[[Any], tuple[int, ...]]) -> dict[int, Any]:
    """Nodes with all of their shape for those that have some of it from around them, by the identity of these.

    In a gradient others may be around them.
    """
    if all(part.shape is not None and None not in part.shape for part in parts):
        return {}
    found: dict[int, Any] = {}
    stack = list(parts)
    while stack:
        part = stack[-1]
        missing = [each for each in _operands(part) if type(each) is OpTreeNode and id(each) not in found]
        if missing:
            stack += missing
            continue
        stack.pop()
        if type(part) is OpTreeNode:
            about, a, b = part
            right = tuple(found.get(id(each), each) for each in b) if type(b) is tuple else found.get(id(b), b)
            found[id(part)] = OpTreeNode({**about, "shape": shape_of(part)}, found.get(id(a), a), right)
    return found


def _result(translation: Translation, wanted: Any, number: int | None, dtype: np.dtype) -> Any:
    """The gradient with respect to a tensor or node; what nothing flows to gets zeros."""
    tree = 0 if number is None else translation.tree(number)
    if not isinstance(tree, int | float):
        return tree
    return wanted * 0 if tree == 0 else translation.constant(tree, wanted.shape, getattr(wanted, "dtype", dtype))


def _recipe(form: Form, trees: Sequence[Any]) -> Recipe:
    """How to make trees of the parts of a form."""
    known = {id(part): number for number, part in enumerate(form.parts)}
    nodes: list[Any] = []
    numbers: dict[int, Any] = {}
    stack = list(trees)
    while stack:
        part = stack[-1]
        missing = [each for each in _operands(part) if id(each) not in known] if id(part) not in known else []
        if missing:
            stack += missing
            continue
        stack.pop()
        if id(part) not in known:
            assert not isinstance(part, Tensor), "tensors are parts"
            known[id(part)] = -1  # until all are counted
            if type(part) is OpTreeNode:
                nodes.append(part)
            else:
                numbers[id(part)] = part
    for number, each in enumerate((*numbers, *map(id, nodes))):
        known[each] = len(form.parts) + number
    made = []
    for about, a, b in nodes:
        made.append((about, known[id(a)], tuple(known[id(each)] for each in b) if type(b) is tuple else known[id(b)]))
    results = [known[id(tree)] for tree in trees]
    assigned = [_assigned([known[id(each)] for each in tensors_of(tree)], tree) for tree in trees]
    return Recipe(list(numbers.values()), made, results, assigned)


def _assigned(tensors: list[int], tree: Any) -> tuple[Assignments, int, list[int]] | None:
    """How a tree of tensors is assigned."""
    return (Assignments(), tensors[0], tensors) if type(tree) is OpTreeNode and tensors else None


def _operands(part: Any) -> Sequence[Any]:
    """Of a node, those of a call with more than two as well; of anything else none."""
    if type(part) is not OpTreeNode:
        return ()
    return (part[1], *part[2]) if type(part[2]) is tuple else part[1:]
