"""Slices of any axes and steps, mirrors and diagonals, drawn from a seed."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.conformance.running import evaluate
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


BYTES = pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
_SHAPES = [(7,), (5, 3), (4, 5, 6, 7), (4, 1, 6, 9), (2, 3, 2, 3, 2, 3), (16, 33, 3)]


def some_bytes(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 127, shape).astype(dtype)


@BYTES
@pytest.mark.parametrize("shape", _SHAPES)
def test_bytes_are_flipped_and_transposed(run, parts, shape, dtype):
    x = some_bytes(shape, dtype)
    for axes in ((), (0,), (len(shape) - 1,), tuple(range(0, len(shape), 2)), tuple(range(len(shape)))):
        y = np.ones_like(x)
        assert run(strided_copies, "Flip", [x], [y], parts=parts, axes=axes) == 0
        np.testing.assert_array_equal(y, np.flip(x, axes))
    for seed in range(4):
        axes = tuple(np.random.default_rng(seed).permutation(len(shape)).tolist())
        y = np.ones(tuple(shape[axis] for axis in axes), dtype)
        assert run(strided_copies, "Transpose", [x], [y], parts=parts, axes=axes) == 0
        np.testing.assert_array_equal(y, x.transpose(axes))


@BYTES
@pytest.mark.parametrize("sizes", [(1,), (3, 1), (17, 2, 40)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_bytes_are_joined_and_split(run, parts, sizes, axis, dtype):
    shapes = [tuple(size if i == axis else n for i, n in enumerate((3, 4, 5))) for size in sizes]
    arrays = [some_bytes(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    expected = np.concatenate(arrays, axis=axis)
    y = np.ones_like(expected)
    assert run(strided_copies, "Concatenate", arrays, [y], parts=parts, axis=axis) == 0
    np.testing.assert_array_equal(y, expected)
    stacked = np.stack([arrays[0]] * 3, axis=axis)
    y, back = np.ones_like(stacked), [np.ones_like(arrays[0]) for _ in range(3)]
    assert run(strided_copies, "Stack", [arrays[0]] * 3, [y], parts=parts, axis=axis) == 0
    np.testing.assert_array_equal(y, stacked)
    assert run(strided_copies, "Split", [y], back, parts=parts, axis=axis) == 0
    np.testing.assert_array_equal(back, [arrays[0]] * 3)


@BYTES
def test_bytes_are_moved_by_copies_in_graphs_and_floats_by_the_kernels_of_their_width(dtype):
    def build(graph, values):
        (x,) = values
        both = graph.op("Concatenate", x, graph.op("Flip", x, axes=(1,)), axis=1)
        return (graph.op("Transpose", both, axes=(2, 0, 1)),)

    cases = (some_bytes((40, 5, 600), dtype), "strided copies"), (np.ones((4, 5, 6), "f"), "kernel")
    for given, note in cases:
        with nn.trace() as trace:
            found = evaluate(build, [given], nn.Context(["cpu:float"], fallback="raise"), by_operands=True).results
        expected = evaluate(build, [given], nn.Context(["reference:float"]), by_operands=True).results
        assert all(note in row.note for row in trace.rows())
        assert all("strided" not in row.note for row in trace.rows()) == (given.dtype == np.float32)
        assert found[0].dtype == given.dtype
        np.testing.assert_array_equal(found[0], expected[0])


@BYTES
def test_scalars_are_stacked_and_turned(run, dtype):
    x, y, z = np.ones((), dtype), np.zeros((), dtype), np.zeros((2,), dtype)
    assert run(strided_copies, "Flip", [x], [y], axes=()) == 0
    assert y == x
    assert run(strided_copies, "Stack", [x, x], [z], axis=0) == 0
    np.testing.assert_array_equal(z, [x, x])
