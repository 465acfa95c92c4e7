"""Windows against NumPy's own strides."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atled.array_desc import ArrayDesc
from atled.strides import (
    Window,
    bounds,
    broadcast_to,
    diagonal,
    elements,
    index,
    is_contiguous,
    is_injective,
    leaves,
    overlap,
    reshape,
    transpose,
    whole,
)

SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


def base_of(shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def keys(shape):
    bound = st.one_of(st.none(), st.integers(-6, 6))
    step = st.integers(-3, 3).filter(bool)
    one = [
        st.one_of(st.builds(slice, bound, bound, step), *([st.integers(-n, n - 1)] if n else []), st.just(slice(None)))
        for n in shape
    ]
    return st.tuples(*one)


@st.composite
def walked(draw):
    """A window and NumPy's view, after some steps."""
    shape = draw(SHAPES)
    window, view = whole(shape), base_of(shape)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["index", "transpose", "new axis", "diagonal", "broadcast"]))
        if kind == "index":
            key = draw(keys(view.shape))
            window, view = index(window, key), view[key]
        elif kind == "transpose":
            axes = draw(st.permutations(range(view.ndim)))
            window, view = transpose(window, axes), view.transpose(axes)
        elif kind == "new axis":
            window, view = index(window, (..., None)), view[..., None]
        elif kind == "diagonal" and view.ndim > 1:
            offset = draw(st.integers(-3, 3))
            window, view = diagonal(window, offset, -1, 0), view.diagonal(offset, -1, 0)
        elif kind == "broadcast" and view.ndim < 4:
            wanted = (2, *(3 if n == 1 else n for n in view.shape))
            window, view = broadcast_to(window, wanted), np.broadcast_to(view, wanted)
        view = np.asarray(view)
    return window, view


@settings(max_examples=150, deadline=None)
@given(walked())
def test_views_of_views_name_the_elements_that_numpy_does(pair):
    window, view = pair
    assert window.shape == view.shape
    np.testing.assert_array_equal(elements(window), view)
    if view.size:
        assert bounds(window) == (view.min(), view.max() + 1)
        assert leaves(window, view.max()) and not leaves(window, view.max() + 1)
    assert is_injective(window) == (len(np.unique(view)) == view.size)
    assert is_contiguous(window) == view.flags.c_contiguous


@settings(max_examples=150, deadline=None)
@given(walked(), st.data())
def test_a_reshape_is_a_view_where_numpy_makes_one(pair, data):
    window, view = pair
    factors = [n for n in view.shape for n in ((2, 2) if n == 4 else (n,))]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(factors)))) | {0, len(factors)})
    shape = [int(np.prod(factors[a:b])) for a, b in itertools.pairwise(cuts)]
    shape.insert(data.draw(st.integers(0, len(shape))), 1)
    made = reshape(window, shape)
    copied = view.reshape(shape)
    is_view = view.size == 0 or np.shares_memory(copied, view)
    assert (made is not None) == is_view
    if made is not None:
        np.testing.assert_array_equal(elements(made), copied)


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.data())
def test_windows_overlap_where_they_share_an_element(shape, data):
    one, other = (index(whole(shape), data.draw(keys(shape))) for _ in range(2))
    assert overlap(one, other) == bool(np.intersect1d(elements(one), elements(other)).size)


def test_what_is_dear_to_compare_counts_as_an_overlap():
    shape = (101, 97, 89, 83, 79, 73)
    one = Window(shape, (100003, 90001, 80021, 70001, 60013, 2), 0)
    other = Window(shape, (100003, 90001, 80021, 70001, 60013, 2), 1)
    assert overlap(one, other)


@pytest.mark.parametrize("key", [(0, 0, 0), 3, (slice(None), -4), 1.5, (..., ...)])
def test_a_wrong_index_is_an_index_error(key):
    with pytest.raises(IndexError, match=r"a view \["):
        index(whole((2, 3)), key)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: transpose(x, (0, 0)),
        lambda x: reshape(x, (4, -1)),
        lambda x: broadcast_to(x, (3, 3)),
        lambda x: diagonal(x, 0, 0, 2),
        lambda x: ArrayDesc(x.shape, np.float32, (1,)),
    ],
)
def test_a_window_that_cannot_be_is_a_value_error(make):
    with pytest.raises(ValueError, match="shape"):
        make(whole((2, 3)))


def test_strides_are_part_of_a_description():
    plain = ArrayDesc((2, 3), np.float32)
    assert ArrayDesc((2, 3), np.float32, (3, 1)) == plain and plain.is_contiguous
    assert ArrayDesc((1, 3), np.float32, (7, 1)).strides is None
    assert ArrayDesc((0, 3), np.float32, (1, 9)).strides is None
    turned = ArrayDesc((2, 3), np.float32, (1, 2))
    assert turned != plain and hash(turned) != hash(plain) and not turned.is_contiguous
    assert turned.contiguous == plain and turned.astype(np.float32) == plain
    assert turned.written_strides == (1, 2) and plain.written_strides == (3, 1)
