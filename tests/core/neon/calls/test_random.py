"""Draws are those of a numpy RandomState, bit for bit."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend


def test_the_generator_is_that_of_the_seed(be):
    expected = np.random.RandomState(5).uniform(size=3)
    assert be.gen_rng(5) is be.rng
    np.testing.assert_array_equal(be.rng.uniform(size=3), expected)
    assert be.gen_rng(seed=None) is be.rng


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_masks_are_draws_of_it(be, dtype):
    out = be.zeros((3, 5), dtype=dtype)
    assert be.make_binary_mask(out, keepthresh=0.3) is out
    expected = np.random.RandomState(1).uniform(size=(3, 5)) < 0.3
    np.testing.assert_array_equal(out.get(), expected)


def test_normal_numbers_are_draws_of_it(be):
    out = be.zeros((3, 5))
    assert be.fill_normal(out, mean=2, stdv=0.5) is out
    expected = np.random.RandomState(1).normal(2, 0.5, (3, 5)).astype(np.float32)
    np.testing.assert_array_equal(out.get(), expected)


def test_views_are_filled_and_what_is_around_stays(be):
    whole = be.zeros((4, 6))
    be.make_binary_mask(whole[1:3, ::2], 1.0)
    expected = np.zeros((4, 6))
    expected[1:3, ::2] = 1
    np.testing.assert_array_equal(whole.get(), expected)


def test_reset_draws_again(cpu):
    out = cpu.zeros((3, 4))
    first = cpu.make_binary_mask(out).get()
    cpu.make_binary_mask(out)
    cpu.rng_reset()
    np.testing.assert_array_equal(cpu.make_binary_mask(out).get(), first)


@pytest.mark.parametrize("get", [lambda be: be.rng_get_state(), lambda be: be.rng_get_state(None)])
def test_a_state_is_drawn_from_again(cpu, get):
    cpu.rng.uniform(size=3)
    state = get(cpu)
    first = cpu.rng.uniform(size=3)
    for given in (state, [state, None], (state, [])):
        cpu.rng_set_state(given)
        np.testing.assert_array_equal(cpu.rng.uniform(size=3), first)


@pytest.mark.parametrize("state", [None, 3, (), ("MT19937", [1, 2], 0), "state"])
def test_what_is_no_state_is_refused_and_the_generator_stays(cpu, state):
    with pytest.raises(ValueError, match="give what rng_get_state returned"):
        cpu.rng_set_state(state)
    np.testing.assert_array_equal(cpu.rng.uniform(size=2), np.random.RandomState(1).uniform(size=2))


@pytest.mark.parametrize("seed", [-1, 2**40, 1.5, "one"])
def test_what_is_no_seed_is_refused(cpu, seed):
    before = cpu.rng
    with pytest.raises(ValueError, match="a generator with seed"):
        cpu.gen_rng(seed)
    assert cpu.rng is before


def test_nothing_is_drawn_for_what_cannot_be_filled(cpu):
    other = type(cpu)().zeros((2, 2))
    with pytest.raises(TypeError, match="no tensor"):
        cpu.make_binary_mask(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="another backend"):
        cpu.fill_normal(other)
    mine = cpu.zeros((2, 2))
    with pytest.raises(ValueError, match="NaN"):
        cpu.make_binary_mask(mine, float("nan"))
    with pytest.warns(match="it is a copy"):
        copied = cpu.zeros((4, 6))[:, :3].reshape(2, 6)
    with pytest.raises(ValueError, match="assignment to"):
        cpu.make_binary_mask(copied)
    with pytest.raises(TypeError, match="keepthresh is of type str"):
        cpu.make_binary_mask(mine, "half")
    with pytest.raises(ValueError, match="stdv is -1"):
        cpu.fill_normal(mine, stdv=-1)
    np.testing.assert_array_equal(cpu.rng.uniform(size=2), np.random.RandomState(1).uniform(size=2))
    cleanup_backend()
    with pytest.raises(ValueError, match="was cleaned up"):
        cpu.make_binary_mask(mine)
