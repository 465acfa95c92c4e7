"""Running loops and branches: the plans of their bodies, once for each step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.moving import move
from atled.arrays.place import HOST
from atled.errors import RefusedError, four_parts
from atled.graph.compile.bodies import plan_of
from atled.graph.compile.step import Step
from atled.graph.nodes.body import Body
from atled.graph.nodes.body_op import BodyOp
from atled.graph.nodes.loops import LoopOp
from atled.graph.run.device_loops import fits, launch_of_loop
from atled.graph.run.launching import Arrays, Launch
from atled_contexts import Context

Bind = Callable[..., Any]
"""Makes a binding of a plan, cells and results; it is above this module."""


def launch_of_bodies(bound: Arrays, step: Step, bind: Bind) -> Launch:
    """The launch of a loop or a branch."""
    spec = step.node.spec
    assert isinstance(spec, BodyOp)
    if isinstance(spec, LoopOp):
        plan = plan_of(spec.body, step.node.context)
        if fits(spec, plan, bound.plan, step):
            return launch_of_loop(bound, step, plan)
    bodies = [_BodyRun(body, spec.draw_count, step.node.context, bind) for body in spec.bodies]
    inputs = [_HostCopy(bound, number) for number in step.arguments[: step.input_count]]
    outputs = [None if number < 0 else _HostCopy(bound, number) for number in step.arguments[step.input_count :]]

    def launch() -> None:
        floats = [float(bound.floats[number]) for number in step.floats]
        given = [item.fetched() for item in inputs]
        if isinstance(spec, LoopOp):
            results = _run_loop(spec, bodies[0], given, floats)
        else:
            results = bodies[0 if given[0] else 1].run(given[1:], floats)
        for output, values in zip(outputs, results, strict=True):
            if output is not None:
                output.store(values)

    return launch


class _HostCopy:
    """The array of a slot as one in host memory."""

    def __init__(self, bound: Arrays, number: int) -> None:
        slot = bound.plan.slots[number]
        self._desc, self._place, self._array = slot.desc, slot.place, bound.array(number)

    def fetched(self) -> np.ndarray:
        if self._place is HOST:
            return np.asarray(self._array)
        values = np.empty(self._desc.shape, self._desc.dtype)
        move(self._array, self._place, values, HOST, self._desc)
        return values

    def store(self, values: np.ndarray) -> None:
        if self._place is HOST:
            self._array[...] = values
        else:
            move(np.asarray(values, order="C"), HOST, self._array, self._place, self._desc)


class _BodyRun:
    """The plan of a body, with arrays of its own."""

    def __init__(self, body: Body, draws: int, context: Context, bind: Bind) -> None:
        plan = plan_of(body, context)
        self._inputs = [NdArray.from_numpy_array(np.zeros(desc.shape, desc.dtype)) for desc in body.inputs]
        self._results = [NdArray(desc.shape) for desc in body.result_descs]
        self._draws = draws
        self._floats = plan.floats
        cells = [array.cell for array in self._inputs]
        self._binding = bind(plan, cells, [result.cell for result in self._results], [0.0] * len(plan.floats))

    def run(self, given: Sequence[np.ndarray], floats: Sequence[float], same: Collection[int] = ()) -> list[np.ndarray]:
        """The results, in memory that the next run writes; random states, the last of what is given, go on.

        same: numbers of what is given that the run before was given, too: on a device it stays there.
        """
        for number, (array, values) in enumerate(zip(self._inputs, given, strict=True)):
            if number not in same:
                array.data[...] = values
        self._binding.run([floats[value] if kind == "parameter" else value for kind, value, *_ in self._floats])
        first_draw = len(given) - self._draws
        for array, values in zip(self._inputs[first_draw:], given[first_draw:], strict=True):
            values[...] = array.data
        return [result.data for result in self._results]


def _run_loop(spec: LoopOp, body: _BodyRun, given: Sequence[np.ndarray], floats: Sequence[float]) -> list[np.ndarray]:
    """The outputs of a loop; an error sets its random states back."""
    most = _count_of(spec, given)
    given = given[spec.counted :]
    first_constant = spec.sequence_count + spec.state_count
    sequences, constants = given[: spec.sequence_count], given[first_constant:]
    states = [array.copy() for array in given[spec.sequence_count : first_constant]]
    row_descs = spec.body.result_descs[spec.first_row :]
    rows = [np.zeros((spec.length or 0, *desc.shape), desc.dtype) for desc in row_descs]
    draws = given[len(given) - spec.draw_count :]
    before = [draw.copy() for draw in draws]
    steps = 0
    try:
        while steps < most:
            row = most - 1 - steps if spec.backwards else steps
            rows_given = [array[row, ...] for array in sequences]
            same = range(first_constant, len(given) - spec.draw_count) if steps else ()
            results = body.run([*rows_given, *states, *constants], floats, same)
            for made, values in zip(
                (*states, *(array[row, ...] for array in rows)), _without_end(spec, results), strict=True
            ):
                made[...] = values
            steps += 1
            if spec.ended and results[spec.state_count]:
                break
    except BaseException:
        for draw, values in zip(draws, before, strict=True):
            draw[...] = values
        raise
    return [*states, *([np.array(steps)] if spec.ended else []), *rows]


def _count_of(spec: LoopOp, given: Sequence[np.ndarray]) -> int:
    """How many steps a loop has, unless it is ended."""
    if not spec.counted:
        assert spec.length is not None
        return spec.length
    count = int(given[0])
    if count < 0 or (spec.length is not None and count > spec.length):
        rows = "" if spec.length is None else f", at most {spec.length}, as its arrays have rows"
        raise RefusedError(
            four_parts(f"a loop of {count} steps", "there cannot be so many", "", f"give a count of 0 or more{rows}")
        )
    return count


def _without_end(spec: LoopOp, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """New states and rows."""
    return [*results[: spec.state_count], *results[spec.first_row :]]
