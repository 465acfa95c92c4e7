"""Gradients of weights in bf16 by the matrix unit, whose instructions are emulated, against sums in float64."""

import types

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cpu_numba.kernels.convolution import weight_tiles
from emulated_tiles import emulate

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16 = np.dtype(ml_dtypes.bfloat16)
HALF_OF_LAST_DIGIT = 2.0**-8
MODULE = types.SimpleNamespace(accepts=lambda call: True, prepare=weight_tiles.prepare)

# x, weight, pad, stride, dilation
CASES = [
    ((3, 20, 9, 11), (24, 20, 3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 5, 9, 11), (17, 5, 3, 3), (0, 0), (1, 1), (1, 1)),
    ((2, 7, 14, 15), (17, 7, 3, 3), (1, 1), (2, 2), (1, 1)),
    ((2, 7, 14, 35), (17, 7, 3, 5), (2, 1), (2, 3), (1, 1)),
    ((2, 7, 24, 25), (17, 7, 3, 5), (5, 3), (2, 2), (3, 2)),
    ((2, 37, 5, 5), (40, 37, 1, 1), (0, 0), (1, 1), (1, 1)),
    ((25, 17, 10, 7), (40, 17, 1, 1), (0, 0), (1, 1), (1, 1)),  # several images at once, as they are
    ((2, 37, 9, 9), (40, 37, 1, 1), (0, 0), (2, 2), (1, 1)),
    ((3, 20, 39), (24, 20, 3), (1,), (1,), (1,)),
    ((2, 5, 70, 71), (17, 5, 3, 3), (1, 1), (1, 1), (1, 1)),  # an image in several steps
    ((30, 5, 7, 7), (17, 5, 3, 3), (1, 1), (1, 1), (1, 1)),
]


@pytest.fixture(autouse=True, scope="module")
def _tiles():
    with pytest.MonkeyPatch.context() as patch:
        emulate(weight_tiles.TILE_WEIGHT, patch)
        yield


def draw(seed, shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(BF16)


@pytest.mark.parametrize("x_shape, w_shape, pad, stride, dilation", CASES)
def test_values(run, parts, x_shape, w_shape, pad, stride, dilation):
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": dilation, "group": 1}
    x = draw(0, x_shape)
    wide = x.astype("d")
    gy = draw(1, op_spec("Convolution").reference(wide, np.zeros(w_shape), None, **geometry).shape)
    kernel = {"kernel": w_shape[2:]}
    reference = op_spec("ConvolutionWeightGrad").reference
    expected = reference(wide, gy.astype("d"), **geometry, **kernel)
    magnitude = reference(abs(wide), abs(gy.astype("d")), **geometry, **kernel)
    gw = np.zeros(w_shape, BF16)
    assert run(MODULE, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, **geometry, **kernel) == 0
    terms = gy.shape[0] * np.prod(gy.shape[2:])
    # Rounded once, to bf16; each sum in float32.
    bound = HALF_OF_LAST_DIGIT * abs(expected) + terms * 2.0**-23 * (magnitude + abs(expected)) + 1e-7
    assert (abs(gw.astype("d") - expected) <= bound).all()


def test_a_number_that_is_not_finite_stays_in_the_gradients_that_read_it(run):
    x, gy = draw(0, (1, 16, 8, 9)), draw(1, (1, 16, 6, 7))
    x[0, 3, 0, 8] = np.inf  # in the last column: of the three taps of a row one reads it
    geometry = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1, "kernel": (3, 3)}
    gw = np.zeros((16, 16, 3, 3), BF16)
    assert run(MODULE, "ConvolutionWeightGrad", [x, gy], [gw], **geometry) == 0
    is_infinite = ~np.isfinite(gw.astype("f"))
    assert is_infinite[:, 3, 0, 2].all()
    assert is_infinite.sum() == 16
