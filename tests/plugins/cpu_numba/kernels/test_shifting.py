"""Shift and ShiftGrad against their references."""

import numpy as np
import pytest

from atled.ops.spec import SPECS
from atled_cpu_numba.kernels import shifting

CASES = [
    ((3, 4, 5), (0, 1, -2)),
    ((3, 4, 5), (0, 0, 3)),
    ((3, 4, 5), (2, 0, 0)),
    ((3, 4, 5), (0, 0, 0)),
    ((7,), (-20,)),
    ((), ()),
    ((4, 33, 2), (0, 9, 1)),
]


@pytest.mark.parametrize("shape, shifts", CASES)
@pytest.mark.parametrize("border_mode", ["nearest", "reflect"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shift_and_its_adjoint(run, parts, shape, shifts, border_mode, dtype):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    for name in ("Shift", "ShiftGrad"):
        y = np.full(shape, np.nan, dtype)
        assert run(shifting, name, [x], [y], parts=parts, shifts=shifts, border_mode=border_mode) == 0
        np.testing.assert_array_equal(y, SPECS[name].reference(x, shifts=shifts, border_mode=border_mode))


@pytest.mark.parametrize("dtype", ["float16", "int16", "int32"])
def test_elements_that_are_only_moved_are_those_of_any_dtype_of_their_size(run, parts, dtype):
    x = np.random.default_rng(0).integers(-9, 9, (3, 4, 5)).astype(dtype)
    y = np.full_like(x, 77)
    assert run(shifting, "Shift", [x], [y], parts=parts, shifts=(0, 1, -2), border_mode="nearest") == 0
    np.testing.assert_array_equal(y, SPECS["Shift"].reference(x, shifts=(0, 1, -2), border_mode="nearest"))
