"""BatchNormalization and its gradient against NumPy in float64."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.normalization import channels

CASES = [
    ((7, 5), 1),
    ((1, 3), 1),
    ((6, 300), 1),
    ((4, 3, 5, 5), 1),
    ((3, 70, 2, 2), 1),
    ((3, 2, 40, 60), 1),
    ((2, 3, 5), 0),
    ((131, 40), 1),
    ((70, 5, 3), 1),
    ((9, 2100), 1),
]
EPS, DECAY = 1e-3, 0.9

all_cases = pytest.mark.parametrize("shape, axis", CASES)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])
both_ways = pytest.mark.parametrize("batch_stat", [True, False])


def draw(shape, axis, dtype):
    rng = np.random.default_rng(0)
    small = tuple(n if i == axis else 1 for i, n in enumerate(shape))
    x = (rng.standard_normal(shape) * 2 + 1).astype(dtype)
    beta, gamma, mean = (rng.standard_normal(small).astype(dtype) for _ in range(3))
    variance = rng.uniform(0.5, 2, small).astype(dtype)
    return x, beta, gamma, mean, variance


def forward(run, arrays, axis, batch_stat, parts=1):
    x, beta, gamma, mean, variance = arrays
    y, batch_mean, batch_variance = np.full_like(x, np.nan), np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    code = run(
        channels, "BatchNormalization", [x, beta, gamma, mean, variance], [y, batch_mean, batch_variance],
        parts=parts, floats={"decay_rate": DECAY, "eps": EPS}, mutated=(3, 4), axes=(axis,), batch_stat=batch_stat,
    )  # fmt: skip
    assert code == 0
    return y, batch_mean, batch_variance


@both_dtypes
@both_ways
@all_cases
def test_forward(run, parts, shape, axis, batch_stat, dtype):
    arrays = draw(shape, axis, dtype)
    x, beta, gamma, mean, variance = (array.astype("d") for array in arrays)
    y, batch_mean, batch_variance = forward(run, arrays, axis, batch_stat, parts)
    tolerance = 2e-6 if dtype == "float32" else 1e-14
    if batch_stat:
        others = tuple(i for i in range(len(shape)) if i != axis)
        m, v = x.mean(others, keepdims=True), x.var(others, keepdims=True)
        count = x.size // m.size
        unbiased = v * count / max(1, count - 1)
        np.testing.assert_allclose(arrays[3], DECAY * mean + (1 - DECAY) * m, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(arrays[4], DECAY * variance + (1 - DECAY) * unbiased, rtol=tolerance)
    else:
        m, v = mean, variance
        np.testing.assert_array_equal(arrays[3], mean)
        np.testing.assert_array_equal(arrays[4], variance)
    np.testing.assert_allclose(batch_mean, m, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(batch_variance, v, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(y, (x - m) / np.sqrt(v + EPS) * gamma + beta, rtol=tolerance, atol=10 * tolerance)


@both_dtypes
@both_ways
@all_cases
def test_gradient(run, parts, shape, axis, batch_stat, dtype):
    x, _, gamma, mean, variance = draw(shape, axis, dtype)
    gy = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    others = tuple(i for i in range(len(shape)) if i != axis)
    if batch_stat:
        mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    gx, gbeta, ggamma = np.full_like(x, np.nan), np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    code = run(
        channels, "BatchNormalizationGrad", [gy, x, gamma, mean, variance], [gx, gbeta, ggamma],
        parts=parts, floats={"eps": EPS}, axes=(axis,), batch_stat=batch_stat,
    )  # fmt: skip
    assert code == 0
    x, gamma, mean, variance, gy = (array.astype("d") for array in (x, gamma, mean, variance, gy))
    inverse = 1 / np.sqrt(variance + EPS)
    x_hat = (x - mean) * inverse
    expected = gy
    if batch_stat:
        expected = gy - gy.mean(others, keepdims=True) - x_hat * (gy * x_hat).mean(others, keepdims=True)
    scale = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(gbeta, gy.sum(others, keepdims=True), rtol=scale, atol=scale * np.sqrt(x.size))
    np.testing.assert_allclose(
        ggamma, (gy * x_hat).sum(others, keepdims=True), rtol=scale, atol=scale * np.sqrt(x.size)
    )
    np.testing.assert_allclose(gx, gamma * inverse * expected, rtol=scale, atol=10 * scale)


@pytest.mark.parametrize("shape", [(64, 3), (8, 3, 20, 20), (8, 3, 4, 4)])
@pytest.mark.parametrize("offset", [1e3, -1e4])
def test_a_mean_far_from_zero_costs_no_digits_of_the_variance(run, shape, offset):
    arrays = draw(shape, 1, "float32")
    arrays[0][...] += np.float32(offset)
    x = arrays[0].astype("d")
    _, batch_mean, batch_variance = forward(run, arrays, 1, True)
    others = tuple(i for i in range(len(shape)) if i != 1)
    np.testing.assert_allclose(batch_mean, x.mean(others, keepdims=True), rtol=1e-7)
    np.testing.assert_allclose(batch_variance, x.var(others, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("shape", [(300, 5), (130, 3, 7)])
@pytest.mark.parametrize("place", [0, 17, 100])
@pytest.mark.parametrize("outlier", [1e3, -1e4])
def test_columns_that_change_in_the_middle_cost_no_digits_of_the_variance(run, shape, place, outlier):
    arrays = draw(shape, 1, "float32")
    arrays[0][place] += np.float32(outlier)
    arrays[0][place + 20 :] += np.float32(outlier / 10)
    x = arrays[0].astype("d")
    _, batch_mean, batch_variance = forward(run, arrays, 1, True)
    others = tuple(i for i in range(len(shape)) if i != 1)
    mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    assert (np.abs(batch_mean - mean) < 1e-6 * np.sqrt(variance)).all()
    np.testing.assert_allclose(batch_variance, variance, rtol=1e-6)


@both_dtypes
def test_columns_have_the_same_bits_for_any_count_of_shares(run, dtype):
    found = []
    for parts in (1, 2, 5):
        arrays = draw((90, 700), 1, dtype)
        found.append(np.concatenate([*forward(run, arrays, 1, True, parts), arrays[3], arrays[4]]))
    np.testing.assert_array_equal(found[1:], [found[0]] * 2)


def test_calls_without_some_array_are_refused(make_call):
    x, small = np.zeros((2, 3), "f"), np.zeros((1, 3), "f")
    call = make_call(
        "BatchNormalization", [x, small, None, small, small], [x, small, small], axes=(1,), batch_stat=True
    )
    assert "without" in channels.accepts(call)
    call = make_call(
        "BatchNormalization", [x, small, small, small, small], [x, small, small], axes=(0, 1), batch_stat=True
    )
    assert "one axis" in channels.accepts(call)
