"""Products and convolutions in bf16 by the matrix unit, whose instructions are emulated, against sums in float64."""

import types

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cpu_numba import matrix_unit
from atled_cpu_numba.kernels.products import tile_products
from emulated_tiles import emulate

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16 = np.dtype(ml_dtypes.bfloat16)
HALF_OF_LAST_DIGIT = 2.0**-8
MODULE = types.SimpleNamespace(accepts=lambda call: True, prepare=tile_products.prepare)


@pytest.fixture(autouse=True, scope="module")
def _tiles():
    with pytest.MonkeyPatch.context() as patch:
        emulate(tile_products.TILE_PRODUCT, patch)
        yield


def draw(*shapes):
    rng = np.random.default_rng(3)
    return [None if shape is None else rng.standard_normal(shape).astype(BF16) for shape in shapes]


def assert_summed_in_float32(y, expected, magnitude, terms):
    """Rounded once, to bf16; each sum of so many terms in float32. magnitude: of the sums of absolute values."""
    bound = HALF_OF_LAST_DIGIT * abs(expected) + terms * 2.0**-23 * (magnitude + abs(expected)) + 1e-7
    assert (abs(y.astype("d") - expected) <= bound).all()


# Whole tiles, what is left over along each axis, several pieces of A.
SIZES = [(64, 64, 64), (16, 16, 16), (50, 71, 45), (33, 32, 100), (17, 95, 31), (1100, 520, 40)]


@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_affine(run, parts, m, k, n, with_bias):
    x, weight, bias = draw((m, k), (k, n), (n,) if with_bias else None)
    y = np.zeros((m, n), BF16)
    assert run(MODULE, "Affine", [x, weight, bias], [y], parts=parts, base_axis=1) == 0
    wide = x.astype("d"), weight.astype("d")
    expected = wide[0] @ wide[1] + (bias.astype("d") if with_bias else 0)
    assert_summed_in_float32(y, expected, abs(wide[0]) @ abs(wide[1]), k)


@pytest.mark.parametrize("m, k, n", SIZES[1:4])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_transposed_matrices(run, parts, m, k, n, transpose_a, transpose_b):
    a, b = draw((1, k, m) if transpose_a else (1, m, k), (1, n, k) if transpose_b else (1, k, n))
    y = np.zeros((1, m, n), BF16)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    assert run(MODULE, "BatchMatmul", [a, b], [y], parts=parts, **flags) == 0
    wide = [
        np.swapaxes(x, 1, 2).astype("d") if flag else x.astype("d")
        for x, flag in zip((a, b), flags.values(), strict=True)
    ]
    assert_summed_in_float32(y, wide[0] @ wide[1], abs(wide[0]) @ abs(wide[1]), k)


# x, weight, pad, stride, dilation
CONVOLUTIONS = [
    ((3, 20, 9, 11), (24, 20, 3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 5, 9, 11), (17, 5, 3, 3), (0, 0), (1, 1), (1, 1)),
    ((2, 17, 14, 15), (17, 17, 3, 3), (1, 1), (2, 2), (1, 1)),
    ((2, 16, 14, 35), (17, 16, 3, 5), (2, 1), (2, 3), (1, 1)),
    ((2, 16, 14, 15), (17, 16, 3, 3), (2, 2), (1, 1), (2, 2)),
    ((2, 16, 24, 25), (17, 16, 3, 5), (5, 3), (2, 2), (3, 2)),
    ((2, 37, 5, 5), (40, 37, 1, 1), (0, 0), (1, 1), (1, 1)),
    ((2, 37, 9, 9), (40, 37, 1, 1), (0, 0), (2, 2), (1, 1)),
    ((2, 37, 9, 9), (40, 37, 1, 1), (1, 2), (1, 1), (1, 1)),
    ((3, 20, 39), (24, 20, 3), (1,), (1,), (1,)),
    ((3, 20, 9, 11), (24, 20, 3, 3), (4, 4), (1, 1), (1, 1)),
    ((1, 3, 30, 70), (16, 3, 7, 7), (3, 3), (2, 2), (1, 1)),
]


def sums(name, arrays, geometry):
    """By the op's reference, in float64: of the values, and of their magnitudes."""
    reference, missing = op_spec(name).reference, [None] if name == "Convolution" else []
    return [reference(*(f(x.astype("d")) for x in arrays), *missing, **geometry) for f in (np.array, abs)]


@pytest.mark.parametrize("x_shape, w_shape, pad, stride, dilation", CONVOLUTIONS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_convolution(run, parts, x_shape, w_shape, pad, stride, dilation, with_bias):
    x, weight, bias = draw(x_shape, w_shape, w_shape[:1] if with_bias else None)
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": dilation, "group": 1}
    expected, magnitude = sums("Convolution", [x, weight], geometry)
    if with_bias:
        expected += bias.astype("d").reshape(-1, *[1] * len(pad))
    y = np.zeros(expected.shape, BF16)
    assert run(MODULE, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    assert_summed_in_float32(y, expected, magnitude, np.prod(w_shape[1:]))


@pytest.mark.parametrize("x_shape, w_shape, pad, stride, dilation", [case for case in CONVOLUTIONS if case[1][1] >= 16])
def test_gradient_with_respect_to_the_input(run, parts, x_shape, w_shape, pad, stride, dilation):
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": dilation, "group": 1}
    x, weight = draw(x_shape, w_shape)
    (gy,) = draw(sums("Convolution", [x, weight], geometry)[0].shape)
    shape = {"shape": x_shape[2:]}
    expected, magnitude = sums("ConvolutionDataGrad", [gy, weight], {**geometry, **shape})
    gx = np.zeros(x_shape, BF16)
    assert run(MODULE, "ConvolutionDataGrad", [gy, weight], [gx], parts=parts, **geometry, **shape) == 0
    assert_summed_in_float32(gx, expected, magnitude, w_shape[0] * np.prod(w_shape[2:]))


def test_denormals_are_taken_for_zeros(run):
    tiny = ml_dtypes.finfo(BF16).smallest_subnormal
    x, weight = np.full((16, 16), tiny, BF16), np.ones((16, 16), BF16)
    y = np.ones((16, 16), BF16)
    assert run(MODULE, "Affine", [x, weight, None], [y], base_axis=1) == 0
    assert not y.astype("f").any()


def prepared(make_call, name, arrays, result, **attributes):
    return tile_products.prepare(make_call(name, arrays, [np.zeros(result, arrays[0].dtype)], **attributes))


def test_the_note_names_the_unit(make_call):
    assert "AMX" in prepared(make_call, "Affine", draw((64, 64), (64, 64)), (64, 64), base_axis=1).note


@pytest.mark.parametrize("m, k, n", [(15, 64, 64), (64, 15, 64), (64, 64, 15)])
def test_what_fills_no_tiles_is_left_to_others(make_call, m, k, n):
    assert prepared(make_call, "Affine", draw((m, k), (k, n)), (m, n), base_axis=1) is None


def test_other_dtypes_and_groups_are_left_to_others(make_call):
    half = [array.astype("f2") for array in draw((64, 64), (64, 64))]
    assert prepared(make_call, "Affine", half, (64, 64), base_axis=1) is None
    geometry = {"base_axis": 1, "pad": (0,), "stride": (1,), "dilation": (1,), "group": 2}
    assert prepared(make_call, "Convolution", draw((1, 64, 32), (64, 32, 1)), (1, 64, 32), **geometry) is None


def test_nothing_is_taken_where_the_unit_may_not_be_used(make_call, monkeypatch):
    monkeypatch.setattr(matrix_unit, "multiplies_bf16", lambda: False)
    assert prepared(make_call, "Affine", draw((64, 64), (64, 64)), (64, 64), base_axis=1) is None
