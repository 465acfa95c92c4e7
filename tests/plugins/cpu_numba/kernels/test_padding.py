"""Pad by a constant against NumPy's: any axes, merged where they are not padded."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import padding
from atled_cpu_numba.kernels.shared.launch import REALS, narrow_dtypes

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in [*REALS, *narrow_dtypes()]}

CASES = [
    ((7,), (2, 3)), ((7,), (0, 0)), ((), ()), ((5, 3), (1, 0, 0, 2)), ((5, 37), (3, 4, 5, 6)),
    ((40, 300), (0, 0, 1, 1)), ((9, 3), (0, 0, 1, 2)), ((9, 4), (0, 0, 2, 1)), ((9, 15), (0, 0, 1, 1)),
    ((9, 16), (0, 0, 1, 1)), ((9, 33), (0, 0, 1, 0)),
    ((40, 300), (2, 1, 0, 0)), ((4, 5, 6, 7), (0, 0, 0, 0, 1, 1, 2, 3)), ((4, 5, 6, 7), (0, 0, 1, 2, 3, 0, 0, 0)),
    ((2, 3, 4, 5), (1, 2, 3, 1, 0, 2, 2, 0)), ((2, 3, 2, 3, 2), (1, 0, 0, 0, 0, 1, 1, 1, 0, 0)),
    ((2, 3, 4, 5), (1, 1, 0, 0, 0, 0, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("shape, widths", CASES)
@pytest.mark.parametrize("value", [0.0, -1.5, np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_padded_axes(run, parts, shape, widths, value, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(DTYPES[dtype])
    expected = np.pad(x, list(zip(widths[::2], widths[1::2], strict=True)), constant_values=value) if shape else x
    y = np.full_like(expected, 77)
    padded = {"floats": {"constant_value": value}, "pad_width": widths, "mode": "constant"}
    assert run(padding, "Pad", [x], [y], parts=parts, **padded) == 0
    np.testing.assert_array_equal(y.astype(float), expected.astype(float))
