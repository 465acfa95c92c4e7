"""What tensors are made to hold: numbers, arrays and other tensors, cast as NumPy casts."""

import warnings

import numpy as np
import pytest

from atled.keyed import Description
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.backends.nervanacpu import NervanaCPU
from atled_contexts import trace

VIEWS = {
    "all": np.s_[:],
    "rows": np.s_[1:3],
    "steps": np.s_[::-2, 1::2],
    "column": np.s_[:, 2],
    "nothing": np.s_[1:1],
}
DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32]


def on_device(be, x):
    """Have a backend compute on a tensor, so that a device has its values."""
    x[:] = x + 0
    return x


def part_of(x, index):
    """The part of an array that a view of a tensor has."""
    return x[tuple(slice(each, each + 1) if isinstance(each, int) else each for each in np.index_exp[index])]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "value", [2, -1.5, np.float64(0.1), np.float32(3), np.array(4.0), True, float("nan")], ids=repr
)
def test_a_number_is_for_all_elements(be, view, value):
    expected = np.arange(20, dtype=np.float32).reshape(4, 5)
    x = on_device(be, be.array(expected))
    x[VIEWS[view]] = value
    part_of(expected, VIEWS[view])[:] = value
    np.testing.assert_array_equal(x.get(), expected)


@pytest.mark.parametrize("view", VIEWS)
def test_an_array_of_the_same_shape_is_cast(be, view):
    expected = np.arange(20, dtype=np.float32).reshape(4, 5)
    x = on_device(be, be.array(expected))
    part = part_of(expected, VIEWS[view])
    values = np.random.default_rng(1).normal(size=part.shape)
    x[VIEWS[view]] = values
    part[:] = values
    np.testing.assert_array_equal(x.get(), expected)


@pytest.mark.parametrize("view", VIEWS)
def test_the_values_of_a_tensor_are_those_before_the_assignment(be, view):
    expected = np.arange(20, dtype=np.float32).reshape(4, 5)
    x = on_device(be, be.array(expected))
    part = part_of(expected, VIEWS[view])
    x[VIEWS[view]] = x[VIEWS[view]][::-1, ::-1]
    part[:] = part[::-1, ::-1].copy()
    np.testing.assert_array_equal(x.get(), expected)


@pytest.mark.parametrize("size", [6, 300])
def test_shifted_over_itself_a_tensor_moves(be, size):
    expected = np.random.default_rng(1).normal(size=(size, size)).astype(np.float32)
    x = on_device(be, be.array(expected))
    x[1:, 1:] = x[:-1, :-1]
    expected[1:, 1:] = expected[:-1, :-1].copy()
    np.testing.assert_array_equal(x.get(), expected)


@pytest.mark.parametrize("given", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_arrays_and_tensors_of_all_dtypes_are_cast_as_by_numpy(be, dtype, given):
    values = np.array([[0, 1.75, 100], [3, 7, 120]]).astype(given)
    for source in (values, be.array(values, dtype=given)):
        x = be.zeros((2, 3), dtype=dtype)
        x[:] = source
        np.testing.assert_array_equal(x.get(), values.astype(dtype), strict=True)


def test_tensors_broadcast(be):
    x = be.zeros((3, 4))
    x[:] = be.array([1, 2, 3])
    x[:, ::2] = be.array([[5, 6]])
    assert x.get().tolist() == [[5, 1, 6, 1], [5, 2, 6, 2], [5, 3, 6, 3]]


@pytest.mark.parametrize("shape", [(12,), (3, 4), (1, 1, 3, 4)])
def test_an_array_of_fewer_axes_has_the_elements_in_order(cpu, shape):
    x = cpu.zeros((3, 4))
    assert x.set(np.arange(12).reshape(shape)) is x
    assert x.get().ravel().tolist() == list(range(12))


def test_fewer_axes_than_a_tensor_of_more_than_two_are_enough(cpu):
    x = cpu.zeros((2, 3, 4))
    x[:] = np.arange(24).reshape(6, 4)
    assert x.get().ravel().tolist() == list(range(24))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[1, 2], [3, 4]], TypeError, "list is no number, array"),
        ((1, 2), TypeError, "tuple is no number"),
        (None, TypeError, "NoneType is no number"),
        ("1", TypeError, "str is no number"),
        (1j, TypeError, "complex is no number"),
        (np.array([["1", "2"], ["3", "4"]]), TypeError, "an array of <U1"),
        (np.ones((2, 2), complex), TypeError, "an array of complex128"),
        (np.ones((2, 2), object), TypeError, "an array of object"),
        (np.ones((2, 1)), ValueError, "it has 2 elements, of 4"),
        (np.ones(3), ValueError, "it has 3 elements, of 4"),
        (np.ones((1, 4)), ValueError, "other sizes"),
        (np.ones((2, 2, 1)), ValueError, "other sizes"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_and_the_tensor_stays(be, value, error, message):
    x = be.array([[1, 2], [3, 4]])
    with pytest.raises(error, match=message):
        x[:] = value
    assert x.get().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("value", [300, -200, float("inf"), float("nan"), 10**30])
def test_a_number_that_integers_do_not_hold_is_refused_as_by_numpy(be, value):
    x = on_device(be, be.array([[1, 2], [3, 4]], dtype=np.int8))
    expected = np.zeros((2, 2), np.int8)
    with pytest.raises((OverflowError, ValueError)) as numpys:
        expected[:] = value
    with pytest.raises(type(numpys.value), match="assign a number that the dtype holds"):
        x[:] = value
    assert x.get().tolist() == [[1, 2], [3, 4]]


def test_a_tensor_that_does_not_broadcast_is_refused(be):
    x = be.zeros((3, 4))
    for shape in ((4, 3), (3, 2), (1, 3, 4)):
        with pytest.raises(ValueError, match="does not broadcast to"):
            x[:] = be.ones(shape)
    assert not x.get().any()


def test_a_tensor_of_another_backend_is_refused(cpu):
    x = cpu.zeros((2, 2))
    with pytest.raises(ValueError, match=r"of different backends.*x.get\(\)|different backends"):
        x[:] = NervanaCPU().ones((2, 2))
    assert not x.get().any()


@pytest.mark.parametrize("value", ["number", "array", "tensor", "tree"])
def test_nothing_is_assigned_after_its_backend_was_cleaned_up(cpu, value):
    x = cpu.zeros((2, 2))
    cleanup_backend()
    given = {"number": 1, "array": np.ones((2, 2)), "tensor": x.T, "tree": x + 1}[value]
    with pytest.raises(ValueError, match="its backend was cleaned up"):
        x[:] = given
    assert not x.get().any()


def test_nothing_is_assigned_to_a_copy_that_stands_for_a_view(cpu):
    x = cpu.zeros((3, 4))
    with pytest.warns(UserWarning, match="it is a copy"):
        flat = x.T.reshape(12)
    for target in (flat, flat[2:], flat.T):
        for value in (1, np.ones(target.shape), target, target + 1):
            with pytest.raises(ValueError, match="it is a copy: no view of"):
                target[:] = value
    assert not flat.get().any()


@pytest.mark.parametrize(
    "call",
    [
        lambda be, x, out: be.tanh(x, out=out),
        lambda be, x, out: be.compound_dot(x, be.ones((4, 4)), out),
        lambda be, x, out: be.add_fc_bias(out, be.ones((3, 1))),
        lambda be, x, out: be.make_binary_mask(out),
        lambda be, x, out: be.copy_transpose(x.T, out),
        lambda be, x, out: Description(be.context).assign(out.view, 0),
    ],
    ids=["tree", "product", "in place", "mask", "copy", "program"],
)
def test_no_call_writes_into_such_a_copy(cpu, call):
    x = cpu.ones((3, 4))
    with pytest.warns(UserWarning, match="it is a copy"):
        out = x.T.reshape(3, 4)
    with pytest.raises(ValueError, match="it is a copy: no view of"):
        call(cpu, x, out)
    assert (out.get() == 1).all()


@pytest.mark.parametrize("method", ["set", "copy", "copy_from"])
@pytest.mark.parametrize("made", [lambda y: y, lambda y: y + 0, lambda y: y.get()], ids=["tensor", "tree", "array"])
def test_methods_that_assign_give_the_tensor(be, method, made):
    x, y = be.zeros((2, 3)), be.array([[1, 2, 3], [4, 5, 6]])
    assert getattr(x, method)(made(y)) is x
    np.testing.assert_array_equal(x.get(), y.get())
    assert x.fill(7) is x and (x.get() == 7).all()


def test_what_is_assigned_later_is_what_later_trees_read(be):
    x, out = be.ones((2, 2)), be.zeros((2, 2))
    for value in (1, 2.5):
        x[:] = value
        out[:] = x * 2
        assert (out.get() == 2 * value).all()
        x[:] = np.full((2, 2), value + 1)
        out[:, 1:] = x[:, :1] * 2
        assert out.get().tolist() == [[2 * value, 2 * value + 2]] * 2


def test_overflow_of_a_cast_is_infinite(cpu):
    x = cpu.zeros((1, 2), dtype=np.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's
        x[:] = np.array([[1e10, -1e10]])
    assert x.get().tolist() == [[np.inf, -np.inf]]


def test_nothing_travels_to_or_from_a_device_but_what_is_assigned():
    be = gen_backend("sim")
    x, y = on_device(be, be.zeros((8, 10))), on_device(be, be.ones((8, 10)))
    for target, value, nbytes in (
        (x, 2, 0),
        (x[::2, 1:], 2.5, 0),
        (x, y, 0),
        (x[:, 1:], x[:, :-1], 0),
        (x, np.ones((8, 10)), 320),
        (x[1], np.ones(10, np.int8), 40),
    ):
        with trace() as traced:
            target[:] = value
        assert sum(row.nbytes for row in traced.transfers()) == nbytes
    with trace() as traced:
        x[2:4, ::5].get()
    assert [(row.destination, row.nbytes) for row in traced.transfers()] == [("host", 16)]
    cleanup_backend()
