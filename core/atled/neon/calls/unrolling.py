"""Steps of a recurrence in one program: a loop of the core where they are regular, else described one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.array_desc import ArrayDesc
from atled.keyed import Description, View
from atled.named_tuple import NamedTuple
from atled.strides import is_injective, overlap


class ForwardStep(NamedTuple):
    """`h = activation(W before + fed)`.

    before: (H, B); the state before it.  fed: (H, B); what is added.  h: (H, B); the target.
    """

    before: View
    fed: View
    h: View


class BackwardStep(NamedTuple):
    """`delta = activation'(h) * delta; before = before + W delta`.

    h: (H, B); the state that the step gave.  delta: (H, B); its error, then that before the activation.
    before: (H, B); the error of the state before it.
    """

    h: View
    delta: View
    before: View


class OverlapError(Exception):
    """Steps that read or write parts of what others write: they are not one program."""


class _Memory:
    """What the arrays of a description hold in the course of its steps."""

    def __init__(self, d: Description) -> None:
        self._d = d
        self._written: dict[tuple[object, ...], tuple[View, int]] = {}

    def read(self, view: View) -> int:
        """The value that a view has by now."""
        found = self._written.get(_key(view))
        if found is not None:
            return found[1]
        self._check(view)
        return self._d.leaf(view)

    def write(self, view: View, value: int) -> None:
        """Have a view hold a value from now on."""
        key = _key(view)
        if key not in self._written:
            self._check(view)
        self._written[key] = view, value

    def assign(self) -> None:
        """Have the arrays hold behind the run what they hold by now."""
        for view, value in self._written.values():
            self._d.assign(view, value)

    def _check(self, view: View) -> None:
        if not are_apart(view, [written for written, _ in self._written.values()]):
            raise OverlapError


def describe_forward(
    d: Description,
    w: View,
    bias: View | None,
    steps: Sequence[ForwardStep],
    activation: Callable[[int], int],
) -> None:
    """Describe the steps, in their order.  OverlapError: they are not one program.

    bias: added in each, (H, 1).  activation: gives, for a value, that of the activation.
    """
    if _forward_loop(d, w, bias, steps, activation):
        return
    memory = _Memory(d)
    for step in steps:
        total = d.call("Add2", d.call("BatchMatmul", memory.read(w), memory.read(step.before)), memory.read(step.fed))
        if bias is not None:
            total = d.call("Add2", total, memory.read(bias))
        memory.write(step.h, activation(total))
    memory.assign()


def describe_backward(
    d: Description, w: View, steps: Sequence[BackwardStep], times_derivative: Callable[[int, int], int]
) -> None:
    """Describe the steps, in their order.  OverlapError: they are not one program.

    times_derivative: gives, for a state and its error, the error before the activation.
    """
    if _backward_loop(d, w, steps, times_derivative):
        return
    memory = _Memory(d)
    for step in steps:
        delta = times_derivative(memory.read(step.h), memory.read(step.delta))
        memory.write(step.delta, delta)
        before = memory.read(step.before)
        memory.write(step.before, d.call("Add2", before, d.call("BatchMatmul", memory.read(w), delta)))
    memory.assign()


def _forward_loop(
    d: Description,
    w: View,
    bias: View | None,
    steps: Sequence[ForwardStep],
    activation: Callable[[int], int],
) -> bool:
    """Describe the steps as a loop; False, with nothing described, where they are none.

    They are where each begins with the state of the last one, and their views lie at equal distances; those that are
    written have no element in common.
    """
    states, fed = stacked([step.h for step in steps]), stacked([step.fed for step in steps])
    if states is None or fed is None or not is_injective(states.window):
        return False
    if not _are_chained([step.h for step in steps], [step.before for step in steps]):
        return False
    others = [w, steps[0].before, *([] if bias is None else [bias])]
    if _key(fed) != _key(states):
        others.append(fed)
    if not all(are_apart(other, [states]) for other in others):
        return False
    weight, added = d.leaf(w), None if bias is None else d.leaf(bias)

    def step(row: int, h: int) -> tuple[list[int], list[int]]:
        total = d.call("Add2", d.call("BatchMatmul", weight, h), row)
        h = activation(total if added is None else d.call("Add2", total, added))
        return [h], [h]

    loop = d.loop(step, [d.leaf(fed)], [d.leaf(steps[0].before)])
    d.assign(states, loop.rows[0])
    return True


def _backward_loop(
    d: Description, w: View, steps: Sequence[BackwardStep], times_derivative: Callable[[int, int], int]
) -> bool:
    """Describe the steps as a loop; False, with nothing described, where they are none.

    They are where each gives its error to the next one, and their views lie at equal distances; those that are written
    have no element in common.
    """
    states, deltas = stacked([step.h for step in steps]), stacked([step.delta for step in steps])
    before = stacked([step.before for step in steps])
    if states is None or deltas is None or before is None or not is_injective(deltas.window):
        return False
    if not _are_chained([step.before for step in steps], [step.delta for step in steps]):
        return False
    last = steps[-1].before
    if not all(are_apart(other, [deltas, last]) for other in (w, states)) or not are_apart(last, [deltas]):
        return False
    weight = d.leaf(w)

    def step(h: int, before: int, error: int) -> tuple[list[int], list[int]]:
        delta = times_derivative(h, error)
        return [d.call("Add2", before, d.call("BatchMatmul", weight, delta))], [delta]

    loop = d.loop(step, [d.leaf(states), d.leaf(before)], [d.leaf(steps[0].delta)])
    d.assign(deltas, loop.rows[0])
    d.assign(last, loop.states[0])
    return True


def stacked(views: Sequence[View]) -> View | None:
    """The views as rows of one; None where their shapes differ, or their distances in the array."""
    first = views[0]
    distance = views[1].offset - first.offset if len(views) > 1 else 0
    for number, view in enumerate(views):
        if view.cell is not first.cell or view.desc != first.desc or view.offset != first.offset + number * distance:
            return None
    desc = ArrayDesc((len(views), *first.shape), first.dtype, (distance, *first.strides))
    return first.as_strided(desc, first.offset)


def are_apart(view: View, others: Sequence[View]) -> bool:
    """Whether a view has no element of the others."""
    return not any(view.cell is other.cell and overlap(view.window, other.window) for other in others)


def _are_chained(given: Sequence[View], taken: Sequence[View]) -> bool:
    """Whether there are several steps, and each from the second one on takes what the one before gives."""
    return len(given) > 1 and all(_key(one) == _key(other) for one, other in zip(given[:-1], taken[1:], strict=True))


def _key(view: View) -> tuple[object, ...]:
    """Equal for views that are the same elements."""
    return id(view.cell), view.desc, view.offset
