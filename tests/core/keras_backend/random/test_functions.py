"""Functions that draw: moments, dtypes, generators."""

import numpy as np
import pytest

import atled.keras_backend as B
from atled.keras_backend.random.streams import RandomStreams

SHAPE = 1000, 1000


def test_uniform_numbers_have_their_moments(cpu):
    found = B.eval(B.random_uniform(SHAPE, minval=-1.0, maxval=3.0, rng=B.make_rng(7)))
    assert (found.dtype, found.shape) == (np.float32, SHAPE)
    assert abs(found.mean() - 1) < 0.01
    assert abs(found.std() - 4 / np.sqrt(12)) < 0.01
    assert -1 < found.min() < -0.999
    assert 2.999 < found.max() < 3


def test_normal_numbers_have_their_moments(cpu):
    found = B.eval(B.random_normal(SHAPE, mean=0.5, stddev=2.0, rng=B.make_rng(7)))
    assert abs(found.mean() - 0.5) < 0.01
    assert abs(found.std() - 2) < 0.01


def test_binomial_numbers_have_their_moments(cpu):
    found = B.eval(B.random_binomial(SHAPE, p=0.3, rng=B.make_rng(7)))
    assert found.dtype == np.float32
    assert set(np.unique(found)) == {0.0, 1.0}
    assert abs(found.mean() - 0.3) < 0.01


@pytest.mark.parametrize("draw", [B.random_uniform, B.random_normal, B.random_binomial])
def test_dtypes_are_those_of_the_settings_unless_given(cpu, draw):
    assert draw((2, 3)).dtype == "float32"
    assert draw((2, 3), dtype="float64").dtype == "float64"
    with B.settings(floatx="float64"):
        assert draw((2, 3)).dtype == "float64"


@pytest.mark.parametrize("draw", [B.random_uniform, B.random_normal, B.random_binomial])
def test_a_shape_may_be_that_of_an_expression(backend, draw):
    x = B.placeholder(ndim=2)
    f = B.function([x], draw(x.shape, rng=B.make_rng(3)))
    assert f(np.zeros((4, 2))).shape == (4, 2)
    assert f(np.zeros((1, 7))).shape == (1, 7)


def test_a_generator_is_seeded_by_numpy_unless_told(cpu):
    np.random.seed(5)
    wanted = np.random.randint(1, 10_000_000)
    np.random.seed(5)
    rng = B.make_rng()
    assert isinstance(rng, RandomStreams)
    np.testing.assert_array_equal(rng.rstate, [wanted] * 6)
    np.testing.assert_array_equal(B.make_rng([1, 2, 3, 4, 5, 6]).rstate, [1, 2, 3, 4, 5, 6])
