"""Batch normalization and mean subtraction: every place of the channel axis, in parts, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cuda_cupy.kernels import normalization

SHAPES = [
    ((8, 3, 5, 5), 1),
    ((6, 5, 16, 16), 1),
    ((40, 2, 24, 24), 1),
    ((2, 2, 67, 67), 1),
    ((9, 6, 6, 8), 3),
    ((3000, 3), 1),
    ((7, 64), 1),
    ((4, 300), 0),
]


def case(shape, axis, dtype="float32", statistics="float32"):
    rng = np.random.default_rng(0)
    channel = tuple(size if place == axis else 1 for place, size in enumerate(shape))
    x = rng.normal(3, 2, shape).astype(dtype)
    beta, gamma = rng.normal(0, 1, (2, *channel)).astype(dtype)
    mean, variance = rng.uniform(0.5, 1.5, (2, *channel)).astype(statistics)
    return x, beta, gamma, mean, variance


def exactly(op, inputs, attributes):
    copies = [x.astype("float64") if x.dtype.kind != "i" else x.copy() for x in inputs]
    results = op_spec(op).reference(*copies, **op_spec(op).check_attributes(attributes, inputs))
    return copies, results


@pytest.mark.parametrize("batch_stat", [True, False])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_forward(compute, shape, axis, batch_stat):
    inputs, attributes = case(shape, axis), {"axes": (axis,), "batch_stat": batch_stat, "eps": 1e-3, "decay_rate": 0.7}
    got = compute(normalization, "prepare_batch_normalization", "BatchNormalization", inputs, **attributes)
    changed, exact = exactly("BatchNormalization", inputs, attributes)
    for one, other in zip([*got, *compute.inputs[3:]], [*exact, *changed[3:]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch_stat", [True, False])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_gradient(compute, shape, axis, batch_stat):
    x, _, gamma, mean, variance = case(shape, axis)
    gy = np.random.default_rng(1).standard_normal(shape).astype("float32")
    inputs, attributes = (gy, x, gamma, mean, variance), {"axes": (axis,), "batch_stat": batch_stat, "eps": 1e-3}
    got = compute(normalization, "prepare_gradient", "BatchNormalizationGrad", inputs, **attributes)
    _, exact = exactly("BatchNormalizationGrad", inputs, attributes)
    for one, other in zip(got, exact, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((8, 3, 8, 8), 1), ((40, 16), 1)])
def test_other_dtypes(compute, shape, axis, dtype):
    inputs = case(shape, axis, dtype, "float64" if dtype == "float64" else "float32")
    got = compute(normalization, "prepare_batch_normalization", "BatchNormalization", inputs, axes=(axis,))
    _, exact = exactly("BatchNormalization", inputs, {"axes": (axis,)})
    tolerance = 4e-3 if dtype == "float16" else 1e-12
    np.testing.assert_allclose(got[0], exact[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(got[2], exact[2], rtol=1e-5 if dtype == "float16" else 1e-12)


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("axis", [1, 3])
def test_a_variance_is_right_far_from_zero_and_behind_outliers(compute, axis, shift):
    shape = (6, 4, 15, 16)
    x, *others = case(shape, axis)
    x = np.random.default_rng(2).normal(1000, 1, shape).astype("float32")
    x[0, :, 0, 0] = x[0, 0, 0, :4] = 0.0  # what threads see first
    x[0, 0, 0, :] = 1001.0
    _, mean, variance = compute(
        normalization, "prepare_batch_normalization", "BatchNormalization", (x, *others), axes=(axis,), shift=shift
    )
    rest = tuple(place for place in range(4) if place != axis)
    np.testing.assert_allclose(mean, x.mean(axis=rest, dtype="float64", keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(variance, x.var(axis=rest, dtype="float64", keepdims=True), rtol=1e-4)


@pytest.mark.parametrize(("shape", "base_axis"), [((50, 3, 4), 1), ((3000, 5), 1), ((4, 5, 6), 2), ((4, 0), 1)])
@pytest.mark.parametrize("moves", [True, False])
def test_mean_subtraction(compute, shape, base_axis, moves):
    rng = np.random.default_rng(3)
    x, mean = (rng.standard_normal(one).astype("float32") for one in (shape, shape[base_axis:]))
    inputs, attributes = (x, mean, np.array([4])), {"base_axis": base_axis, "update_running_mean": moves}
    got = compute(normalization, "prepare_mean_subtraction", "MeanSubtraction", inputs, **attributes)
    changed, exact = exactly("MeanSubtraction", inputs, attributes)
    for one, other in zip([*got, *compute.inputs[1:]], [*exact, *changed[1:]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
