"""Layers with the signs of their weights: result, signs and scales are the reference's, in every type config."""

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool

DTYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "bf16": ml_dtypes.bfloat16}
ROUNDED = {"float": 1e-5, "double": 1e-12, "half": 2e-3, "bf16": 2e-2}

configs = pytest.mark.parametrize("config", list(DTYPES))
biased = pytest.mark.parametrize("has_bias", [True, False])

AFFINE = [((5, 7), (7, 9), {}), ((1, 1), (1, 1), {}), ((2, 3, 33), (33, 5, 7), {"base_axis": 2})]
CONVOLUTIONS = [
    ((2, 3, 6, 7), (4, 3, 3, 3), {"pad": (1, 1)}),
    ((2, 4, 9), (6, 2, 3), {"group": 2, "stride": (2,)}),
    ((1, 16, 12, 13), (32, 16, 3, 3), {"pad": (1, 1), "dilation": (2, 2)}),
    ((3, 8, 5, 5), (8, 1, 3, 3), {"group": 8}),
]
LAYERS = [("affine", *case) for case in AFFINE] + [("convolution", *case) for case in CONVOLUTIONS]


def drawn(layer, x, weight, has_bias, dtype):
    rng = np.random.default_rng(0)
    outputs = weight[1:] if layer == "affine" else weight[:1]
    w = rng.standard_normal(weight).astype(dtype)
    w.flat[0] = 0  # whose sign is -1
    bias = rng.standard_normal(outputs).astype(dtype) if has_bias else None
    return rng.standard_normal(x).astype(dtype), w, np.full(weight, 7, dtype), np.full(outputs, 7, dtype), bias


def computed(context, name, arrays, attributes):
    """y, signs and scales, and the notes of what computed."""
    with nn.context_scope(context), nn.trace() as trace:
        x, w, signs, alpha, bias = (None if a is None else nn.NdArray.from_numpy_array(a.copy()) for a in arrays)
        scales = [alpha] if "weight" in name else []
        y = getattr(F, name)(x, w, signs, *scales, bias, **attributes)
        return [array.data for array in (y, signs, *scales)], [row.note for row in trace.rows()]


@configs
@biased
@pytest.mark.parametrize("kind", ["connect", "weight"])
@pytest.mark.parametrize("layer, x, weight, attributes", LAYERS)
def test_they_are_the_references(config, has_bias, kind, layer, x, weight, attributes):
    arrays, name = drawn(layer, x, weight, has_bias, DTYPES[config]), f"binary_{kind}_{layer}"
    found, notes = computed(Context([f"cpu:{config}"], fallback="raise"), name, arrays, attributes)
    wide = [None if array is None else array.astype("d") for array in arrays]
    expected, _ = computed(Context(["reference:double"]), name, wide, attributes)
    assert any("signs" in note for note in notes)
    largest = np.abs(expected[0]).max()
    np.testing.assert_allclose(found[0].astype("d"), expected[0], atol=4 * ROUNDED[config] * largest)
    np.testing.assert_array_equal(found[1].astype("d"), expected[1])
    for scale, wanted in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(scale.astype("d"), wanted, rtol=ROUNDED[config])


@configs
@pytest.mark.parametrize("kind", ["connect", "weight"])
def test_threads_change_no_bits(config, kind):
    arrays = drawn("affine", (64, 300), (300, 200), True, DTYPES[config])
    before, found = pool.thread_count(), []
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            made, _ = computed(Context([f"cpu:{config}"], fallback="raise"), f"binary_{kind}_affine", arrays, {})
            found.append([array.tobytes() for array in made])
    finally:
        pool.set_thread_count(before)
    assert found[0] == found[1]


@configs
def test_a_nan_in_the_weight_counts_as_not_positive_and_makes_its_scale_nan(config):
    x, w, signs, alpha, bias = drawn("affine", (3, 4), (4, 2), True, DTYPES[config])
    w[1, 0] = np.nan
    context = Context([f"cpu:{config}"], fallback="raise")
    (y, signs, alpha), _ = computed(context, "binary_weight_affine", (x, w, signs, alpha, bias), {})
    assert float(signs[1, 0]) == -1
    np.testing.assert_array_equal(np.isnan(alpha.astype("f")), [True, False])
    np.testing.assert_array_equal(np.isnan(y.astype("f")), [[True, False]] * 3)
