"""Views of tensors, against NumPy's."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atled.neon.backends import cleanup_backend, gen_backend


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (np.s_[1], np.s_[1:2]),
        (np.s_[-1], np.s_[2:]),
        (np.s_[:, 1], np.s_[:, 1:2]),
        (np.s_[0, -4], np.s_[0:1, 0:1]),
        (np.s_[::-1, 3::-2], np.s_[::-1, 3::-2]),
        (np.s_[..., 2], np.s_[:, 2:3]),
        (np.s_[np.int32(2), ...], np.s_[2:3]),
        (np.s_[1:1], np.s_[1:1]),
        (np.s_[5:, -9:9], np.s_[5:, -9:9]),
        (np.s_[...], np.s_[...]),
    ],
    ids=str,
)
def test_of_two_axes_an_index_keeps_both(cpu, index, expected):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(cpu.array(values)[index].get(), values[expected], strict=True)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (np.s_[1], np.s_[1]),
        (np.s_[:, 1], np.s_[:, 1]),
        (np.s_[..., 0], np.s_[..., 0]),
        (np.s_[0, :, 2], np.s_[0, :, 2:3]),
        (np.s_[0, 1], np.s_[0, 1:2]),
        (np.s_[1, 2, 3], np.s_[1, 2:3, 3:4]),
        (np.s_[0:1], np.s_[0:1]),
    ],
    ids=str,
)
def test_above_two_axes_those_of_integers_go_until_there_are_two(cpu, index, expected):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(cpu.array(values)[index].get(), values[expected], strict=True)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (3, "3 is out of range for axis 0, which has 3"),
        ((0, -5), "-5 is out of range for axis 1"),
        ((0, 0, 0), "there are 2 axes"),
        ((..., 0, ...), "at most one `...`"),
        (1.0, "1.0 is no integer"),
        (True, "is a truth value"),
        (np.True_, "is a truth value"),
        (None, "None is no integer"),
        ([0, 1], "no integer, slice"),
        (np.array([True, False, True]), "is a truth value"),
        (slice(0.0, 2), "is no slice of an axis"),
        (slice(None, None, 0), "step cannot be zero"),
        ("x", "'x' is no integer"),
    ],
    ids=repr,
)
def test_what_names_no_view_is_an_index_error(cpu, index, message):
    x = cpu.zeros((3, 4))
    with pytest.raises(IndexError, match=message):
        x[index]
    with pytest.raises(IndexError, match=message):
        x[index] = 1
    assert not x.get().any()


def test_all_of_a_tensor_is_itself(cpu):
    x = cpu.zeros((3, 4))
    assert x[:] is x and x.T[:] is not x


def test_rows_are_views_in_a_loop(cpu):
    x = cpu.array(np.arange(6).reshape(3, 2))
    assert [row.get().tolist() for row in x] == [[[0, 1]], [[2, 3]], [[4, 5]]]


def test_views_do_not_keep_arrays_alive_in_a_circle(cpu):
    x = cpu.zeros((3, 4))
    views = [x[:, 1:], x.T, x.reshape(4, 3), x[1].T[:2], x.share(6)]
    cell = weakref.ref(x.view.cell)
    gc.disable()
    try:
        del x, views
        assert cell() is None
    finally:
        gc.enable()


def random_index(draw, shape):
    """An index of some first axes of a shape, and the same with slices in the place of integers."""
    index, kept = [], []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        item = draw(st.slices(size))
        if size and draw(st.booleans()):
            item = draw(st.integers(-size, size - 1))
        index.append(item)
        kept.append(slice(item, item + 1 or None) if isinstance(item, int) else item)
    return tuple(index), tuple(kept)


def random_view(draw, x, values):
    """A view of views of a tensor, and that of an array."""
    for step in draw(st.lists(st.sampled_from(("index", "T", "reshape")), min_size=1, max_size=4)):
        if step == "T":
            x, values = x.T, values.T
        elif step == "index":
            index, kept = random_index(draw, values.shape)
            x, values = x[index], values[kept]
        elif x.is_contiguous and values.size:
            shape = draw(st.sampled_from([(-1, n) for n in (1, 2, 5, 7) if values.size % n == 0]))
            x, values = x.reshape(shape), values.reshape(shape)
    return x, values


@pytest.mark.parametrize("backend", ["cpu", "sim", "reference"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_views_of_views_are_operands_and_targets(backend, data):
    be = gen_backend(backend)
    dtype = data.draw(st.sampled_from((np.float32, np.int32, np.uint8)))
    expected = np.arange(35, dtype=dtype).reshape(5, 7)
    x = be.array(expected, dtype=dtype)
    if data.draw(st.booleans()):
        x[:] = x + 0  # a device has it from now on
    view, part = random_view(data.draw, x, expected)
    np.testing.assert_array_equal(view.get(), part, strict=True)
    if data.draw(st.booleans()):
        view[:] = view * 2 + 1
        part[:] = part * 2 + 1
    else:
        view[::-1] = view
        part[::-1] = part.copy()
    np.testing.assert_array_equal(x.get(), expected)
    cleanup_backend()
