"""One function, forward or with backward, recorded once and computed again and again."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench_rows.recorded import recorded
from function_rows.calls import CALLS, FunctionCall
from harness.case import Case

_BACKENDS = {"atled": "cpu", "reference": "reference"}

_NAMED_OPS = 3


def function_case(library: str, name: str, backward: bool) -> Case:
    """`name` on the inputs of its call; the gradients start from 0 each time, as in training."""
    call = CALLS.get(name) or _own_call(name)
    api = recorded("atled" if library in _BACKENDS else library)
    if library in _BACKENDS:
        # No fallback: the row would tell of another backend than it says.
        api.nn.set_default_context(api.nn.Context([f"{_BACKENDS[library]}:float"], fallback="raise"))
    rng = np.random.default_rng(4)
    inputs: list[Any] = []
    for item in call.inputs:
        array = None if item is None else item.make(rng)
        inputs.append(None if array is None else api.nn.Variable(array.shape, need_grad=backward and item.grad))
        if array is not None:
            inputs[-1].d = array
    made = getattr(api.F, name)(*inputs, **call.arguments)
    outputs = made if isinstance(made, (tuple, list)) else (made,)
    for output in outputs:
        output.persistent = True
    y = outputs[0] if len(outputs) == 1 else api.F.sink(*outputs)
    # Not all ones: gradients of normalized values would be rounding alone.
    cotangent = rng.standard_normal(y.shape).astype(np.float32)
    leaves = [variable for variable in inputs if variable is not None and variable.need_grad]

    def run() -> None:
        y.forward()
        if backward:
            for leaf in leaves:
                leaf.grad.zero()
            y.backward(cotangent)

    run()
    found = [np.array(output.d) for output in outputs] + [np.array(leaf.g) for leaf in leaves]
    note = _implementations(api.nn, run) if library == "atled" else ""
    return Case(run, (lambda: found) if call.comparable else None, note)


def _own_call(name: str) -> FunctionCall:
    from function_rows.own_calls import call_of  # needs atled, which only some of the libraries' environments have

    call = call_of(name)
    assert call is not None, name
    return call


def _implementations(nn: Any, run: Any) -> str:
    """Who computes it: the ops that take most of the time, each with the implementation that ran."""
    with nn.trace() as trace:
        run()
    rows = sorted(trace.rows(), key=lambda row: row.seconds, reverse=True)
    return ", ".join(f"{row.op}: {row.note}" for row in rows[:_NAMED_OPS])
