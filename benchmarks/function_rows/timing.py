"""One function, forward or with backward: recorded once and computed again and again, or called anew each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench_rows.recorded import recorded
from bench_rows.torch_variant import TorchVariant
from function_rows.calls import CALLS, SMALL_CALLS
from function_rows.inputs import FunctionCall
from function_rows.layouts import LAYOUTS
from function_rows.torch_calls import TORCH_CALLS
from harness.case import Case

_BACKENDS = {"atled": "cpu", "reference": "reference"}

_NAMED_OPS = 3

SMALL = "small"
"""The layout of some thousand elements, of which the calls are timed, too."""


def function_case(library: str, name: str, backward: bool, layout: str = "") -> Case:
    """`name` on the inputs of its call; the gradients start from 0 each time, as in training.

    layout: SMALL or one of `LAYOUTS`; the usual call by default.
    """
    call = _call_of(name, layout)
    rng = np.random.default_rng(4)
    arrays = [None if item is None else item.make(rng) for item in call.inputs]
    wanted = [backward and item is not None and item.grad for item in call.inputs]
    # Not all ones: gradients of normalized values would be rounding alone.
    if library == "torch":
        run, found = _torch(name, call, arrays, wanted, rng)
        note = ""
    else:
        run, found, api = _recorded(library, name, call, arrays, wanted, rng, anew=layout == SMALL)
        note = _implementations(api.nn, run) if library == "atled" else ""
    run()
    results = found()
    return Case(run, (lambda: results) if call.comparable else None, note)


def _call_of(name: str, layout: str) -> FunctionCall:
    if layout not in ("", SMALL):
        return LAYOUTS[name][layout]
    return (SMALL_CALLS if layout else CALLS).get(name) or _own_call(name)


def _recorded(
    library: str,
    name: str,
    call: FunctionCall,
    arrays: Sequence[np.ndarray | None],
    wanted: Sequence[bool],
    rng: np.random.Generator,
    anew: bool,
) -> tuple[Callable[[], Any], Callable[[], list[np.ndarray]], Any]:
    api = recorded("atled" if library in _BACKENDS else library)
    if library in _BACKENDS:
        # No fallback: the row would tell of another backend than it says.
        api.nn.set_default_context(api.nn.Context([f"{_BACKENDS[library]}:float"], fallback="raise"))
    inputs: list[Any] = []
    for array, need_grad in zip(arrays, wanted):  # noqa: B905  Python 3.10 may run it
        inputs.append(None if array is None else api.nn.Variable(array.shape, need_grad=need_grad))
        if array is not None:
            inputs[-1].d = array
    leaves = [variable for variable in inputs if variable is not None and variable.need_grad]
    api.nn.set_auto_forward(anew)  # not by a scope at each call, which takes longer than many a small one

    def made() -> Any:
        return getattr(api.F, name)(*inputs, **call.arguments)

    outputs, y = _ended(api, made())
    for output in outputs:
        output.persistent = True
    # An array of the library's own, as torch gets: NumPy's would be copied in each time.
    cotangent = api.nn.NdArray.from_numpy_array(rng.standard_normal(y.shape).astype(np.float32))

    def run() -> None:
        nonlocal outputs, y
        if anew:
            result = made()
            if not leaves:
                outputs = result if isinstance(result, (tuple, list)) else (result,)
                return
            outputs, y = _ended(api, result)
        else:
            y.forward()
        if leaves:
            for leaf in leaves:
                leaf.grad.zero()
            y.backward(cotangent)

    return run, lambda: [np.array(output.d) for output in outputs] + [np.array(leaf.g) for leaf in leaves], api


def _ended(api: Any, made: Any) -> tuple[Sequence[Any], Any]:
    """The outputs, and the one from which backward starts."""
    outputs = made if isinstance(made, (tuple, list)) else (made,)
    return outputs, outputs[0] if len(outputs) == 1 else api.F.sink(*outputs)


def _torch(
    name: str,
    call: FunctionCall,
    arrays: Sequence[np.ndarray | None],
    wanted: Sequence[bool],
    rng: np.random.Generator,
) -> tuple[Callable[[], Any], Callable[[], list[np.ndarray]]]:
    variant = TorchVariant("torch")
    torch, function = variant.torch, TORCH_CALLS[name]
    tensors = [None if array is None else variant.tensor(array) for array in arrays]
    for tensor, need_grad in zip(tensors, wanted):  # noqa: B905
        if need_grad:
            tensor.requires_grad_(True)
    leaves = [tensor for tensor, need_grad in zip(tensors, wanted) if need_grad]  # noqa: B905
    outputs: Sequence[Any] = ()
    cotangents: list[Any] = []

    def run() -> None:
        nonlocal outputs
        with torch.set_grad_enabled(bool(leaves)):
            made = function(torch, *tensors, **call.arguments)
        outputs = made if isinstance(made, (tuple, list)) else (made,)
        if not leaves:
            return
        if not cotangents:
            cotangents.extend(_cotangents(variant, outputs, rng))
        for leaf in leaves:
            leaf.grad = None
        torch.autograd.backward(outputs, cotangents)

    return run, lambda: [y.detach().numpy() for y in outputs] + [leaf.grad.numpy() for leaf in leaves]


def _cotangents(variant: TorchVariant, outputs: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """As those of ours: where there are several outputs, a sink gives each of them ones."""
    if len(outputs) == 1:
        return [variant.tensor(rng.standard_normal(tuple(outputs[0].shape)).astype(np.float32))]
    return [variant.torch.ones_like(output) for output in outputs]


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
