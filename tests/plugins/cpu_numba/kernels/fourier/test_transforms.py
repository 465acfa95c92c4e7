"""FFT and IFFT against NumPy's."""

import numpy as np
import pytest

import atled as nn
from atled.keyed import Description
from atled.ops.spec import SPECS
from atled_cpu_numba.kernels.fourier import transforms

# Shapes of complex arrays, and how many of the last axes are transformed.
CASES = [
    ((16, 8), 1),
    ((5, 7), 1),
    ((35, 210), 1),  # two full sets of lines and a part of one; all radices but one
    ((3, 7, 12), 2),
    ((40, 9, 4), 2),
    ((2, 5, 6, 7), 3),
    ((19, 3, 40), 1),
    ((16, 1, 20), 2),
    ((0, 4), 1),
    ((8, 4096), 1),
]


def drawn(shape, dtype):
    return np.random.default_rng(0).standard_normal((*shape, 2)).astype(dtype)


@pytest.mark.parametrize("op", ["FFT", "IFFT"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, axes", CASES)
def test_values_are_those_of_numpy(op, normalized, dtype, shape, axes):
    x = drawn(shape, dtype)
    with nn.context_scope(nn.Context(["cpu:double" if dtype == "float64" else "cpu:float"], fallback="raise")):
        d = Description()
        d.result(d.call(op, d.leaf(nn.NdArray.from_numpy_array(x)), signal_ndim=axes, normalized=normalized))
        assert d.plan.steps[0].note.startswith("kernel")
        (found,) = d.run()
    expected = SPECS[op].reference(x.astype(np.float64), signal_ndim=axes, normalized=normalized)
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found.data, expected, atol=(4e-7 if dtype == "float32" else 1e-15) * scale, rtol=0)


@pytest.mark.parametrize("shape, axes", [((35, 12), 1), ((19, 5, 9), 1), ((40, 9, 4), 1)])
def test_shares_change_nothing(run, parts, shape, axes):
    x = drawn(shape, "float32")
    whole, found = np.full_like(x, np.nan), np.full_like(x, np.nan)
    assert run(transforms, "FFT", [x], [whole], signal_ndim=axes, normalized=False) == 0
    assert run(transforms, "FFT", [x], [found], parts=parts, signal_ndim=axes, normalized=False) == 0
    np.testing.assert_array_equal(found, whole)


def test_nan_and_infinity_stay_in_their_line():
    x = drawn((20, 6), "float32")
    x[3, 2], x[17, 1, 1] = np.nan, np.inf
    with nn.context_scope(nn.Context(["cpu:float"], fallback="raise")):
        y = nn.functions.fft(nn.Variable.from_numpy_array(x), signal_ndim=1)
        y.forward()
    clean = [line for line in range(20) if line not in (3, 17)]
    assert np.isfinite(y.d[clean]).all() and not np.isfinite(y.d[[3, 17]]).all(axis=-1).any()


def test_what_is_refused(make_call):
    def answer(*shape, axes=1, dtype="f"):
        x = np.zeros((*shape, 2), dtype)
        return transforms.accepts(make_call("FFT", [x], [x], signal_ndim=axes, normalized=False))

    assert "without prime factors above 7, not 11" in answer(16, 11)
    assert "not 11" in answer(16, 11, 4, axes=2)
    assert answer(16, 11, 4) is True
    assert "sizes up to 16384" in answer(16, 1 << 15)
    assert "from three on" in answer(2, 4096)
    assert answer(3, 4096) is True
    assert "not float16" in answer(16, 8, dtype=np.float16)
