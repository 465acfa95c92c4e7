"""Slice and SliceGrad against NumPy."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import slicing

WHOLE = slice(None)
CUTS = [
    (WHOLE, WHOLE, WHOLE),
    (slice(1, 3), WHOLE, WHOLE),
    (WHOLE, slice(-2, 100), WHOLE),
    (WHOLE, WHOLE, slice(3, 20)),
    (WHOLE, WHOLE, slice(0, 1)),
    (WHOLE, WHOLE, slice(36, 37)),
]


def bounds(shape, cut):
    ranges = [part.indices(size) for part, size in zip(cut, shape, strict=True)]
    return {name: tuple(r[i] for r in ranges) for i, name in enumerate(("start", "stop", "step"))}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_slices_and_their_gradients(run, parts, cut, dtype):
    shape = (4, 5, 37)
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    y = np.full(x[cut].shape, np.nan, dtype)
    assert run(slicing, "Slice", [x], [y], parts=parts, **bounds(shape, cut)) == 0
    np.testing.assert_array_equal(y, x[cut])
    expected = np.zeros_like(x)
    expected[cut] = y
    gx = np.full(shape, np.nan, dtype)
    assert run(slicing, "SliceGrad", [y], [gx], parts=parts, shape=shape, **bounds(shape, cut)) == 0
    np.testing.assert_array_equal(gx, expected)


def test_a_number_is_copied(run):
    y = np.zeros((), "f")
    assert run(slicing, "Slice", [np.full((), 3, "f")], [y], start=(), stop=(), step=()) == 0
    assert y == 3


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        ((slice(1, 3), slice(0, 2)), "takes slices that cut one axis, not 2"),
        ((WHOLE, slice(0, 5, 2)), "takes slices of step 1, not 2"),
        ((slice(1, 1), WHOLE), "an array is empty"),
    ],
)
def test_what_is_refused(make_call, cut, reason):
    x = np.zeros((4, 5), "f")
    assert slicing.accepts(make_call("Slice", [x], [x[cut]], **bounds(x.shape, cut))) == reason
