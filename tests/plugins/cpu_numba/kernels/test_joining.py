"""Concatenate, Stack and Split against NumPy."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import joining

both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def numbers(shape, dtype, start=0):
    return (np.arange(np.prod(shape)) + start).reshape(shape).astype(dtype)


@both_dtypes
@pytest.mark.parametrize("sizes", [(1,), (3, 1), (17, 2, 40)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenate(run, parts, sizes, axis, dtype):
    shapes = [tuple(size if i == axis else n for i, n in enumerate((3, 4, 5))) for size in sizes]
    arrays = [numbers(shape, dtype, 1000 * i) for i, shape in enumerate(shapes)]
    expected = np.concatenate(arrays, axis=axis)
    y = np.full(expected.shape, -1, dtype)
    assert run(joining, "Concatenate", arrays, [y], parts=parts, axis=axis) == 0
    np.testing.assert_array_equal(y, expected)


@both_dtypes
@pytest.mark.parametrize("shape, axis", [((3, 4), 0), ((3, 4), 1), ((3, 4), 2), ((), 0), ((2, 37), 1)])
def test_stack_and_split(run, parts, shape, axis, dtype):
    arrays = [numbers(shape, dtype, 1000 * i) for i in range(3)]
    expected = np.stack(arrays, axis=axis)
    y, back = np.full(expected.shape, -1, dtype), [np.full(shape, -1, dtype) for _ in arrays]
    assert run(joining, "Stack", arrays, [y], parts=parts, axis=axis) == 0
    np.testing.assert_array_equal(y, expected)
    assert run(joining, "Split", [y], back, parts=parts, axis=axis) == 0
    np.testing.assert_array_equal(back, arrays)


def test_what_is_refused(make_call):
    empty, small = np.zeros((0, 2), "f"), np.zeros((2, 2), np.uint8)
    assert joining.accepts(make_call("Concatenate", [empty, empty], [empty], axis=0)) == "an array is empty"
    assert joining.accepts(make_call("Stack", [small], [small], axis=0)).endswith("not uint8")


@pytest.mark.parametrize("lengths", [(1, 1), (3, 3), (1, 2, 5), (40, 19, 2), (7,)])
def test_rows_of_an_odd_number_of_16_bits(run, parts, lengths):
    arrays = [numbers((11, length), np.float16, 100 * i) for i, length in enumerate(lengths)]
    expected = np.concatenate(arrays, axis=1)
    y, back = np.full(expected.shape, -1, np.float16), [np.full(x.shape, -1, np.float16) for x in arrays]
    assert run(joining, "Concatenate", arrays, [y], parts=parts, axis=1) == 0
    np.testing.assert_array_equal(y, expected)
    assert run(joining, "Split", [y], back, parts=parts, axis=1) == 0
    for found, x in zip(back, arrays, strict=True):
        np.testing.assert_array_equal(found, x)
