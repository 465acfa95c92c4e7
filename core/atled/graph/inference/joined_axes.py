"""Axes that a reshape joined, such as samples and heads, for one behind it that takes them apart again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from atled.graph.inference.recorded import OneCall
from atled.graph.inference.sizes import Shape, attributes_for, unknown
from atled.graph.nodes.ir import IRValue

Part = tuple[int, int]
"""The size of an axis, or of what one was joined from: when it was recorded, and now."""

Parts = Sequence[Part]


class JoinedAxes:
    """Of what the axes of values were joined, while a graph is built for inputs of other shapes.

    An axis of 12 becomes one of 28: of 3 samples with 4 heads each, those of 7 samples. Only that says what
    `F.reshape(a, (3, 4, 5, 16))` is to be now.
    """

    def __init__(self) -> None:
        # By the recorded shape as well: a reshape may now give back the value that it reads.
        self._joined: dict[tuple[IRValue, Shape], Sequence[Parts]] = {}

    def attributes_for(self, call: OneCall, inputs: Sequence[IRValue | None]) -> Mapping[str, Any]:
        """See `sizes.attributes_for`."""
        shapes = [None if value is None else value.shape for value in inputs]
        axes = self._joined_axes_of(call, inputs)
        if axes is None:
            return attributes_for(call, shapes)
        before, recorded = call.shapes[0], call.attributes["shape"]
        shape = _taken_apart(axes, recorded)
        if shape is None:
            raise unknown(
                f"reshape from {before} to {recorded}",
                f"which axes of the result are those that were joined to {shapes[0]} is not known",
            )
        return {**call.spec.for_shapes(call.attributes, shapes), "shape": shape}

    def _joined_axes_of(self, call: OneCall, inputs: Sequence[IRValue | None]) -> Sequence[Parts] | None:
        """Those of what a reshape reads; None where no part of one changed, and for other ops."""
        if call.spec.name != "Reshape" or inputs[0] is None or call.shapes[0] is None:
            return None
        return self._joined.get((inputs[0], call.shapes[0]))

    def note(self, call: OneCall, inputs: Sequence[IRValue | None], outputs: Sequence[IRValue]) -> None:
        """Note of what the axes of a call's outputs are joined.

        inputs: None for one that is absent or depends on parameters alone, whose sizes stay.
        """
        for value, before in zip(outputs, call.output_shapes, strict=False):  # auxiliary ones may be left out
            axes = self._axes_of_output(call, inputs, value, before)
            if axes is not None and any(len(parts) > 1 for parts in axes):
                self._joined[value, before] = axes

    def _axes(self, value: IRValue, before: Shape) -> Sequence[Parts]:
        found = self._joined.get((value, before))
        return found if found is not None else [[part] for part in zip(before, value.shape, strict=True)]

    def _axes_of_output(
        self, call: OneCall, inputs: Sequence[IRValue | None], output: IRValue, before: Shape
    ) -> Sequence[Parts] | None:
        name = call.spec.name
        if name in ("Reshape", "Transpose"):
            x, shape = inputs[0], call.shapes[0]
            if x is None or shape is None or 0 in shape:
                return None
            axes = self._axes(x, shape)
            if name == "Transpose":
                return [axes[axis] for axis in call.attributes["axes"]]
            return _grouped([part for parts in axes for part in parts], list(zip(before, output.shape, strict=True)))
        return self._kept(call, inputs, output, before)

    def _kept(
        self, call: OneCall, inputs: Sequence[IRValue | None], output: IRValue, before: Shape
    ) -> Sequence[Parts] | None:
        """Axes that an op leaves where they are: those of inputs whose sizes were, and are, those of the output."""
        if not self._joined:  # so for most networks, at each of their calls
            return None
        axes: list[Parts] = [[part] for part in zip(before, output.shape, strict=True)]
        # The last two of a product of matrices are not those of one input.
        count = len(axes) - 2 if call.spec.name == "BatchMatmul" else len(axes)
        for axis in range(count):
            known = {
                tuple(found[axis])
                for value, shape in zip(inputs, call.shapes, strict=True)
                if value is not None and shape is not None and len(shape) == len(before)
                if (found := self._joined.get((value, shape))) is not None
                if len(found[axis]) > 1 and (shape[axis], value.shape[axis]) == (before[axis], output.shape[axis])
            }
            if len(known) == 1:
                axes[axis] = list(*known)
        return axes


def _grouped(parts: Parts, sizes: Sequence[Part]) -> Sequence[Parts] | None:
    """The parts of each axis of a reshape's result, of known sizes; None where one would cut a part that changed."""
    waiting = [part for part in parts if part != (1, 1)]
    axes: list[Parts] = []
    for size in sizes:
        taken: list[Part] = []
        while (done := _product(taken)) != size:
            part = _next(waiting, size[0], done[0])
            if part is None:
                return None
            taken.append(part)
        axes.append(_merged(taken))
    return None if waiting else axes


def _taken_apart(axes: Sequence[Parts], shape: Shape) -> Shape | None:
    """What the recorded shape of a reshape's result is now, by what the axes of its input were joined from.

    None where that is not known.
    """
    sizes = [_product(parts) for parts in axes]
    first, last = 0, 0
    while first < min(len(sizes), len(shape)) and sizes[first][0] == shape[first]:
        first += 1
    while last < min(len(sizes), len(shape)) - first and sizes[-1 - last][0] == shape[-1 - last]:
        last += 1
    between = shape[first : len(shape) - last]
    waiting = [part for parts in axes[first : len(axes) - last] for part in parts if part != (1, 1)]
    # What was of size 1 may be in any axis of 1, alone or not.
    if any(part[0] == 1 != part[1] for parts in axes for part in parts) and (waiting or 1 in between):
        return None
    result = []
    for size in between:
        taken: list[Part] = []
        while (done := _product(taken)[0]) != size:
            part = _next(waiting, size, done)
            if part is None:
                return None
            taken.append(part)
        if sum(part[0] != part[1] for part in taken) > 1 and taken[0] is not axes[0][0]:
            return None  # see _reshaped in sizes
        result.append(_product(taken)[1])
    if waiting:
        return None
    now = [size[1] for size in sizes]
    return (*now[:first], *result, *now[len(now) - last :])


def _next(waiting: list[Part], size: int, done: int) -> Part | None:
    """The next part of an axis of which `done` is there; of one that did not change, as much as fits."""
    if not waiting or size % done:
        return None
    part, rest = waiting[0], size // done
    if rest % part[0] == 0:
        return waiting.pop(0)
    if rest == 1 or part[0] != part[1] or part[0] % rest:
        return None
    waiting[0] = (part[0] // rest, part[0] // rest)
    return rest, rest


def _merged(parts: Parts) -> Parts:
    """The parts of an axis, with those in one that are beside each other and did not change."""
    merged: list[Part] = []
    for old, new in parts:
        if old == new and merged and merged[-1][0] == merged[-1][1]:
            merged[-1] = (merged[-1][0] * old, merged[-1][1] * new)
        else:
            merged.append((old, new))
    return merged or [(1, 1)]


def _product(parts: Parts) -> Part:
    return math.prod(part[0] for part in parts), math.prod(part[1] for part in parts)
