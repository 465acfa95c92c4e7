"""Formulas that nobody wrote: chains drawn at random, over operands of random shapes and dtypes, against NumPy."""

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Program, compile_numpy
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.elementwise import launch_formula
from atled_cuda_cupy.launching import queued
from device_calls import call_of, computed

pytest.importorskip("ml_dtypes")
COUNT, BATCH = 300, 100
DTYPES = "float32", "float32", "float16", "bfloat16", "float64", "int32", "uint8"
SHAPES = [(6, 8), (5, 7), (2, 3, 4, 4), (3, 1, 5), (130,), (1,), (2, 0), ()]
# Those that neither grow nor magnify errors, so that the tolerance of one rounding serves for all of a chain.
STEPS = [
    "tanh({a})", "sigmoid({a})", "sin({a})", "atan({a})", "0.5 * ({a} + {b})", "maximum({a}, {b})", "-({a})",
    "minimum({a}, {b})", "0.25 * {a} * {b}", "{a} / (1 + abs({b}))", "sqrt(1 + {a} ** 2) / 4", "exp(-abs({a}))",
    "where({x} > {y}, {a}, {b})", "where({x} != {y} and not {x} < 0.5, {b}, {a})", "log1p(abs({a}))", "erf({a})",
]  # fmt: skip
ATTRIBUTES = ["{a} * scale", "{a} * (1 - scale)", "where(bias > 0.4, {a}, -{a})", "{a} / (2 + sqrt(scale * bias))"]


def chain(rng):
    """A formula of some steps, its operands' shapes and dtypes, and the floats that it is given."""
    inputs = [f"x{n}" for n in range(rng.integers(1, 5))]
    attributes = ("scale", "bias") if rng.random() < 0.5 else ()
    outputs = []
    for number in range(rng.integers(1, 4)):
        formula = str(rng.choice(inputs))
        for step in rng.choice(STEPS + ATTRIBUTES * bool(attributes), rng.integers(1, 5)):
            x, y, other = rng.choice(inputs, 3)
            formula = f"({step.format(a=formula, b=other, x=x, y=y)})"
        outputs.append((f"y{number}", formula))
    full = SHAPES[rng.integers(len(SHAPES))]
    shapes = [full, *(_broadcast(rng, full) for _ in inputs[1:])]
    dtypes = [str(name) for name in rng.choice(DTYPES, len(inputs))]
    made = [str(name) for name in rng.choice(DTYPES[:5], len(outputs))]
    program = Program(tuple(inputs), attributes, tuple(outputs))
    descs = [ArrayDesc(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    return (
        program,
        descs,
        [ArrayDesc(full, dtype) for dtype in made],
        [float(x) for x in rng.uniform(0.2, 0.9, len(attributes))],
    )


def _broadcast(rng, shape):
    ones = [1 if rng.random() < 0.4 else size for size in shape]
    return tuple(ones[rng.integers(len(shape) + 1) if rng.random() < 0.3 else 0 :])


def drawn(rng, desc):
    if desc.dtype.kind in "iu":
        return rng.integers(0, 3, desc.shape).astype(desc.dtype)
    return rng.uniform(0.1, 1.5, desc.shape).astype(desc.dtype)


@pytest.mark.parametrize("batch", range(COUNT // BATCH))
def test_chains_are_as_numpy_has_them(arrays, batch):
    rng = np.random.default_rng(batch)
    chains = [chain(rng) for _ in range(BATCH)]
    call = call_of("Identity", (1,))
    # All are prepared first: those that are compiled together take a tenth of the time.
    launches = [launch_formula(device("0"), program, [*given, *made]) for program, given, made, _ in chains]
    for (program, given, made, floats), launch in zip(chains, launches, strict=True):
        inputs = [drawn(rng, desc) for desc in given]
        prepared = queued(call, lambda *all_, launch=launch: [(launch, all_, 0)], floats=len(floats))
        found = computed(arrays, prepared, inputs, made, floats)
        wanted = compile_numpy(program)(*(x.astype(np.float64) for x in inputs), *floats)
        in_double = all(x.dtype.kind != "f" and x.dtype.name != "bfloat16" for x in inputs)
        in_double |= any(x.dtype == np.float64 for x in inputs)
        for got, want, desc in zip(found, wanted, made, strict=True):
            tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-6}.get(desc.dtype.name, 1e-13)
            tolerance = max(tolerance, 0 if in_double else 3e-6)
            want = np.broadcast_to(want, desc.shape)
            np.testing.assert_allclose(got.astype(np.float64), want, tolerance, tolerance, err_msg=repr(program))
