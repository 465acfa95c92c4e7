"""Programs of optimizers: all parameters and states of a step are assigned at once, by a program that is kept."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from atled.keyed import Description
from atled.named_tuple import NamedTuple
from atled.neon.trees.assignment import assign_all
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.tensor import Tensor

_KEPT_COUNT = 8
"""Lists of layers for which there is a program: a pair of networks that are trained in turns has two."""

Parameter = Any
"""((parameter, gradient), states): two tensors and the list of those that an optimizer needs beside them."""


class Rule(Protocol):
    """How an optimizer computes new parameters and states from those before.

    state_count: how many states each parameter has.
    """

    state_count: int

    def numbers(self, epoch: int) -> Mapping[str, float]:
        """What may be another number in each step; which names there are says what is computed."""

    def gradients(self, gradients: Sequence[Tensor], n: Mapping[str, Any]) -> list[Any]:
        """Op-trees of what the updates are made of; n: nodes that stand for the numbers."""

    def updated(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """Op-trees of the new parameter, and of its new states."""

    def refused(self, layers: Sequence[Any], parameter: Any, wrong: str, remedy: str) -> ValueError:
        """The error of a parameter; it names its layer."""


class Group(NamedTuple):
    """Parameters that one rule updates, and the layers that have them, which errors name."""

    rule: Rule
    parameters: Sequence[Parameter]
    layers: Sequence[Any]


class _Program(NamedTuple):
    """A step that was described.

    backend: of its tensors.  numbers: those that it has now.  watched: its tensors, with the first of which it goes.
    """

    description: Description
    backend: Any
    numbers: list[float]
    watched: list[weakref.ref[Tensor]]


class Programs(dict[tuple[Any, ...], _Program]):
    """The programs of an optimizer, by the identity of tensors, as long as these live."""

    def step(self, backend: Any, groups: Sequence[Group], epoch: int) -> None:
        """Update all parameters of groups. Where that fails, parameters and states are as they were.

        ValueError: a parameter without memory, of a backend that was cleaned up, or with states of another optimizer.
        """
        key: list[Any] = []
        values: list[float] = []
        for rule, parameters, _ in groups:
            numbers = rule.numbers(epoch)
            key += id(rule), len(parameters), *numbers
            values += numbers.values()
            for (p, g), states in parameters:
                key += id(p), id(g), *map(id, states)
        known = self.get((*key,))
        if known is None or known.backend is not backend or backend.closed:
            self._first(backend, groups, epoch)
            return
        if values != known.numbers:
            for n, (value, before) in enumerate(zip(values, known.numbers, strict=True)):
                if value != before:
                    known.description.set_number(n, value)
                    known.numbers[n] = value
        known.description.run()

    def _first(self, backend: Any, groups: Sequence[Group], epoch: int) -> None:
        """A step that is not known yet."""
        step = _Step(backend)
        for group in groups:
            step.take(group, group.rule.numbers(epoch))
        if not step.trees:
            return
        d = assign_all(list(step.trees.values()), step.numbers)
        # Only now: a step that fails leaves no states behind.
        for states, made in step.made.values():
            states += made
        self._keep(groups, _Program(d, backend, [value for _, value in step.numbers], []), epoch)

    def _keep(self, groups: Sequence[Group], program: _Program, epoch: int) -> None:
        if len(self) >= _KEPT_COUNT:
            self.clear()
        tensors = [each for group in groups for (p, g), states in group.parameters for each in (p, g, *states)]
        parts = (
            (id(rule), len(parameters), *rule.numbers(epoch), *_identities(parameters))
            for rule, parameters, _ in groups
        )
        key = tuple(each for part in parts for each in part)
        itself = weakref.ref(self)

        def forget(_: object) -> None:
            kept = itself()
            if kept is not None:
                kept.pop(key, None)

        program.watched.extend(weakref.ref(each, forget) for each in tensors)
        self[key] = program


def _identities(parameters: Sequence[Parameter]) -> list[int]:
    return [id(each) for (p, g), states in parameters for each in (p, g, *states)]


class _Step:
    """What a step assigns.

    trees: by the identity of tensors, these and their new values.  numbers: nodes, and the numbers they stand for.
    made: by the identity of lists of states, these and the states to append.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.trees: dict[int, tuple[Tensor, Any]] = {}
        self.numbers: list[tuple[OpTreeNode, float]] = []
        self.made: dict[int, tuple[list[Tensor], list[Tensor]]] = {}

    def take(self, group: Group, numbers: Mapping[str, float]) -> None:
        """Describe the updates of a group."""
        rule, parameters, _ = group
        for (p, g), states in parameters:
            self._check(group, p, g, states)
        n = {name: OpTreeNode({"op": "number", "shape": (1, 1)}, None, None) for name in numbers}
        self.numbers += zip(n.values(), numbers.values(), strict=True)
        gradients = rule.gradients([g for (_, g), _ in parameters], n)
        for ((p, g), states), gradient in zip(parameters, gradients, strict=True):
            held = self._states(rule, g, states)
            tree, new_states = rule.updated(self._now(p), gradient, [self._now(each) for each in held], n)
            self.trees[id(p)] = p, tree
            self.trees |= {id(each): (each, new) for each, new in zip(held, new_states, strict=True)}

    def _now(self, tensor: Tensor) -> Any:
        """A tensor, or the tree of its new value where the step updates it twice: layers may share weights."""
        found = self.trees.get(id(tensor))
        return tensor if found is None else found[1]

    def _states(self, rule: Rule, g: Tensor, states: list[Tensor]) -> list[Tensor]:
        """The states of a parameter; zeros where it has none yet."""
        if states or not rule.state_count:
            return states[: rule.state_count]
        if id(states) not in self.made:
            made = [self._backend.zeros(g.shape, dtype=g.dtype) for _ in range(rule.state_count)]
            self.made[id(states)] = states, made
        return self.made[id(states)][1]

    def _check(self, group: Group, p: Any, g: Any, states: Any) -> None:
        count = group.rule.state_count
        wrong, remedy = "", "make the layers anew with the present backend"
        if not isinstance(p, Tensor) or not isinstance(g, Tensor):
            wrong = "it has no memory yet"
            remedy = "configure and allocate the layer first, or put it into a Model, which does"
        elif p.backend.closed:
            wrong = "its backend was cleaned up, and the parameter is gone with it"
        elif any(each.backend is not self._backend for each in (p, g, *states)):
            wrong = "the parameter, its gradient or a state is of another backend than the present one"
        elif p.shape != g.shape:
            wrong, remedy = f"its gradient has shape {list(g.shape)}", f"make that of shape {list(p.shape)}"
        elif count and states and [each.shape for each in states] != [p.shape] * count:
            wrong = f"it has {len(states)} states, of shapes {', '.join(str(list(each.shape)) for each in states)}"
            remedy = f"empty the list of its states: this optimizer needs {count} of shape {list(p.shape)}"
        if wrong:
            raise group.rule.refused(group.layers, p, wrong, remedy)
