"""Slices of any axes and steps, mirrors and diagonals, drawn from a seed."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_cpu_numba.kernels import strided_copies
from drawn_calls import CASES, check


def bounds(rng, size):
    """Start, stop and step of a slice with elements, counted from either end and in either direction."""
    places = sorted(rng.integers(0, size, 2).tolist())
    step = int(rng.integers(1, 4))
    if rng.random() < 0.3:
        stop = places[0] - 1
        return places[1], stop if stop >= 0 else -size - 1, -step
    return places[0] - (size if rng.random() < 0.3 else 0), places[1] + 1, step


def attempt(rng, config):
    shape = tuple(int(rng.choice([2, 3, 5, 8, 17, 40])) for _ in range(rng.integers(1, 5)))
    start, stop, step = zip(*(bounds(rng, size) for size in shape), strict=True)
    widths = tuple(int(rng.integers(0, size)) for size in shape for _ in range(2))
    name = str(rng.choice(["slice", "mirror", "diagonals", "on diagonals"]))
    if name == "diagonals":
        shape = (*shape, shape[-1])
    build = {
        "slice": lambda x: F.sin(F.slice(x, start=start, stop=stop, step=step)),
        "mirror": lambda x: F.pad(x, widths, mode="reflect"),
        "diagonals": F.matrix_diag_part,
        "on diagonals": F.matrix_diag,
    }[name]
    what = f"{name} of {shape}: {start}, {stop}, {step}, {widths}"
    check(build, [rng.standard_normal(shape).astype("f")], what, config, tolerance=1e-1 if config == "bf16" else None)


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        attempt(rng, config)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float64"])
def test_elements_are_moved_as_they_are(run, parts, dtype):
    x = np.random.default_rng(0).integers(0, 256, (6, 7, 8 * np.dtype(dtype).itemsize)).astype("u1").view(dtype)
    y = np.empty((3, 7, 4), dtype)
    cut = {"start": (0, -1, 1), "stop": (6, -8, 8), "step": (2, -1, 2)}
    assert run(strided_copies, "Slice", [x], [y], parts=parts, **cut) == 0
    assert y.tobytes() == np.ascontiguousarray(x[::2, ::-1, 1:8:2]).tobytes()


def test_they_are_copies_of_the_formula_compiler():
    x = nn.Variable.from_numpy_array(np.ones((4, 6, 6), "f"))
    slices = F.slice(x, start=(0, 1, 1), stop=(4, 5, 5), step=(1, 1, 1))
    for y in (slices, F.matrix_diag(x), F.matrix_diag_part(x), F.pad(x, (1, 1), mode="reflect")):
        with nn.context_scope(nn.Context(["cpu:float"], fallback="raise")), nn.trace() as trace:
            y.forward()
        assert trace.rows()[0].note == "kernel; strided copies"
