"""`nn.grad`: gradients as a graph of their own, which can be computed, trained and differentiated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.calling.auto_mode import get_auto_forward
from atled.errors import four_parts
from atled.graph.from_nodes import FromNodes
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import IRValue
from atled.graph.record.value import Value
from atled.variable import Variable
from atled_contexts import context_in_force

__all__ = ["grad"]

GradOutput = float | np.ndarray | NdArray | Variable | None


def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    grad_outputs: GradOutput | Sequence[GradOutput] = None,
    persistent_outputs: Sequence[bool] = [],  # never changed; a list, as NNabla's signature shows it
    bind_grad_output: bool = False,
) -> list[Variable]:
    """Gradients of outputs with respect to inputs, as Variables: `g_i = sum_j grad_outputs_j d outputs_j / d inputs_i`.

    What computes them is recorded as functions. So `forward()` on a gradient computes the graph and its gradient, a
    loss may be made of gradients and trained by `backward()`, and `grad` of them gives the next derivatives:

        x = nn.Variable.from_numpy_array(np.array([2.0]), need_grad=True)
        (dy,) = nn.grad(x**3, x)
        (ddy,) = nn.grad(dy, x)
        ddy.forward()  # ddy.d is [12.]

    Args:
        outputs: one Variable or several.
        inputs: one Variable or several, leaves or in the midst of the graph, whatever their need_grad. Elsewhere a
            need_grad of False that was set on a Variable stops gradients as it does in backward.
        grad_outputs: the gradient that arrives at each output: a number or array that broadcasts to it, an NdArray,
            whose values at forward count, or a Variable of its shape, through which gradients flow; None: 1. One for
            all outputs or a list of one for each.
        persistent_outputs: per output whether it becomes persistent; none given: all do.
        bind_grad_output: whether the gradients live in the `grad` of the inputs, for a solver to find them there.

    Returns:
        one Variable per input, of its shape; zeros where no gradient reaches it.

    Raises:
        TypeError, ValueError: an argument that is none of the above, an output that is a leaf, lengths that differ.
        RuntimeError: a path leads through an op or input that has no gradient.
    """
    ends, starts = _variables("outputs", outputs), _variables("inputs", inputs)
    flags = list(persistent_outputs) or [True] * len(ends)
    if len(flags) != len(ends):
        raise _error(f"persistent_outputs has {len(flags)} flags for {len(ends)} outputs", "give one flag per output")
    for end in ends:
        if end.value.parent is None:
            raise _error("an output is a leaf: nothing computed it", "give results of functions as outputs")
    seeds = [_seed(end, seed) for end, seed in zip(ends, _per_output(grad_outputs, len(ends)), strict=True)]
    gradients = _record(ends, starts, seeds)
    for end, flag in zip(ends, flags, strict=True):
        end.persistent = flag
    if bind_grad_output:
        for start, gradient in zip(starts, gradients, strict=True):
            start.grad = gradient.data
    return gradients


def _record(ends: Sequence[Variable], starts: Sequence[Variable], seeds: Sequence[Variable]) -> list[Variable]:
    """The gradients, recorded."""
    recorder = FromNodes(context_in_force(), get_auto_forward())
    recorder.follow([end.value for end in ends])
    forward = list(recorder.nodes)
    wanted = [recorder.of(start.value) for start in starts]
    cotangents: dict[IRValue, IRValue] = {}
    for end, seed in zip(ends, seeds, strict=True):
        output, arriving = recorder.of(end.value), recorder.of(seed.value)
        cotangents[output] = cotangents[output] + arriving if output in cotangents else arriving
    blocked = recorder.cut() - set(wanted)
    found = backpropagate(recorder, forward, cotangents, wanted, blocked)
    return [
        Variable.on(recorder.value_of(found[value])) if value in found else _zeros(start)
        for value, start in zip(wanted, starts, strict=True)
    ]


def _zeros(start: Variable) -> Variable:
    return Variable.from_numpy_array(np.zeros(start.shape, np.float32))


def _variables(what: str, given: Any) -> list[Variable]:
    """One Variable or several, as a list."""
    variables = [given] if isinstance(given, Variable) else list(given) if isinstance(given, Sequence) else [given]
    for variable in variables:
        if not isinstance(variable, Variable):
            raise _error(f"{what} holds {type(variable).__name__}", "pass a Variable or a list of Variables", TypeError)
    if not variables:
        raise _error(f"{what} is empty", "pass a Variable or a list of Variables")
    return variables


def _per_output(grad_outputs: Any, count: int) -> list[Any]:
    if not isinstance(grad_outputs, list | tuple):
        return [grad_outputs] * count
    if len(grad_outputs) != count:
        raise _error(f"grad_outputs has {len(grad_outputs)} entries for {count} outputs", "give one for each output")
    return list(grad_outputs)


def _seed(end: Variable, given: Any) -> Variable:
    """The gradient that arrives at an output, as a Variable."""
    if isinstance(given, Variable | NdArray):
        if given.shape != end.shape:
            raise _error(f"a gradient of shape {given.shape} for an output of {end.shape}", "give equal shapes")
        return given if isinstance(given, Variable) else Variable.on(Value(given.shape, None, data=given))
    parent = end.value.parent
    is_double = parent is not None and parent.context.backends[0][1] == "double"
    try:
        dtype = np.float64 if is_double else np.float32
        values = np.broadcast_to(np.asarray(1.0 if given is None else given, dtype), end.shape)
    except (TypeError, ValueError) as error:
        wrong = f"grad_outputs holds {given!r} for an output of shape {end.shape}"
        remedy = "give numbers or arrays that broadcast to the output, NdArrays or Variables"
        raise _error(wrong, remedy, type(error)) from error
    return Variable.from_numpy_array(values)


def _error(wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(four_parts("grad(outputs, inputs)", wrong, "", remedy))


def __dir__() -> list[str]:
    return sorted(__all__)
