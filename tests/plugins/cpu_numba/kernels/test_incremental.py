"""Layers with weights fixed to powers of two: weights, indicators and results are the reference's at each forward."""

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool

DTYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "bf16": ml_dtypes.bfloat16}
ROUNDED = {"float": 1e-5, "double": 1e-12, "half": 2e-3, "bf16": 2e-2}
FORWARDS = 4

configs = pytest.mark.parametrize("config", list(DTYPES))
LAYERS = [
    ("inq_affine", (5, 7), (7, 9), {}),
    ("inq_affine", (1, 1), (1, 1), {}),
    ("inq_affine", (2, 3, 33), (33, 5, 7), {"base_axis": 2}),
    ("inq_convolution", (2, 3, 6, 7), (4, 3, 3, 3), {"pad": (1, 1)}),
    ("inq_convolution", (2, 4, 9), (6, 2, 3), {"group": 2, "stride": (2,)}),
    ("inq_convolution", (1, 16, 12, 13), (32, 16, 3, 3), {"pad": (1, 1)}),
]


def drawn(x, weight, dtypes, has_bias=True, scale=1.0):
    """x, weight, its indicator and a bias, the second of these in a dtype of its own."""
    rng = np.random.default_rng(0)
    wide, narrow = dtypes
    w = (rng.standard_normal(weight) * scale).astype(narrow)
    bias = rng.standard_normal(weight[1:] if x[-1] == weight[0] else weight[:1]).astype(wide) if has_bias else None
    return rng.standard_normal(x).astype(wide), w, (rng.random(weight) < 0.2).astype(wide), bias


def leaf(array):
    """A variable that holds a copy in the array's own dtype."""
    variable = nn.Variable(array.shape)
    variable.data = nn.NdArray.from_numpy_array(array.copy())
    return variable


def computed(context, name, arrays, attributes, forwards=FORWARDS):
    """Per forward y, weight and indicator; the notes of what computed. The weight moves between two forwards."""
    found = []
    with nn.context_scope(context):
        x, w, indicator, bias = (None if array is None else leaf(array) for array in arrays)
        y = getattr(F, name)(x, w, indicator, bias, seed=7, **attributes)
        for _ in range(forwards):
            with nn.trace() as trace:
                y.forward()
            found.append([np.array(array.data.data) for array in (y, w, indicator)])
            moved = np.array(w.data.data).astype("d") * 1.125 + 0.0625
            w.data.data[...] = moved.astype(arrays[1].dtype)
    return found, [row.note for row in trace.rows()]


def assert_same(config, name, arrays, attributes):
    found, notes = computed(Context([f"cpu:{config}"], fallback="raise"), name, arrays, attributes)
    expected, _ = computed(Context([f"reference:{config}"]), name, arrays, attributes)
    assert any("powers of two" in note for note in notes), notes
    for made, wanted in zip(found, expected, strict=True):
        for array, other in zip(made[1:], wanted[1:], strict=True):
            assert array.dtype == other.dtype
            np.testing.assert_array_equal(array.astype("d"), other.astype("d"))
        finite = np.abs(wanted[0].astype("d"))[np.isfinite(wanted[0].astype("d"))]
        atol = 4 * ROUNDED[config] * finite.max(initial=0.0)
        np.testing.assert_allclose(made[0].astype("d"), wanted[0].astype("d"), atol=atol)


@configs
@pytest.mark.parametrize("algorithm", ["largest_abs", "random"])
@pytest.mark.parametrize("layer, x, weight, attributes", LAYERS)
def test_each_forward_is_the_references(config, algorithm, layer, x, weight, attributes):
    arrays = drawn(x, weight, (DTYPES[config],) * 2, has_bias=layer == "inq_affine")
    given = {**attributes, "inq_iterations": (0, 2, 3), "selection_algorithm": algorithm}
    assert_same(config, layer, arrays, given)


@pytest.mark.parametrize("config", ["double", "half", "bf16"])
def test_a_weight_of_float32_stays_one_under_other_type_configs(config):
    arrays = drawn((5, 7), (7, 9), (DTYPES[config], np.float32))
    assert_same(config, "inq_affine", arrays, {"inq_iterations": (1, 3)})


@pytest.mark.parametrize("bits", [2, 3, 5, 8])
@pytest.mark.parametrize(
    "config, scale", [("float", 1.0), ("float", 1e-38), ("float", 1e-44), ("float", 1e37), ("double", 1e-310)]
)
def test_powers_of_any_size_are_the_references(config, scale, bits):
    arrays = drawn((3, 8), (8, 40), (DTYPES[config],) * 2, scale=scale)
    assert_same(config, "inq_affine", arrays, {"inq_iterations": (0, 1), "num_bits": bits})


def test_the_middle_between_two_powers_goes_to_the_upper_one():
    numbers = [sign * size * 1.5 for size in 2.0 ** np.arange(-6, 1) for sign in (-1, 1)]
    near = [np.nextafter(np.float32(number), np.float32(0)) for number in numbers]
    weight = np.array([[*numbers, *near, 0, -0.0]], np.float32)
    arrays = (np.ones((1, 1), np.float32), weight, np.zeros_like(weight), None)
    assert_same("float", "inq_affine", arrays, {"inq_iterations": (0,), "num_bits": 5})


@configs
@pytest.mark.parametrize("algorithm", ["largest_abs", "random"])
@pytest.mark.parametrize("strange", [(np.nan,), (np.inf,), (np.nan, -np.inf), (np.nan,) * 8])
def test_what_is_no_number_is_fixed_as_the_reference_has_it(config, algorithm, strange):
    x, weight, indicator, bias = drawn((3, 4), (4, 2), (DTYPES[config],) * 2)
    weight.flat[: len(strange)] = strange
    indicator[3] = np.nan
    given = {"inq_iterations": (1, 2), "selection_algorithm": algorithm}
    with np.errstate(invalid="ignore"):
        assert_same(config, "inq_affine", (x, weight, indicator, bias), given)


def test_of_equal_weights_the_first_are_fixed():
    weight = np.array([[0.5, -0.5, 0.25, 0.5, 0.5, -0.25, 0.5]], np.float32)
    arrays = (np.ones((1, 1), np.float32), weight, np.zeros_like(weight), None)
    assert_same("float", "inq_affine", arrays, {"inq_iterations": (0, 9)})


@configs
def test_threads_change_no_bits(config):
    arrays = drawn((64, 300), (300, 200), (DTYPES[config],) * 2)
    before, found = pool.thread_count(), []
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            context = Context([f"cpu:{config}"], fallback="raise")
            made, _ = computed(context, "inq_affine", arrays, {"inq_iterations": (0, 1)}, 2)
            found.append([array.tobytes() for arrays_of_one in made for array in arrays_of_one])
    finally:
        pool.set_thread_count(before)
    assert found[0] == found[1]


def test_a_weight_wider_than_x_is_left_to_the_reference():
    arrays = drawn((5, 7), (7, 9), (np.float32, np.float64))
    _, notes = computed(Context(["cpu:float"], fallback="raise"), "inq_affine", arrays, {}, 1)
    assert "adopted reference" in notes
