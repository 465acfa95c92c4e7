"""Kernels with bounds: on whatever way a call is computed, its results are bounded as by the step behind it."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F


def variable(*shape, seed=0):
    """Normal numbers, and few of those that are special."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if seed == 0:
        for value in (np.nan, np.inf, -np.inf, -0.0):
            values.flat[rng.integers(values.size, size=2)] = value
    return nn.Variable.from_numpy_array(values)


def convolution(x, w, bias=True, **attributes):
    return lambda: F.convolution(
        variable(*x), variable(*w, seed=1), variable(w[0], seed=2) if bias else None, **attributes
    )


def affine(m, k, n):
    return lambda: F.affine(variable(m, k), variable(k, n, seed=1), variable(n, seed=2))


CASES = {
    "rows": convolution((2, 3, 20, 32), (7, 3, 3, 3), pad=(1, 1)),
    "rows, vectors that overlap": convolution((2, 3, 9, 13), (17, 3, 3, 3), False, pad=(1, 1)),
    "rows, a stride": convolution((1, 3, 32, 64), (9, 3, 3, 3), pad=(1, 1), stride=(2, 2)),
    "rows, 1x1": convolution((1, 16, 56, 56), (96, 16, 1, 1)),
    "rows, groups": convolution((1, 8, 16, 16), (10, 4, 3, 3), group=2, pad=(1, 1)),
    "1x1": convolution((1, 32, 28, 28), (192, 32, 1, 1)),
    "1x1, few maps": convolution((1, 144, 56, 56), (3, 144, 1, 1)),
    "1x1, positions collected": convolution((5, 40, 15, 15), (53, 40, 1, 1), False),
    "1x1, a stride": convolution((3, 40, 30, 30), (50, 40, 1, 1), stride=(2, 2)),
    "1x1, groups": convolution((2, 24, 20, 20), (26, 12, 1, 1), group=2),
    "affine": affine(70, 90, 200),
    "affine, short sums": affine(512, 16, 130),
    "affine, sums in parts": affine(60, 2500, 131),
}


def bits(values):
    """The bits of floats, all NaN alike."""
    values = np.where(np.isnan(values), np.nan, values)
    return values.view(np.int32 if values.dtype == np.float32 else np.int64)


@pytest.mark.parametrize("type_config", ["float", "double"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_bounded_as_numpy_bounds_them(name, type_config):
    with nn.context_scope(nn.Context([f"cpu:{type_config}"], fallback="raise")):
        plain = CASES[name]()
        plain.forward()
        x = plain.parent.inputs[0]
        within = nn.inference(F.minimum_scalar(F.relu(plain), 1.5), x)(x.d)
        y = F.relu(CASES[name]())
        y.forward()
        (carrier,) = (step for step in y.plan.steps if step.carried)
        # Which kernel computes it is the processor's affair, in some cases one without.
        assert (carrier.carried[0].bounds >= 0) == bool(carrier.native.bounds)
        np.testing.assert_array_equal(bits(y.d), bits(np.maximum(plain.d, 0)))
        np.testing.assert_array_equal(bits(within), bits(np.minimum(np.maximum(plain.d, 0), 1.5)))
