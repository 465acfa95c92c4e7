"""A function of some arrays, forward or with the gradients of its float inputs, as each library computes it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench_rows.recorded import recorded
from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case


@dataclass(frozen=True)
class Expression:
    """What is computed.

    inputs: rng -> arrays; those of float32 get a gradient.
    recorded: (modules, *variables) -> result, in NNabla's API.  torch: (torch, *tensors) -> result.
    jax: (jax, *arrays) -> result.  numpy: (*arrays) -> result.
    numpy_gradient: (gy, *arrays) -> (result, *gradients).  None: that library has no such row.
    """

    inputs: Callable[[np.random.Generator], Sequence[np.ndarray]]
    recorded: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    numpy_gradient: Callable[..., Any] | None = None


def expression_case(
    expression: Expression, library: str, backward: bool, dynamic: bool = False, is_anew: bool = False
) -> Case:
    """The expression on its inputs; with `backward` also the gradients, from a given one of the result.

    dynamic: NNabla and atled make the graph anew each time, and compute while they make it.
    is_anew: they make it anew each time, and compute when it is there.
    """
    rng = np.random.default_rng(4)
    arrays = [np.ascontiguousarray(array) for array in expression.inputs(rng)]
    if library in TORCH:
        run, found = _torch(expression, TorchVariant(library), arrays, backward)
    elif library == "jax":
        run, found = _jax(expression, arrays, backward)
    elif library == "numpy":
        run, found = _numpy(expression, arrays, backward)
    else:
        run, found = _recorded(expression, library, arrays, backward, dynamic, is_anew)
    return Case(run, lambda: found(run()))


def _cotangent(shape: Sequence[int]) -> np.ndarray:
    """Not all ones: gradients of normalized values would be rounding alone."""
    return np.random.default_rng(5).standard_normal(tuple(shape)).astype(np.float32)


def _recorded(
    expression: Expression, library: str, arrays: Sequence[np.ndarray], backward: bool, dynamic: bool, is_anew: bool
) -> tuple[Callable[[], Any], Callable[[Any], list[np.ndarray]]]:
    api = recorded(library)
    variables = []
    for array in arrays:
        variables.append(api.nn.Variable(array.shape, need_grad=backward and array.dtype == np.float32))
        variables[-1].d = array
    leaves = [variable for variable in variables if variable.need_grad]

    def made() -> Any:
        return expression.recorded(api, *variables)

    fixed = made()
    cotangent = api.nn.NdArray.from_numpy_array(_cotangent(fixed.shape))

    def run() -> Any:
        if dynamic:
            with api.nn.auto_forward():
                y = made()
        else:
            y = made() if is_anew else fixed
            y.forward()
        if backward:
            for leaf in leaves:
                leaf.grad.zero()
            y.backward(cotangent)
        return y

    return run, lambda y: [np.array(y.d), *(np.array(leaf.g) for leaf in leaves)]


def _torch(
    expression: Expression, variant: TorchVariant, arrays: Sequence[np.ndarray], backward: bool
) -> tuple[Callable[[], Any], Callable[[Any], list[np.ndarray]]]:
    torch = variant.torch
    tensors = [variant.tensor(array) for array in arrays]
    leaves = [tensor for tensor in tensors if backward and tensor.dtype == torch.float32]
    for leaf in leaves:
        leaf.requires_grad_(True)
    function = variant.built(lambda *inputs: expression.torch(torch, *inputs))
    cotangent = None

    def run() -> Any:
        nonlocal cotangent
        if not backward:
            with torch.no_grad():
                return function(*tensors)
        y = function(*tensors)
        if cotangent is None:
            cotangent = variant.tensor(_cotangent(y.shape))
        for leaf in leaves:
            leaf.grad = None
        y.backward(cotangent)
        return y

    return run, lambda y: [y.detach().float().cpu().numpy(), *(leaf.grad.cpu().numpy() for leaf in leaves)]


def _jax(
    expression: Expression, arrays: Sequence[np.ndarray], backward: bool
) -> tuple[Callable[[], Any], Callable[[Any], list[np.ndarray]]]:
    jax = importlib.import_module("jax")
    assert expression.jax is not None
    function = expression.jax
    inputs = [jax.device_put(array) for array in arrays]
    places = [number for number, array in enumerate(arrays) if array.dtype == np.float32]

    def forward(*values: Any) -> Any:
        return function(jax, *values)

    def both(gy: Any, *values: Any) -> Any:
        def of_floats(*floats: Any) -> Any:
            given = list(values)
            for place, value in zip(places, floats, strict=True):
                given[place] = value
            return forward(*given)

        y, gradient = jax.vjp(of_floats, *(values[place] for place in places))
        return y, *gradient(gy)

    if backward:
        shape = jax.eval_shape(forward, *inputs).shape
        inputs.insert(0, jax.device_put(_cotangent(shape)))
    compiled = jax.jit(both if backward else forward)

    def run() -> Any:
        return jax.block_until_ready(compiled(*inputs))

    return run, lambda found: [np.asarray(array) for array in (found if backward else [found])]


def _numpy(
    expression: Expression, arrays: Sequence[np.ndarray], backward: bool
) -> tuple[Callable[[], Any], Callable[[Any], list[np.ndarray]]]:
    if not backward:
        assert expression.numpy is not None
        function = expression.numpy
        return lambda: function(*arrays), lambda y: [y]
    assert expression.numpy_gradient is not None
    both = expression.numpy_gradient
    shape = np.shape(expression.numpy(*arrays)) if expression.numpy is not None else ()
    cotangent = _cotangent(shape)
    return lambda: both(cotangent, *arrays), list
