"""Batches of arrays: order, the end of an epoch, targets."""

import numpy as np
import pytest

from atled.neon.data import ArrayIterator, NervanaDataIterator

X = np.arange(30.0).reshape(10, 3)
LABELS = np.arange(10) % 3


def test_batches_are_columns_with_targets_one_hot(be):
    x, t = next(iter(ArrayIterator(X, LABELS, nclass=3)))
    np.testing.assert_array_equal(x.get(), X[:4].T)
    np.testing.assert_array_equal(t.get(), np.eye(3)[LABELS[:4]].T)


def test_the_last_batch_is_filled_up_from_the_start_where_the_next_epoch_begins(be):
    data = ArrayIterator(X, LABELS, nclass=3)
    assert data.nbatches == 3
    first = [x.get() for x, _ in data]
    np.testing.assert_array_equal(first[2], X[[8, 9, 0, 1]].T)
    assert data.nbatches == 2
    np.testing.assert_array_equal(next(iter(data))[0].get(), X[2:6].T)
    data.reset()
    np.testing.assert_array_equal(next(iter(data))[0].get(), X[:4].T)


def test_fewer_examples_than_a_batch_are_repeated(be):
    data = ArrayIterator(X[:3])
    ((x, t),) = ((x.get(), t.get()) for x, t in data)
    np.testing.assert_array_equal(x, X[[0, 1, 2, 0]].T)
    np.testing.assert_array_equal(t, x)
    np.testing.assert_array_equal(next(iter(data))[0].get(), X[[1, 2, 0, 1]].T)


def test_targets_may_be_numbers(be):
    _, t = next(iter(ArrayIterator(X, X[:, :2] * 2, make_onehot=False)))
    np.testing.assert_array_equal(t.get(), X[:4, :2].T * 2)


def test_several_inputs_are_lists(be):
    data = ArrayIterator([X, X[:, :2]], LABELS, nclass=3, lshape=[(3, 1, 1), 2])
    assert data.shape == [(3, 1, 1), 2]
    (x, z), _ = next(iter(data))
    assert (x.shape, z.shape) == ((3, 4), (2, 4))


def test_steps_of_sequences_stand_behind_each_other(be):
    sequences = np.arange(60.0).reshape(10, 2, 3)
    x, _ = next(iter(ArrayIterator(sequences.reshape(10, 6), lshape=(2, 3))))
    np.testing.assert_array_equal(x.get(), sequences[:4].transpose(1, 2, 0).reshape(2, 12))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": X[:0]}, ValueError, "one at least"),
        ({"X": "text"}, TypeError, "type str"),
        ({"X": [X, X[:4]]}, ValueError, r"\[10, 3\], \[4, 3\]"),
        ({"X": X, "y": LABELS}, ValueError, "nclass is missing"),
        ({"X": X, "y": LABELS, "nclass": "3"}, ValueError, "nclass is of type str"),
        ({"X": X, "y": LABELS, "nclass": 2}, ValueError, "y has 2.* of 2 classes"),
        ({"X": X, "y": LABELS[:4], "nclass": 3}, ValueError, "4 examples, X has 10"),
        ({"X": X, "lshape": (2, 2)}, ValueError, "3 features"),
    ],
)
def test_data_that_does_not_fit_is_refused(cpu, arguments, error, message):
    with pytest.raises(error, match=message):
        ArrayIterator(**arguments)


def test_an_iterator_without_batches_says_so(cpu):
    with pytest.raises(NotImplementedError, match="define it in NervanaDataIterator"):
        iter(NervanaDataIterator())


def test_batches_follow_the_batch_size_of_the_backend(cpu):
    data = ArrayIterator(X, LABELS, nclass=3)
    cpu.bsz = 5
    assert [(x.shape, t.shape) for x, t in data] == [((3, 5), (3, 5))] * 2
    cpu.bsz = 0
    with pytest.raises(ValueError, match=r"(?s)of 0 examples.*batch_size"):
        ArrayIterator(X)


def test_an_iterator_of_ones_own_may_set_its_count_of_batches(be):
    own = NervanaDataIterator()
    own.ndata = 10
    assert own.nbatches == 3
    own.nbatches = 2
    assert own.nbatches == 2
