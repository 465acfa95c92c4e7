"""Calls that make tensors."""

import numpy as np
import pytest

DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (5, (5, 1)),
        ((5,), (5, 1)),
        ((), (1, 1)),
        ([2, 3], (2, 3)),
        ((2, 3, 4), (2, 3, 4)),
        ((0, 3), (0, 3)),
        ((np.int32(2), 3), (2, 3)),
    ],
    ids=str,
)
def test_a_tensor_has_two_axes_or_more(cpu, shape, expected):
    for make, value in ((cpu.zeros, 0), (cpu.ones, 1), (cpu.empty, 0)):
        x = make(shape)
        np.testing.assert_array_equal(x.get(), np.full(expected, value, np.float32), strict=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_all_dtypes_are_made_and_computed_with(be, dtype):
    assert be.zeros((2, 2), dtype=dtype).dtype == dtype
    x = be.ones((2, 3), dtype)
    x[:, 1:] = x[:, :1] + x[:, 1:]
    np.testing.assert_array_equal(x.get(), np.array([[1, 2, 2]] * 2, dtype), strict=True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3.5, [[3.5]]),
        ([1, 2], [[1], [2]]),
        (np.float64(2), [[2]]),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (np.arange(6, dtype=np.int8).reshape(2, 3)[:, ::-1], [[2, 1, 0], [5, 4, 3]]),
        (np.arange(6).reshape(2, 3).T, [[0, 3], [1, 4], [2, 5]]),
        ([[float("nan"), 1]], [[np.nan, 1]]),
        ([], np.zeros((0, 1))),
        ([True, False], [[1], [0]]),
    ],
    ids=str,
)
def test_an_array_is_copied_in_the_dtype_of_the_backend(cpu, given, expected):
    np.testing.assert_array_equal(cpu.array(given).get(), np.array(expected, np.float32), strict=True)


def test_a_tensor_is_copied_as_an_array_is(cpu):
    x = cpu.array([[1, 2], [3, 4]])
    y = cpu.array(x.T, dtype=np.int32)
    x[:] = 0
    np.testing.assert_array_equal(y.get(), np.array([[1, 3], [2, 4]], np.int32), strict=True)


def test_later_changes_of_the_array_do_not_show(be):
    values = np.ones((2, 2), np.float32)
    x = be.array(values)
    values[:] = 0
    assert (x.get() == 1).all()


def test_keywords_and_positions_are_those_of_neon(cpu):
    given = {"persist_values": False, "parallel": True, "distributed": True}
    for make in (cpu.zeros, cpu.ones, cpu.empty, cpu.array):
        x = make((2, 3), np.float64, "x", **given)
        assert (x.dtype, x.name, x.persist_values) == (np.float64, "x", False)


@pytest.mark.parametrize("like", [np.zeros((2, 3)), np.zeros((2, 3), np.int8)], ids=str)
def test_like_another_a_tensor_has_its_shape_and_the_dtype_of_the_backend(cpu, like):
    for make in (cpu.zeros_like, cpu.empty_like):
        for given in (like, cpu.array(like, dtype=like.dtype)):
            np.testing.assert_array_equal(make(given).get(), np.zeros((2, 3), np.float32), strict=True)


def test_like_another_takes_the_arguments_in_both_orders_of_neon(cpu):
    x = cpu.zeros((2, 3))
    for made in (
        cpu.zeros_like(x, np.int32, "b", False),
        cpu.zeros_like(ary=x, dtype="int32", name="b", persist_values=False),
    ):
        assert (made.dtype, made.name, made.persist_values) == (np.int32, "b", False)
    for made in (
        cpu.empty_like(x, "b", False),
        cpu.empty_like(other_ary=x, name="b", persist_values=False),
        cpu.empty_like(x, None, "b", persist_values=False),
    ):
        assert (made.dtype, made.name, made.persist_values) == (np.float32, "b", False)
    assert cpu.zeros_like(x, "float16").dtype == np.float16


@pytest.mark.parametrize(
    ("dim0", "shape"),
    [(3, (3, 4)), ((3, 5), (3, 20)), ((2, 3, 5), (30, 4)), ((7,), (7, 4)), ([3, 5], (3, 20)), (np.int64(3), (3, 4))],
    ids=str,
)
def test_a_buffer_has_the_batch_on_its_last_axis(cpu, dim0, shape):
    x = cpu.iobuf(dim0, dtype=np.float16, name="x")
    np.testing.assert_array_equal(x.get(), np.zeros(shape, np.float16), strict=True)
    assert x.name == "x"
    cpu.bsz = 2
    assert cpu.iobuf(dim0).shape == (shape[0], shape[1] // 2)


def test_a_buffer_that_is_there_is_given_back(cpu):
    x = cpu.zeros((0, 4))
    assert cpu.iobuf(3, x=x) is x


def test_a_shared_buffer_is_a_view(cpu):
    shared = cpu.zeros((cpu.shared_iobuf_size((6, 4), "Data"), 1))
    assert shared.shape == (24, 1) and cpu.shared_iobuf_size(5, "Disabled") == 5
    x = cpu.iobuf((2, 3), shared=shared)
    x[:] = 1
    assert (x.shape, x.base) == ((2, 12), shared) and shared.get().all()
    assert cpu.iobuf((2, 3), shared=x) is x
    with pytest.raises(ValueError, match="it has 24 elements, of 28"):
        cpu.iobuf(7, shared=shared)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda be: be.zeros((-1, 2)), ValueError, "negative size"),
        (lambda be: be.zeros((2.5, 2)), TypeError, "sizes are integers"),
        (lambda be: be.ones("ab"), TypeError, "sizes are integers"),
        (lambda be: be.iobuf((2, None)), TypeError, "sizes are integers"),
        (lambda be: be.zeros_like([1, 2]), TypeError, "it has no shape"),
        (lambda be: be.empty((1 << 62, 1 << 62)), ValueError, "shape"),
        (lambda be: be.zeros((2, 2), dtype="floating"), TypeError, "no dtype of numbers"),
        (lambda be: be.zeros((2, 2), dtype=complex), TypeError, "no dtype of numbers"),
        (lambda be: be.array([[1, 2], [3]]), ValueError, "give an array of numbers"),
        (lambda be: be.array(["1"]), TypeError, "give an array of numbers"),
        (lambda be: be.array(np.ones(2, complex)), TypeError, "array of complex128"),
        (lambda be: be.array(None), TypeError, "array of object"),
        (lambda be: be.array([300], dtype=np.int8), OverflowError, "out of bounds for int8"),
    ],
)
def test_what_no_tensor_can_be_made_of_is_refused(cpu, make, error, message):
    with pytest.raises(error, match=message):
        make(cpu)
