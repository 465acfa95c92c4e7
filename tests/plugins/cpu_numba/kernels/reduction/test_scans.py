"""CumSum and CumProd against NumPy, in any number of shares."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.reduction import scans


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 500), 1), ((40, 300), 0), ((3, 6, 5), 1)])
def test_scans(run, parts, shape, axis, dtype, exclusive, reverse):
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape).astype(dtype)
    for name, scan, start in (("CumSum", np.cumsum, 0), ("CumProd", np.cumprod, 1)):
        turned = np.flip(x, axis) if reverse else x
        expected = scan(turned, axis, dtype=np.float64)
        if exclusive:
            expected = np.delete(np.insert(expected, 0, start, axis), -1, axis)
        y = np.full(shape, 7, dtype)
        attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        assert run(scans, name, [x], [y], parts=parts, **attributes) == 0
        np.testing.assert_allclose(y, np.flip(expected, axis) if reverse else expected, rtol=1e-6)


def test_long_float32_sums_are_accurate(run):
    x, y = np.full(1_000_000, 0.1, np.float32), np.empty(1_000_000, np.float32)
    assert run(scans, "CumSum", [x], [y], axis=0, exclusive=False, reverse=False) == 0
    np.testing.assert_allclose(y, np.cumsum(x, dtype=np.float64), rtol=1e-7)
