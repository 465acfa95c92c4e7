"""Parts by index, as NumPy gives them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled.keras_backend as B
from atled_contexts import Context, context_scope

SHAPE = (3, 4, 2)
X = np.arange(24, dtype=np.float32).reshape(SHAPE)
REFERENCE = Context(["reference:float"])

bounds = st.none() | st.integers(-6, 6)
slices = st.builds(slice, bounds, bounds, st.none() | st.sampled_from([-2, -1, 1, 2]))
vectors = st.lists(st.integers(-2, 1), min_size=1, max_size=3).map(np.array)
entries = slices | st.integers(-2, 1) | vectors | st.none() | st.just(Ellipsis)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(entries, max_size=5).map(tuple), st.booleans())
def test_any_index_gives_what_numpy_gives(index, is_symbolic):
    try:
        expected = X[index]
    except IndexError:
        expected = None
    inputs, values, given = [], [], []
    for each in index:
        if isinstance(each, int | np.ndarray) and is_symbolic:
            values.append(np.asarray(each))
            inputs.append(B.placeholder(ndim=values[-1].ndim, dtype="int64"))
            each = inputs[-1]
        given.append(each)
    with context_scope(REFERENCE):
        if expected is None:
            with pytest.raises((IndexError, ValueError), match=r"operator|out of range"):
                _value(tuple(given), inputs, values)
        else:
            np.testing.assert_array_equal(_value(tuple(given), inputs, values), expected)


def _value(index, inputs, values):
    x = B.placeholder(ndim=3)
    expression = x[index]
    found = B.function([x, *inputs], expression)(X, *values)
    assert found.ndim == expression.ndim
    return found


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(-5, 5), st.integers(-5, 5))
def test_bounds_that_are_data_count_as_numpys(start, stop):
    x, low, high = B.placeholder(ndim=3), B.placeholder(ndim=0, dtype="int32"), B.placeholder(ndim=0, dtype="int32")
    with context_scope(REFERENCE):
        found = B.function([x, low, high], [x[low:high], x[:, low:], x[:high], x[low:high:-1]])(X, start, stop)
    for each, expected in zip(found, [X[start:stop], X[:, start:], X[:stop], X[start:stop:-1]], strict=True):
        np.testing.assert_array_equal(each, expected)


def test_batches_of_one_length_share_a_program(cpu):
    x, index = B.variable(X), B.placeholder(ndim=0, dtype="int32")
    f = B.function([index], B.sum(x[index : index + 2]))
    found = [float(f(start)) for start in range(2)]
    assert found == [X[:2].sum(), X[1:].sum()]


@pytest.mark.parametrize(
    "part",
    [
        lambda x, t: x[t : t + 2],
        lambda x, t: x[1 + t, ::2],
        lambda x, t: x[t : t + 1, 3 - t : 4 - t],
        lambda x, t: x[t * 1 : (t + 1) * 1, :, 0],
    ],
)
def test_windows_move_with_the_steps_of_a_loop(backend, part):
    x = B.placeholder(ndim=3)
    rows, _ = B.scan(lambda t, whole: part(whole, t), sequences=[B.arange(2)], non_sequences=[x])
    np.testing.assert_array_equal(B.function([x], rows)(X), np.stack([part(X, t) for t in range(2)]))


def test_a_window_of_a_loop_does_not_move_beyond_the_end(cpu):
    x = B.placeholder(ndim=3)
    rows, _ = B.scan(lambda t: x[t : t + 2], sequences=[B.arange(3)])
    with pytest.raises(IndexError, match="out of range"):
        B.function([x], rows)(X)


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (np.s_[0, 0, 0, 0], IndexError, "there are 4 indices"),
        (np.s_[..., ...], IndexError, "two Ellipses"),
        (1.5, TypeError, "a value of float32 is no index"),
        (True, TypeError, "a value of bool is no index"),
        (X > 3, TypeError, "a value of bool is no index"),
        (slice(0.5, None), TypeError, "0.5 is no whole number"),
    ],
)
def test_what_is_no_index_is_refused_where_it_is_written(index, error, text):
    with pytest.raises(error, match=text):
        B.placeholder(ndim=3)[index]


def test_an_index_out_of_range_is_refused_at_the_call(backend):
    x, index = B.placeholder(ndim=3), B.placeholder(ndim=1, dtype="int32")
    with pytest.raises(IndexError, match=r"(?s)written at .*test_indexing.*index 3 is out of range.*-3 to 2"):
        B.function([x], x[3])(X)
    with pytest.raises(IndexError):
        B.function([x, index], x[index])(X, [0, 3])
    with pytest.raises(ValueError, match="the step of a slice is 0"):
        B.function([x], x[::0])(X)
