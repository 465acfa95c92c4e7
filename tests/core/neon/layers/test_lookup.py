"""Lookup tables."""

import numpy as np
import pytest
from tests.core.neon.layers.running import drawn, ready

import atled as nn
from atled.neon.layers import LookupTable

TABLE = np.random.default_rng(7).normal(size=(6, 3))
WORDS = np.array([[0, 5, 2, 2], [1, 5, 0, 3]])


def table(**keywords):
    return LookupTable(6, 3, TABLE, name="t", **keywords)


@pytest.mark.parametrize("shape", [(2, 4), (1, 8)])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_words_become_their_rows(be, shape, dtype):
    layer = ready(table(), 2)
    assert layer.out_shape == (3, 2)
    y = layer.fprop(be.array(WORDS.reshape(shape), dtype=dtype))
    np.testing.assert_allclose(y.get(), TABLE[WORDS.ravel()].T, rtol=1e-6)


def test_gradients_are_sums_per_word_of_the_last_step(be):
    layer = ready(table(), 2)
    layer.fprop(be.array(np.full((2, 4), 4)))
    layer.bprop(be.ones((3, 8)))
    layer.fprop(be.array(WORDS))
    error, expected = drawn(be, (3, 8)), np.zeros((6, 3))
    assert layer.bprop(error) is None
    np.add.at(expected, WORDS.ravel(), error.get().T)
    np.testing.assert_allclose(layer.dW.get(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_add_up(be):
    layer = ready(table(), 2, accumulate_updates=True)
    layer.set_acc_on(True)
    layer.fprop(be.array(WORDS))
    layer.bprop(be.ones((3, 8)))
    layer.bprop(be.ones((3, 8)))
    np.testing.assert_array_equal(layer.dW.get()[:, 0], [4, 2, 4, 2, 0, 4])


def test_the_row_of_padding_is_0_and_stays(be):
    layer = ready(table(pad_idx=5), 2)
    assert (layer.fprop(be.array(WORDS)).get()[:, [1, 5]] == 0).all()
    layer.bprop(be.ones((3, 8)))
    np.testing.assert_array_equal(layer.dW.get()[:, 0], [2, 1, 2, 1, 0, 0])


def test_without_update_there_is_no_gradient(be):
    layer = ready(table(update=False), 2)
    layer.fprop(be.array(WORDS))
    layer.bprop(be.ones((3, 8)))
    assert (layer.dW.get() == 0).all()


@pytest.mark.parametrize("word", [-1, 6])
def test_a_word_that_there_is_not_is_refused(be, word):
    layer = ready(table(), 2)
    layer.fprop(be.array(WORDS))
    before = layer.outputs.get()
    wrong = WORDS.copy()
    wrong[1, 1] = word
    with pytest.raises(IndexError, match=r"(?s)LookupTable 't'\.fprop.*6 rows.*from 0 to 5"):
        layer.fprop(be.array(wrong))
    np.testing.assert_array_equal(layer.outputs.get(), before)


@pytest.mark.parametrize("word", [1.5, np.nan])
def test_words_are_whole_numbers(be, word):
    layer, wrong = ready(table(), 2), WORDS.astype(np.float32)
    wrong[0, 0] = word
    with pytest.raises(IndexError, match=r"(?s)LookupTable 't'\.fprop.*whole numbers"):
        layer.fprop(be.array(wrong))
    assert (layer.inputs.get() == 0).all()


def test_what_does_not_fit_is_refused(cpu):
    with pytest.raises(IndexError, match=r"(?s)LookupTable 't' with pad_idx=6"):
        table(pad_idx=6)
    with pytest.raises(ValueError, match=r"(?s)LookupTable 't'\.fprop: inputs have shape \[3, 4\]"):
        ready(table(), 2).fprop(cpu.ones((3, 4)))
    with pytest.raises(TypeError, match=r"(?s)LookupTable 't'\.fprop"):
        ready(table(), 2).fprop(np.zeros((2, 4)))


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(table(), 2)
    layer.fprop(cpu.array(WORDS))
    layer.bprop(cpu.ones((3, 8)))
    assert nn.fallback_counts() == before
