"""Slices and transposes that are only read become views, where that changes nothing."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F


@pytest.fixture
def x():
    return nn.Variable.from_numpy_array(
        np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32), need_grad=True
    )


def steps(value):
    return [step.name for step in value.plan.steps]


def test_rows_of_a_slice_are_read_where_they_are(x):
    h = F.exp(x)
    y = F.tanh(F.slice(h, start=(0, 0), stop=(8, 32))) * F.sigmoid(F.slice(h, start=(0, 32), stop=(8, 64)))
    y.forward()
    assert "Slice" not in steps(y)
    full = np.exp(x.d)
    np.testing.assert_allclose(y.d, np.tanh(full[:, :32]) / (1 + np.exp(-full[:, 32:])), rtol=1e-5)
    x.g = 0
    y.backward(np.ones(y.shape, np.float32))
    numeric = _numeric(lambda v: np.tanh(np.exp(v)[:, :32]) / (1 + np.exp(-np.exp(v)[:, 32:])), x.d.astype(np.float64))
    np.testing.assert_allclose(x.g, numeric, rtol=1e-3, atol=1e-5)


def _numeric(function, at):
    step, gradient = 1e-5, np.zeros_like(at)
    for place in np.ndindex(at.shape):
        change = np.zeros_like(at)
        change[place] = step
        gradient[place] = (function(at + change).sum() - function(at - change).sum()) / (2 * step)
    return gradient


@pytest.mark.parametrize(
    ("make", "same"),
    [
        (lambda v: F.transpose(v, (1, 0)), lambda a: a.T),
        (lambda v: F.flip(v, axes=(1,)), lambda a: a[:, ::-1]),
        (lambda v: F.slice(v, start=(6, 0), stop=(1, 64), step=(-2, 3)), lambda a: a[6:1:-2, ::3]),
        (lambda v: F.transpose(F.reshape(v, (8, 8, 8)), (2, 0, 1)), lambda a: a.reshape(8, 8, 8).transpose(2, 0, 1)),
    ],
    ids=["transpose", "flip", "slice", "of a reshape"],
)
def test_one_reader_reads_any_strides(x, make, same):
    y = F.tanh(make(F.exp(x)))
    y.forward()
    assert len(steps(y)) == 2 and not {"Transpose", "Flip", "Slice"}.intersection(steps(y))
    np.testing.assert_allclose(y.d, np.tanh(same(np.exp(x.d))), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "same"),
    [(F.sum, np.sum), (F.mean, np.mean), (F.max, np.max), (F.min, np.min), (F.prod, np.prod)],
    ids=["sum", "mean", "max", "min", "prod"],
)
@pytest.mark.parametrize(
    ("axes", "over"), [((2, 0, 1), 0), ((2, 0, 1), (1, 2)), ((0, 2, 1), 1), ((0, 2, 1), 2)], ids=str
)
def test_reductions_read_transposed_arrays_as_they_lie(x, function, same, axes, over):
    a = x.d.reshape(4, 8, 16)
    whole = nn.Variable.from_numpy_array(a)
    y = function(F.transpose(whole, axes), axis=over)
    y.forward()
    assert "Transpose" not in steps(y)
    np.testing.assert_allclose(y.d, same(a.transpose(axes), over), rtol=1e-5, atol=1e-5)


def test_places_of_maxima_are_those_of_the_transposed_array(x):
    a = np.round(x.d).reshape(4, 8, 16)  # with many equal ones
    for axes, over in (((2, 0, 1), 0), ((2, 1, 0), (0, 2)), ((1, 2, 0), (0, 1)), ((0, 2, 1), None)):
        whole = nn.Variable.from_numpy_array(a, need_grad=True)
        y = F.max(F.transpose(whole, axes), axis=over)
        y.forward()
        whole.g = 0
        y.backward(np.ones(y.shape, np.float32))
        turned = a.transpose(axes)
        reduced = range(3) if over is None else np.atleast_1d(over)
        rows = np.moveaxis(turned, tuple(reduced), tuple(range(-len(reduced), 0))).reshape(*y.shape, -1)
        one_hot = np.zeros_like(rows)
        np.put_along_axis(one_hot, rows.argmax(-1)[..., None], 1, -1)
        gradient = whole.g.transpose(axes)
        found = np.moveaxis(gradient, tuple(reduced), tuple(range(-len(reduced), 0))).reshape(rows.shape)
        np.testing.assert_array_equal(found, one_hot)


def test_what_is_held_is_made(x):
    part = F.slice(F.exp(x), start=(0, 0), stop=(8, 32))
    y = F.tanh(part)
    y.forward()
    assert "Slice" in steps(y)
    np.testing.assert_allclose(part.d, np.exp(x.d)[:, :32], rtol=1e-6)


def test_an_array_that_changes_before_the_reader_is_copied_first():
    mean, variance = (nn.Variable.from_numpy_array(np.full((1, 3), value, np.float32)) for value in (0, 1))
    one = nn.Variable.from_numpy_array(np.ones((1, 3), np.float32))
    rows = nn.Variable.from_numpy_array(np.arange(6, dtype=np.float32).reshape(2, 3))
    bounds = {"start": (0, 0), "stop": (1, 2)}
    normal = F.batch_normalization(rows, one * 0, one, mean, variance, decay_rate=0.5)
    y = F.slice(mean, **bounds) + F.slice(F.sum(normal, axis=0, keepdims=True), **bounds)
    y.forward()
    assert steps(y).count("Slice") == 1
    np.testing.assert_allclose(y.d, np.zeros((1, 2)), atol=1e-6)
    assert mean.d[0, 0] == 0.75


def test_a_transpose_that_moves_nothing_is_no_step(x):
    y = F.tanh(F.transpose(F.exp(x), (0, 1)))
    y.forward()
    assert "Transpose" not in steps(y)
    np.testing.assert_allclose(y.d, np.tanh(np.exp(x.d)), rtol=1e-5)
