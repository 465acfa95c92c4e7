"""Rectifiers before max pooling are computed behind it in an inference, where there are fewer elements."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F

RNG = np.random.default_rng(0)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0]
RECTIFIERS = {"relu": F.relu, "leaky relu": F.leaky_relu, "leaky relu of slope 2": lambda x: F.leaky_relu(x, 2.0)}


def pooled(x, **rest):
    return F.max_pooling(x, (3, 3), **{"stride": (2, 2), "pad": (1, 1), **rest})


def ops_of(infer, *values):
    """The ops of each step that an inference runs."""
    with nn.trace() as trace:
        infer(*values)
    return [row.op for row in trace.rows()]


def same(result, expected):
    """Equal, whatever the signs of zeros; NaN where NaN is."""
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


@pytest.mark.parametrize("name", RECTIFIERS)
@pytest.mark.parametrize("shape", [(2, 3, 11, 8), (1, 1, 1, 1), (0, 3, 5, 5), (2, 4, 6, 7)])
def test_the_result_is_that_of_the_order_in_which_it_was_written(name, shape):
    x = nn.Variable(shape)
    y = pooled(RECTIFIERS[name](x))
    values = RNG.choice([*SPECIAL, *RNG.standard_normal(20)], shape).astype(np.float32)
    x.d = values
    y.forward()
    same(nn.inference(y, [x])(values), y.d)


def test_images_of_another_size_and_channels_behind_are_pooled_first_too():
    x = nn.Variable((2, 8, 6, 3))
    y = pooled(F.relu(x), channel_last=True)
    infer = nn.inference(y, [x])
    for shape in (x.shape, (5, 8, 6, 3), (2, 11, 9, 3)):
        values = RNG.standard_normal(shape).astype(np.float32)
        other = nn.Variable.from_numpy_array(values)
        expected = pooled(F.relu(other), channel_last=True)
        expected.forward()
        same(infer(values), expected.d)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats_are_pooled_first_too(dtype):
    with nn.context_scope(nn.get_extension_context("cpu", type_config={"float16": "half", "float64": "double"}[dtype])):
        x = nn.Variable((2, 3, 9, 9))
        values = RNG.standard_normal(x.shape).astype(np.float16).astype(dtype)
        x.d = values
        y = pooled(F.relu(x))
        y.forward()
        same(nn.inference(y, [x])(values), y.d)


def test_the_rectifier_runs_behind_the_pooling():
    x = nn.Variable((2, 3, 32, 32))
    assert ops_of(nn.inference(pooled(F.relu(x)), [x]), np.ones(x.shape, np.float32)) == ["MaxPooling+ReLU"]


def _of_a_falling_function(x):
    return [pooled(F.leaky_relu(x, -0.5))]


def _of_a_function_of_slope_0(x):
    return [pooled(F.leaky_relu(x, 0.0))]  # NaN of -inf, whatever stands beside it


def _read_by_others(x):
    h = F.relu(x)
    return [pooled(h), h * 2]


def _of_as_many_elements(x):
    return [pooled(F.relu(x), stride=(1, 1))]


def _of_rounded_values(x):
    return [pooled(F.tanh(x))]


@pytest.mark.parametrize(
    "written",
    [_of_a_falling_function, _of_a_function_of_slope_0, _read_by_others, _of_as_many_elements, _of_rounded_values],
)
def test_the_order_stays(written):
    x = nn.Variable((2, 3, 32, 32))
    values = RNG.standard_normal(x.shape).astype(np.float32)
    values[0, 0, 0, 0] = -np.inf
    x.d = values
    outputs = written(x)
    infer = nn.inference(outputs, [x])
    for output, result in zip(outputs, infer(values), strict=True):
        output.forward()
        np.testing.assert_allclose(result, output.d, rtol=1e-6, atol=1e-6)
    ops = ops_of(infer, values)
    assert not any(op.startswith("MaxPooling+") for op in ops), ops
