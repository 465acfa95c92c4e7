"""Loops: a recurrent layer of 50 steps with its gradients, and a moving average of 1000 steps on 4 numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench_rows import jax_loops
from harness.case import Case

_STEPS, _BATCH, _HIDDEN = 50, 32, 64
_SHORT_STEPS, _NUMBERS, _RATE = 1000, 4, 0.1


def recurrent(library: str) -> Case:
    """`h = tanh(h w + x + b)`: the sum of all h, and its gradients with respect to x, the first h, w and b."""
    rng = np.random.default_rng(8)
    shapes = ((_STEPS, _BATCH, _HIDDEN), (_BATCH, _HIDDEN), (_HIDDEN, _HIDDEN), (1, _HIDDEN))
    arrays = [rng.standard_normal(shape, dtype=np.float32) / np.float32(10) for shape in shapes]
    return _case(partial(jax_loops.recurrent, activation="tanh") if library == "jax" else _recurrent, arrays)


def average(library: str) -> Case:
    """`s = s + rate (x - s)`: all s."""
    rng = np.random.default_rng(9)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in ((_SHORT_STEPS, _NUMBERS), (_NUMBERS,))]
    return _case(partial(jax_loops.average, rate=_RATE) if library == "jax" else _average, arrays)


def _case(make: Callable[[Sequence[np.ndarray]], Callable[[], Sequence[Any]]], arrays: Sequence[np.ndarray]) -> Case:
    run = make(arrays)
    return Case(run, lambda: [np.array(result) for result in run()])


def _recurrent(arrays: Sequence[np.ndarray]) -> Callable[[], Sequence[Any]]:
    gradient = importlib.import_module("atled.graph.nodes.gradient")

    def step(op: Callable[..., Any], x: Any, h: Any, w: Any, b: Any) -> list[Any]:
        h = op("Tanh", op("Add2", op("Add2", op("BatchMatmul", h, w), x), b))
        return [h, h]

    def make(graph: Any, x: Any, *others: Any) -> list[Any]:
        (rows,) = _loop(graph, step, [x], others[:1], others[1:]).rows
        y = graph.op("Sum", rows, axes=(0, 1, 2), keep_dims=False)
        seed = graph.op("Constant", val=1.0, shape=())
        found = gradient.backpropagate(graph, list(graph.nodes), {y: seed}, [x, *others])
        return [y, *(found[value] for value in (x, *others))]

    return _run_of(make, arrays)


def _average(arrays: Sequence[np.ndarray]) -> Callable[[], Sequence[Any]]:
    def step(op: Callable[..., Any], x: Any, s: Any) -> list[Any]:
        s = op("Add2", s, op("MulScalar", op("Sub2", x, s), val=_RATE))
        return [s, s]

    return _run_of(lambda graph, x, s: list(_loop(graph, step, [x], [s], []).rows), arrays)


def _loop(
    graph: Any, step: Callable[..., list[Any]], sequences: Sequence[Any], states: Sequence[Any], others: Sequence[Any]
) -> Any:
    """A loop of a graph of ours."""
    nodes = importlib.import_module("atled.graph.nodes")
    bodies, loops = (importlib.import_module(f"{nodes.__name__}.{name}") for name in ("body", "loops"))
    descs = [*(type(x.desc)(x.desc.shape[1:], x.desc.dtype) for x in sequences), *(x.desc for x in (*states, *others))]
    builder = bodies.BodyBuilder(graph.context)
    body = builder.body(step(builder.op, *map(builder.input, descs)))
    return loops.loop(graph, body, sequences=sequences, states=states, constants=others)


def _run_of(make: Callable[..., list[Any]], arrays: Sequence[np.ndarray]) -> Callable[[], Sequence[Any]]:
    """The run of a plan of ours: `make` adds its nodes to a graph."""
    nn = importlib.import_module("atled")
    desc = importlib.import_module("atled.array_desc").ArrayDesc
    ir = importlib.import_module("atled.graph.nodes.ir")
    lower = importlib.import_module("atled.graph.compile.lowering").lower
    bind = importlib.import_module("atled.graph.run.binding").Binding
    graph = ir.Graph(nn.get_current_context())
    values = make(graph, *(graph.external(n, desc(array.shape, array.dtype)) for n, array in enumerate(arrays)))
    plan = lower(graph, values)
    given = [nn.NdArray.from_numpy_array(array) for array in arrays]
    results = [nn.NdArray(value.shape) for value in values]
    floats = [value for _, value, *_ in plan.floats]
    binding = bind(plan, [array.cell for array in given], [result.cell for result in results], floats)

    def run() -> Sequence[Any]:
        binding.run()
        return [result.data for result in results]

    return run
