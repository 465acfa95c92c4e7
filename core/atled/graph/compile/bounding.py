"""Bounds: steps behind a kernel that only keep its results between two numbers, which it does as it writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from atled.dtypes import is_float
from atled.graph.compile.step import Carried, Slot, Step
from atled.ops.formula import Apply, Name, Number, Program

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def bounds_behind(carrier: Step, carried: Carried, slots: Sequence[Slot]) -> tuple[int, list[int]] | None:
    """The first of two words of a carrier's block that say what a step does, and what they hold then.

    None where the carrier has no such words, where the step does more, or where it leaves the carrier's result for
    others to read.
    """
    native, step = carrier.native, carried.step
    assert native is not None
    output = next((output for output, word in native.after.items() if word == carried.word), -1)
    if output not in native.bounds or step.node.spec is None or step.node.spec.program is None:
        return None
    interval = interval_of(step.node.spec.program)
    if interval is None:
        return None
    result, made = slots[carrier.arguments[carrier.input_count + output]], slots[step.arguments[-1]]
    dtype = result.desc.dtype
    if made.memory != result.memory or made.desc.dtype != dtype or not is_float(dtype):
        return None
    return native.bounds[output], _as_words(interval, dtype)


def interval_of(program: Program) -> tuple[float, float] | None:
    """The two numbers between which a program keeps its one input; None if it computes something else.

    >>> interval_of(Program(("x",), (), (("y", "minimum(maximum(x, 0), 6)"),)))
    (0.0, 6.0)
    """
    if len(program.inputs) != 1 or len(program.output_names) != 1:
        return None
    rules: list[tuple[str, float]] = []  # the last one first
    expression = program.expressions[0]
    while isinstance(expression, Apply) and expression.op in ("minimum", "maximum"):
        inner, bound = expression.args
        if not isinstance(bound, Number):  # in front it would win over a zero of another sign
            return None
        if math.isnan(bound.value):  # it makes everything NaN, where a comparison with it would do nothing
            return None
        rules.append((expression.op, bound.value))
        expression = inner
    if not rules or not isinstance(expression, Name) or expression.id not in program.inputs:
        return None
    low, high = -math.inf, math.inf
    for op, value in reversed(rules):
        if op == "minimum":
            low, high = min(low, value), min(high, value)
        else:
            low, high = max(low, value), max(high, value)
    return low, high


def _as_words(interval: tuple[float, float], dtype: np.dtype) -> list[int]:
    """The two numbers, each a float in the first bytes of a word."""
    made = np.zeros(2, np.int64)
    floats = made.view(_DOUBLE if dtype == _DOUBLE else _SINGLE)
    with np.errstate(over="ignore"):  # as where a formula is compiled, what is too large is infinite
        floats[:: len(floats) // 2] = interval
    found: list[int] = made.tolist()
    return found
