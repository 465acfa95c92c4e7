"""What the ops that go through a sequence step by step share: shapes, checks, and the gradients outside the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.spec import Attribute, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class SequenceOp(OpSpec, abstract=True):
    """A recurrent layer in one direction over T steps, or its gradient; see `LSTMSequence`.

    gate_count: G, the affine maps of x and h in one step.  bias_count: rows of the bias.
    """

    category = "layer"
    products = True
    attributes = (Attribute("reverse", "bool", False),)

    gate_count: int
    bias_count: int

    def check_shapes(self, inputs: Sequence[ArrayDesc | None], wanted: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse inputs that have another shape than wanted; absent ones pass."""
        for name, shape in wanted.items():
            desc = inputs[self.input_names.index(name)]
            if desc is not None and desc.shape != shape:
                raise self.error(inputs, f"{name} has shape {list(desc.shape)}", f"use {list(shape)}")

    def check_sequence(
        self, inputs: Sequence[ArrayDesc | None], states: Sequence[str]
    ) -> tuple[int, int, int, np.dtype]:
        """T, B, H and the dtype of a forward call with inputs x, h, ..., weight, bias; ValueError if they do not fit.

        states: the names of the inputs that are (B, H).
        """
        x, h = inputs[:2]
        assert x is not None
        assert h is not None
        if x.ndim != 3 or h.ndim != 2:
            raise self.error(inputs, f"x has {x.ndim} axes and h {h.ndim}", "use x (T, B, I) and h (B, H)")
        (steps, batch, depth), size = x.shape, h.shape[1]
        if not steps:
            raise self.error(inputs, "x has no steps", "use sequences of one step or more")
        wanted = dict.fromkeys(states, (batch, size))
        wanted["weight"] = (self.gate_count, size, depth + size)
        wanted["bias"] = (self.bias_count, size)
        self.check_shapes(inputs, wanted)
        return steps, batch, size, x.dtype

    def check_gates(
        self, inputs: Sequence[ArrayDesc | None], saved: int, sequences: Sequence[str], states: Sequence[str]
    ) -> tuple[int, int, int, np.dtype]:
        """T, B, H and the dtype of a gradient's call, whose first input is gates; ValueError if inputs do not fit.

        saved: numbers that gates has per unit.  sequences, states: names of the inputs that are (T, B, H) and (B, H).
        """
        gates = inputs[0]
        assert gates is not None
        if gates.ndim != 4 or gates.shape[2] != saved or not gates.shape[0]:
            remedy = f"use (T, B, {saved}, H) with T of 1 or more"
            raise self.error(inputs, f"gates has shape {list(gates.shape)}", remedy)
        steps, batch, _, size = gates.shape
        wanted = dict.fromkeys(states, (batch, size)) | dict.fromkeys(sequences, (steps, batch, size))
        self.check_shapes(inputs, wanted)
        self.check_weight(inputs, size)
        return steps, batch, size, gates.dtype

    def check_weight(self, inputs: Sequence[ArrayDesc | None], size: int) -> None:
        """Refuse a weight that is not (G, H, I + H) for any I."""
        weight = inputs[self.input_names.index("weight")]
        assert weight is not None
        if weight.ndim != 3 or weight.shape[:2] != (self.gate_count, size) or weight.shape[2] < size:
            remedy = f"use ({self.gate_count}, {size}, I + {size})"
            raise self.error(inputs, f"weight has shape {list(weight.shape)}", remedy)

    def parameter_gradients(
        self, g: GradientCall, y: IRValue, reverse: bool, of_x: IRValue, of_h: IRValue
    ) -> tuple[IRValue | None, IRValue | None]:
        """The gradients of x and of the weight, each one or two products over all steps.

        of_x, of_h: (T, B, G, H), the gradient of each gate's affine map of x, and of h.
        """
        x, h = g.inputs[:2]
        weight = g.inputs[self.input_names.index("weight")]
        assert x is not None
        assert h is not None
        assert weight is not None
        (steps, batch, depth), size = x.shape, h.shape[1]
        rows, width = steps * batch, self.gate_count * size
        gx = gw = None
        if g.needs[0]:
            w_x = columns(g, g.reshape(weight, (width, depth + size)), 0, depth)
            gx = g.reshape(g.op("BatchMatmul", g.reshape(of_x, (rows, width)), w_x), x.shape)
        if g.needs[self.input_names.index("weight")]:
            before = g.reshape(shifted(g, h, y, reverse), (rows, size))
            x = g.reshape(x, (rows, depth))
            if of_x is of_h:
                inputs = g.op("Concatenate", x, before, axis=1)
                gw = g.op("BatchMatmul", g.reshape(of_x, (rows, width)), inputs, transpose_a=True)
            else:
                parts = [
                    g.op("BatchMatmul", g.reshape(gradient, (rows, width)), values, transpose_a=True)
                    for gradient, values in ((of_x, x), (of_h, before))
                ]
                gw = g.op("Concatenate", *parts, axis=1)
            gw = g.reshape(gw, weight.shape)
        return gx, gw


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow."""
    return (1 + np.tanh(x / 2)) / 2


def in_order(steps: int, reverse: bool) -> range:
    """The steps in the order in which the forward goes through them."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


def backwards(steps: int, reverse: bool) -> Iterator[tuple[int, int | None]]:
    """The steps from the last one gone through to the first, each with the one before it, None at the first."""
    order = list(in_order(steps, reverse))
    return zip(reversed(order), [*reversed(order[:-1]), None], strict=True)


def shifted(g: GradientCall, first: IRValue, sequence: IRValue, reverse: bool) -> IRValue:
    """(T, B, H): the state before each step, for the one (B, H) before all and those (T, B, H) after each step."""
    steps = sequence.shape[0]
    first = g.reshape(first, (1, *first.shape))
    if steps == 1:
        return first
    kept = (1, steps) if reverse else (0, steps - 1)
    rest = g.op("Slice", sequence, start=(kept[0], 0, 0), stop=(kept[1], *sequence.shape[1:]), step=(1, 1, 1))
    return g.op("Concatenate", rest, first, axis=0) if reverse else g.op("Concatenate", first, rest, axis=0)


def columns(g: GradientCall, matrix: IRValue, first: int, after: int) -> IRValue:
    """Some columns of a matrix, as a copy."""
    return g.op("Slice", matrix, start=(0, first), stop=(matrix.shape[0], after), step=(1, 1))


def split(g: GradientCall, value: IRValue | None, axis: int, count: int) -> list[Any]:
    """The parts of a value along an axis, which they do not have; `count` times None for an absent value."""
    if value is None:
        return [None] * count
    parts = g.op("Split", value, axis=axis)
    return [parts] if count == 1 else list(parts)


def added(*values: Any) -> Any:
    """The sum of the values that are not None; None if all are."""
    there = [value for value in values if value is not None]
    total = there[0] if there else None
    for value in there[1:]:
        total = total + value
    return total
