"""Kernels of TopNError, ConfusionMatrix, VATNoise, Constant and Sink: any axis, shares, NaN, labels out of range."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.ops.spec import SPECS
from atled_cpu_numba.kernels import filling, noise, scores

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("shape", "axis"), [((37, 50), 1), ((3, 5, 7), 1), ((4, 6), 0)])
def test_errors_are_counted_along_any_axis(run, parts, shape, axis):
    x = RNG.integers(0, 6, shape).astype(np.float32)  # with ties
    single = tuple(1 if i == axis else n for i, n in enumerate(shape))
    target = RNG.integers(0, shape[axis], single)
    y = np.full(single, np.nan, np.float32)
    assert run(scores, "TopNError", (x, target), [y], parts=parts, axis=axis, n=2) == 0
    np.testing.assert_array_equal(y, SPECS["TopNError"].reference(x, target, axis=axis, n=2))


def test_the_first_maximum_counts_and_the_first_nan_before_it(run):
    x = RNG.integers(0, 3, (200, 5)).astype(np.float64)
    x[RNG.random(x.shape) < 0.1] = np.nan
    target = RNG.integers(0, 5, (200, 1))
    counts = np.full((5, 5), -1, np.int32)
    assert run(scores, "ConfusionMatrix", (x, target), [counts], axis=1) == 0
    np.testing.assert_array_equal(counts, SPECS["ConfusionMatrix"].reference(x, target, axis=1))


@pytest.mark.parametrize("function", [F.top_n_error, F.confusion_matrix])
@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_out_of_range_is_an_error(function, label):
    x, target = (nn.NdArray.from_numpy_array(a) for a in (np.zeros((3, 4), np.float32), np.array([[0], [label], [1]])))
    with nn.context_scope(nn.Context(["cpu:float"])), pytest.raises(IndexError, match="out of range"):
        function(x, target)


def test_noise_of_any_size_gets_one_length(run, parts):
    x = (RNG.standard_normal((9, 4, 13)) * np.logspace(-15, 30, 9)[:, None, None]).astype(np.float32)
    y = np.empty_like(x)
    assert run(noise, "VATNoise", (x, x), [y], parts=parts, floats={"eps": 2.5}, base_axis=1) == 0
    np.testing.assert_allclose(y, SPECS["VATNoise"].reference(x, x, base_axis=1, eps=2.5), rtol=1e-6)


def test_a_constant_fills_everything(run, parts):
    y = np.empty((7, 11), np.float32)
    assert run(filling, "Constant", (), [y], parts=parts, floats={"val": 0.1}, shape=(7, 11)) == 0
    assert (y == np.float32(0.1)).all()


def test_a_sink_is_0_whatever_goes_in(run):
    y = np.ones((), np.float64)
    assert run(filling, "Sink", (np.ones(3, np.float32), np.arange(3)), [y], one_input_grad=True) == 0
    assert y == 0
