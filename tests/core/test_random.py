"""Random functions in the front end: random states, seeds, and masks that backward uses again."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F
from atled.ops import philox

pytestmark = pytest.mark.usefixtures("backend")

DRAWS = {
    "rand": lambda seed: F.rand(shape=(50,), seed=seed),
    "randn": lambda seed: F.randn(shape=(50,), seed=seed),
    "randint": lambda seed: F.randint(0, 10_000, shape=(50,), seed=seed),
    "dropout": lambda seed: F.dropout(nn.Variable.from_numpy_array(np.ones(50, np.float32)), seed=seed),
}


def forward(y: nn.Variable) -> np.ndarray:
    y.forward()
    return y.d.copy()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_each_forward_continues_the_stream(draw):
    y = draw(7)
    assert (forward(y) != forward(y)).any()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_two_functions_with_one_seed_agree(draw):
    first, second = draw(7), draw(7)
    for _ in range(3):
        assert_array_equal(forward(first), forward(second))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_other_seeds_draw_otherwise(draw):
    assert (forward(draw(7)) != forward(draw(8))).any()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_seed_minus_one_is_fresh_entropy(draw):
    assert (forward(draw(-1)) != forward(draw(-1))).any()


def test_the_stream_is_the_one_that_is_written_down():
    y = F.rand(-1, 3, (10,), 42)
    for count in range(3):
        expected = -1 + 4 * philox.uniform(np.array([42, count]), (10,))
        assert_array_equal(forward(y), expected.astype(np.float32))


def test_a_stream_belongs_to_one_function_in_one_plan():
    x = nn.Variable.from_numpy_array(np.ones(50, np.float32))
    y = F.concatenate(F.dropout(x, seed=3), F.dropout(x, seed=3), F.dropout(x, seed=4), axis=0)
    a, b, c = forward(y).reshape(3, 50)
    assert_array_equal(a, b)
    assert (a != c).any()


def test_forward_on_a_part_advances_the_stream_for_the_whole():
    x = nn.Variable.from_numpy_array(np.ones(50, np.float32))
    h = F.dropout(x, seed=3)
    y = h * 1
    other = F.dropout(x, seed=3)
    assert_array_equal(forward(h), forward(other))
    assert_array_equal(forward(y), forward(other))
    assert_array_equal(forward(h), forward(other))


def test_the_mask_is_drawn_at_each_forward_and_used_by_backward():
    x = nn.Variable.from_numpy_array(np.ones(100, np.float32), need_grad=True)
    y = F.dropout(x, p=0.25)
    for _ in range(3):
        y.forward()
        mask = y.d.copy()
        x.grad.zero()
        y.backward()
        y.backward()
        assert_array_equal(x.g, 2 * mask)
    assert set(np.unique(mask)) == {0, np.float32(4 / 3)}


def test_dropout_of_probability_zero_keeps_everything():
    y = F.dropout(nn.Variable.from_numpy_array(np.ones(50, np.float32)), p=0)
    assert (forward(y) == 1).all()


@pytest.mark.parametrize("p", [1, -0.1, 1.5, float("nan")])
def test_dropout_refuses_a_probability_out_of_range(p):
    with pytest.raises(ValueError, match="out of range"):
        F.dropout(nn.Variable((2,)), p=p)


def test_calls_on_arrays_draw_anew():
    a = nn.NdArray.from_numpy_array(np.ones(50, np.float32))
    assert (F.dropout(a).data != F.dropout(a).data).any()
    assert_array_equal(F.dropout(a, seed=5).data, F.dropout(a, seed=5).data)


def test_randint_gives_whole_numbers_in_its_range():
    y = F.randint(-2, 3, (1000,), 1)
    values = forward(y)
    assert values.dtype == np.int32
    assert set(np.unique(values)) == {-2, -1, 0, 1, 2}


def test_a_source_of_numbers_gives_a_variable_and_nothing_before_forward():
    y = F.rand(shape=(3,))
    assert isinstance(y, nn.Variable)
    assert not y.d.any()
    y.forward()
    assert y.d.any()
