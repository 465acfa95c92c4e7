"""Streams of random numbers and outcomes drawn by them: the same as the reference's, number by number."""

import numpy as np
import pytest

from atled.ops import mrg31k3p
from atled.ops.spec import SPECS
from atled_cpu_numba.kernels.random import outcomes, streams

# One block of streams and several, all rounds whole and the last in part, streams that are not drawn from.
SIZES = [(1, 7), (5, 5), (16, 3), (520, 2000), (1024, 2048), (1500, 600), (3, 0), (0, 0)]
DTYPES = ["float32", "float64"]
KINDS = [(dtype, made) for dtype in DTYPES for made in ("int64", "int32", dtype)]


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-0.3, 1.7), (1.0, 1.0), (1.0, 2.0)], ids=str)
@pytest.mark.parametrize(("count", "size"), SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_numbers_and_rows(run, parts, count, size, dtype, bounds):
    rows = mrg31k3p.substreams(np.array([1, 2, 3, 4, 5, 6], np.int32), count)
    y, new_rows = np.full(size, np.nan, dtype), np.zeros_like(rows)
    given = {"shape": (size,), "dtype": np.dtype(dtype)}
    low_high = dict(zip(("low", "high"), bounds, strict=True))
    assert run(streams, "MRGUniform", [rows], [y, new_rows], parts=parts, floats=low_high, **given) == 0
    expected = SPECS["MRGUniform"].reference(rows, **low_high, **given)
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(new_rows, expected[1])


@pytest.mark.parametrize(("dtype", "made"), KINDS)
@pytest.mark.parametrize("op", ["MultinomialCounts", "ChoiceIndices"])
@pytest.mark.parametrize("shape", [(1, 3), (40, 17)], ids=str)
def test_outcomes(run, parts, op, shape, dtype, made):
    rng = np.random.default_rng(0)
    p = rng.random(shape)
    p = np.where(rng.random(shape) < 0.2, 0, p / p.sum(axis=1, keepdims=True)).astype(dtype)
    unis = rng.random(3 * shape[0]).astype(dtype)
    expected = SPECS[op].reference(p, unis, dtype=np.dtype(made))
    y = np.full_like(expected, 77)
    assert run(outcomes, op, [p, unis], [y], parts=parts, dtype=np.dtype(made)) == 0
    np.testing.assert_array_equal(y, expected)
