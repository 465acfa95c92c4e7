"""Errors of words are added up in the rows of their table."""

import numpy as np
import pytest

ROWS, WIDTH, COUNT = 7, 3, 10
WORDS = np.array([[1, 4, 1, 0, 6, 6, 6, 2, 1, 0]], np.int32)


def made(be):
    rng = np.random.default_rng(0)
    table, error = rng.standard_normal((ROWS, WIDTH)), rng.standard_normal((WIDTH, COUNT))
    words = be.array(WORDS, dtype=np.int32)
    return words, be.array(error), be.zeros((COUNT, WIDTH)), be.array(table)


@pytest.mark.parametrize("pad_idx", [None, 6, 5])
@pytest.mark.parametrize("alpha, beta", [(1.0, 0), (0.5, 0), (2.0, 0.25)])
def test_rows_of_words_get_their_errors_and_others_stay(be, pad_idx, alpha, beta):
    words, error, scratch, table = made(be)
    wanted = table.get()
    for word in set(WORDS[0].tolist()) - {pad_idx}:
        wanted[word] = beta * wanted[word] + alpha * error.get()[:, WORDS[0] == word].sum(1)
    be.compound_bprop_lut(COUNT, words, error, scratch, table, pad_idx, alpha=alpha, beta=beta)
    np.testing.assert_allclose(table.get(), wanted, rtol=1e-5, atol=1e-6)


def test_views_are_read_and_written(be):
    words, error, scratch, table = made(be)
    wide = be.array(np.zeros((WIDTH, 2 * COUNT)))
    wide[:, ::2] = error
    target = be.zeros((2 * ROWS, WIDTH))
    be.compound_bprop_lut(COUNT, words, wide[:, ::2], None, target[::2], None)
    be.compound_bprop_lut(COUNT, words, error, scratch, table, None)
    occurs = np.isin(np.arange(ROWS), WORDS)
    np.testing.assert_allclose(target.get()[::2][occurs], table.get()[occurs], rtol=1e-6)
    np.testing.assert_array_equal(target.get()[1::2], 0)


@pytest.mark.parametrize("word", [-1, ROWS])
def test_words_from_outside_of_the_table_are_refused_and_nothing_written(be, word):
    words, error, scratch, table = made(be)
    before = table.get()
    words[:, 3] = word
    with pytest.raises(IndexError, match="out of range"):
        be.compound_bprop_lut(COUNT, words, error, scratch, table, None)
    np.testing.assert_array_equal(table.get(), before)


def test_other_shapes_are_refused(cpu):
    words, error, scratch, table = made(cpu)
    with pytest.raises(ValueError, match="inputs has shape"):
        cpu.compound_bprop_lut(COUNT + 1, words, error, scratch, table, None)
    with pytest.raises(ValueError, match="error has shape"):
        cpu.compound_bprop_lut(COUNT, words, error.T, scratch, table, None)
