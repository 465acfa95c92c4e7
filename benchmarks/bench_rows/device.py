"""What the engine costs on a device: the simulated one with kernels that compute nothing, beside the cpu.

The same for GPUs on a driver that does nothing, which is what the plugin costs besides. Every case of the simulated
device runs first on the device that computes. What it launches, copies and replays there the empty one must, too.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_rows import empty_driver
from bench_rows.networks import NETWORKS, initial_parameters
from bench_rows.recorded import recorded
from bench_rows.training import RecordedLayers
from harness.case import Case

ADDITIONS = 100
_SETTLING_RUNS = 8  # plans are bound, programs made, and arrays trusted to stay by then
_COUNTED_RUNS = 3

Run = Callable[[], object]

_opened = contextlib.ExitStack()
"""What the case of this process has entered; the next one closes it."""


def _case(library: str, make: Callable[[Any], Run], limit_us: float = 0) -> Case:
    """The case of a library.

    make: makes what is run, from the API.
    library: "atled" is the empty device, "cuda" GPUs on an empty driver, "cpu" the backend of that name, "limit" a time
        that the row must keep below.
    """
    _opened.close()
    if library == "limit":
        return Case(lambda: limit_us * 1e-6, is_reading=True)
    if library == "cpu":
        return Case(make(recorded("atled")))
    if library == "cuda":
        empty_driver.install()
        api = recorded("atled")
        api.nn.set_default_context(api.nn.get_extension_context("cuda", fallback="raise"))
        run = make(api)
        for _ in range(_SETTLING_RUNS):
            run()
        return Case(run)
    api = recorded("atled")
    sim = importlib.import_module("atled_sim")
    api.nn.set_default_context(api.nn.get_extension_context("sim", fallback="raise"))
    computing = _counts(sim, make(api))
    _opened.enter_context(sim.empty())
    api.nn.clear_parameters()
    run = make(api)
    empty = _counts(sim, run)
    if empty != computing:
        raise AssertionError(f"the empty device does otherwise than the computing one: {empty} instead of {computing}")
    return Case(run, note=", ".join(f"{value // _COUNTED_RUNS} {name}" for name, value in empty.items() if value))


def _counts(sim: Any, run: Run) -> dict[str, int]:
    """What a device does in some runs."""
    for _ in range(_SETTLING_RUNS):
        run()
    sim.device("0").reset_counts()
    for _ in range(_COUNTED_RUNS):
        run()
    return dict(vars(sim.device("0").counts))


def addition(library: str, limit_us: float) -> Case:
    """`add2(a, b)` of NdArrays with four elements, 100 times."""

    def make(api: Any) -> Run:
        a, b = (api.nn.NdArray.from_numpy_array(np.ones(4, np.float32)) for _ in range(2))

        def run() -> None:
            for _ in range(ADDITIONS):
                api.F.add2(a, b)

        return run

    return _case(library, make, limit_us)


def bound_plan(library: str, arrays: int) -> Case:
    """The forward of a graph of one op, which reads so many arrays of the user's."""

    def make(api: Any) -> Run:
        values = [api.nn.Variable.from_numpy_array(np.ones(4, np.float32)) for _ in range(arrays)]
        y = api.F.concatenate(*values)
        return lambda: y.forward()

    return _case(library, make)


def compiled_step(library: str, network: str, limit_us: float) -> Case:
    """A training step by `compile_step` on a batch that stays where it is."""

    def make(api: Any) -> Run:
        chosen = NETWORKS[network]
        x, t = api.nn.Variable((chosen.batch, *chosen.shape)), api.nn.Variable((chosen.batch, 1))
        loss = api.F.mean(api.F.softmax_cross_entropy(chosen.scores(RecordedLayers(api), x), t))
        x.d, t.d = 0.5, 1
        for name, values in initial_parameters(chosen).items():
            api.nn.get_parameters(grad_only=False)[name].d = values
        solver = api.S.Adam()
        solver.set_parameters(api.nn.get_parameters())
        step: Run = api.nn.compile_step(loss, solver)
        return step

    return _case(library, make, limit_us)


def dynamic_step(library: str, layers: int) -> Case:
    """A training step of a perceptron of so many layers, whose graph is made anew each time, under `auto_forward`."""

    def make(api: Any) -> Run:
        x, t = api.nn.Variable((8, 16)), api.nn.Variable((8, 1))
        x.d, t.d = 0.5, 1
        solver = api.S.Sgd(0.01)

        def run() -> None:
            with api.nn.auto_forward():
                h = x
                for number in range(layers):
                    h = api.F.tanh(api.PF.affine(h, 16, name=f"affine{number}"))
                loss = api.F.mean(api.F.softmax_cross_entropy(h, t))
            solver.set_parameters(api.nn.get_parameters(), reset=False)
            solver.zero_grad()
            loss.backward()
            solver.update()

        return run

    return _case(library, make)


def adam_update(library: str, arrays: int) -> Case:
    """The update of so many small parameters by Adam."""

    def make(api: Any) -> Run:
        rng = np.random.default_rng(0)
        parameters = {}
        for number in range(arrays):
            values, gradient = rng.standard_normal((2, 64), dtype=np.float32)
            parameters[str(number)] = api.nn.Variable.from_numpy_array(values, need_grad=True)
            parameters[str(number)].g = gradient
        solver = api.S.Adam()
        solver.set_parameters(parameters)
        return lambda: solver.update()

    return _case(library, make)
