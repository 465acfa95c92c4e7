"""TopKData against its reference."""

import numpy as np
import pytest

from atled.ops.spec import SPECS
from atled_cpu_numba.kernels import largest


def compare(run, x, parts=1, **attributes):
    attributes = {"abs": False, "reduce": True, "base_axis": 1, **attributes}
    expected = SPECS["TopKData"].reference(x, **attributes)
    found = [np.full(e.shape, -1, e.dtype) for e in expected]
    assert run(largest, "TopKData", [x], found, parts=parts, **attributes) == 0
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("k", [1, 3, 12])
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_places(run, parts, k, magnitude, reduce, dtype):
    x = np.random.default_rng(0).integers(-5, 6, (7, 3, 4)).astype(dtype)  # many equal ones
    compare(run, x, parts, k=k, abs=magnitude, reduce=reduce)


@pytest.mark.parametrize("base_axis", [0, 2])
def test_samples_are_what_follows_base_axis(run, base_axis):
    compare(run, np.random.default_rng(1).standard_normal((4, 5, 6)).astype("f"), k=4, base_axis=base_axis)


@pytest.mark.parametrize("length", [331, 1100])  # rows that are short, and those of which candidates are gathered
@pytest.mark.parametrize("k", [4, 16, 63, 64, 65, 100, 300, 331])
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_best_of_many_are_sorted(run, parts, length, k, magnitude, reduce, dtype):
    if dtype == "float64" and length > 1024 and k > 128:
        pytest.skip("sorting all of the row is quicker")
    rng = np.random.default_rng(k)
    x = rng.integers(-90, 91, (9, length)).astype(dtype)
    x[1:5] = np.sort(rng.standard_normal((4, length)), axis=1)  # each element replaces another one
    x[2] = x[2, ::-1]
    x[3] = 0
    x[4, ::3] = np.nan
    x[5, 1:] = np.nan
    x[6, ::2] = rng.choice([-0.0, 0.0, np.inf, -np.inf, 1e-45, -1e-45], (length + 1) // 2)
    x[7] = np.finfo(dtype).max * rng.choice([-1, 1], length)
    compare(run, x, parts, k=k, abs=magnitude, reduce=reduce)


@pytest.mark.parametrize("length", [4, 5, 15, 16, 17, 33, 64, 1023, 1024, 1025])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_number_of_the_largest_of_rows_of_any_length(run, length, dtype):
    rng = np.random.default_rng(length)
    x = rng.standard_normal((5, length)).astype(dtype)
    x[1] = np.round(x[1])
    x[2, rng.permutation(length)[: length // 2]] = np.nan
    x[3] = -np.inf
    x[4] = np.finfo(dtype).max
    for k in {4, length // 2, length - 1, length}:
        if dtype == "float32" or k <= 128 or length <= 1024:
            compare(run, x, k=max(k, 4))


@pytest.mark.parametrize("k", [1, 2, 3, 50])
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_rows_with_equal_ones_and_nan(run, parts, k, magnitude, dtype):
    rng = np.random.default_rng(k)
    x = rng.integers(-90, 91, (9, 331)).astype(dtype)
    x[1] = np.arange(331)  # each element replaces another one
    x[2] = x[1, ::-1]
    x[3] = 0
    x[4, ::3] = np.nan
    x[5, :-1] = np.nan
    x[6, ::2] = rng.choice([-0.0, 0.0, np.inf, -np.inf], 166)
    x[7] = [*range(100), *[99] * 200, *[np.nan] * 30, 100]
    x[8, :320] = np.nan
    compare(run, x, parts, k=k, abs=magnitude)


@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_nan_comes_after_all_numbers(run, k):
    x = np.array([[np.nan, 1, -np.inf, np.nan, 3, np.inf, 1], [np.nan] * 7, [0, -0.0, 1, np.nan, 0, 1, 2]], "f")
    compare(run, x, k=k)


def test_what_is_refused(make_call):
    x, y, index = np.zeros((2, 1300)), np.zeros((2, 200)), np.zeros((2, 200), np.int64)
    call = make_call("TopKData", [x], [y, index], k=200, base_axis=1)
    assert "up to 128 elements of float64, not 200" in largest.accepts(call)
    half = x.astype(np.float16)
    assert "not float16" in largest.accepts(make_call("TopKData", [half], [half, index], k=2, base_axis=1))
