"""Quantizers: their values at and between the steps, and their straight-through gradients."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F

FIXED = [-10, -7.94, -7.9375, -0.07, -0.03125, -0.03, 0, 0.03125, 0.031, 0.04, 0.09375, 7.9375, 7.94, 8, 20, np.inf]
POWERS = [
    -100,
    -4,
    -2.1,
    -1.5,
    -1.4143,
    -1.414,
    -0.7,
    -0.01,
    0,
    0.02,
    0.022,
    0.0222,
    0.3,
    1,
    1.4142,
    1.4143,
    2.9,
    4,
    100,
]


@pytest.fixture
def quantized(backend):
    """`quantized(function, x, **attributes)`: the values and, for a gradient of 1, the gradient."""

    def run(function, x, **attributes):
        leaf = nn.Variable.from_numpy_array(np.asarray(x, np.float32), need_grad=True)
        y = getattr(F, function)(leaf, **attributes)
        y.forward()
        y.backward(1)
        return y.d.copy(), leaf.g.copy()

    return run


def test_fixed_point_rounds_half_away_from_zero_and_clips(quantized):
    y, g = quantized("fixed_point_quantize", FIXED)
    step, most = 0.0625, 7.9375
    assert y.tolist() == [
        -most, -most, -most, -step, -step, 0, 0, step, 0, step, 2 * step, most, most, most, most, most
    ]  # fmt: skip
    assert g.tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]


def test_fixed_point_without_sign_starts_at_0(quantized):
    y, g = quantized("fixed_point_quantize", FIXED, sign=False, n=2, delta=1)
    assert y.tolist() == [0] * 11 + [3] * 5
    assert g.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]


def test_fixed_point_bits_and_step_set_the_range(quantized):
    y, _ = quantized("fixed_point_quantize", [-9, -0.9, 0.24, 0.26, 9], n=3, delta=0.5)
    assert y.tolist() == [-1.5, -1, 0, 0.5, 1.5]


@pytest.mark.parametrize("function", ["fixed_point_quantize", "pow2_quantize"])
def test_a_coarse_gradient_passes_everywhere(quantized, function):
    assert_array_equal(quantized(function, FIXED, sign=False, ste_fine_grained=False)[1], 1)


@pytest.mark.parametrize("function", ["fixed_point_quantize", "pow2_quantize"])
def test_quantize_false_changes_nothing(quantized, function):
    y, g = quantized(function, POWERS, quantize=False)
    assert_array_equal(y, np.float32(POWERS))
    assert_array_equal(g, 1)


def test_powers_are_rounded_by_their_logarithm(quantized):
    y, g = quantized("pow2_quantize", POWERS, n=4, m=2)
    assert y.tolist() == [-4, -4, -2, -2, -2, -1, -0.5, 0, 0, 0, 0, 0, 0, 1, 1, 2, 4, 4, 4]
    assert g.tolist() == [0, *[1] * 17, 0]


def test_powers_without_zero_end_at_the_smallest(quantized):
    y, _ = quantized("pow2_quantize", POWERS, n=4, m=2, with_zero=False)
    least = 0.03125
    assert y.tolist() == [
        -4, -4, -2, -2, -2, -1, -0.5, -least, least, least, least, least, 0.25, 1, 1, 2, 4, 4, 4
    ]  # fmt: skip


def test_powers_just_below_the_smallest_are_rounded_up_to_it(quantized):
    # n' = 2 bits: 2, 1, 0.5, 0.25; below 0.25 / sqrt(2) = 0.17678 there is only 0.
    y, _ = quantized("pow2_quantize", [0.1767, 0.1769, -0.1769, -0.1767], n=4)
    assert y.tolist() == [0, 0.25, -0.25, 0]


@pytest.mark.parametrize(("with_zero", "least"), [(True, 0.0), (False, 0.25)])
def test_powers_without_sign_have_none_for_negative_numbers(quantized, with_zero, least):
    y, g = quantized("pow2_quantize", [-5, -0.1, 0, 0.3, 9], sign=False, with_zero=with_zero, n=2 + with_zero)
    assert y.tolist() == [least, least, least, 0.25, 2]
    assert g.tolist() == [0, 0, 1, 1, 0]


def test_results_are_exact_powers(quantized):
    x = np.random.default_rng(0).lognormal(size=1000) * np.random.default_rng(1).choice([-1, 1], 1000)
    mantissa, _ = np.frexp(quantized("pow2_quantize", x)[0])
    assert_array_equal(np.abs(mantissa), 0.5)


def test_a_remembered_call_on_arrays_does_not_mix_up_attributes(backend):
    x = nn.NdArray.from_numpy_array(np.array([0.3, -9], np.float32))
    for _ in range(2):
        for n, delta, expected in ((8, 0.0625, [0.3125, -7.9375]), (8, 0.5, [0.5, -9]), (3, 0.5, [0.5, -1.5])):
            assert F.fixed_point_quantize(x, n=n, delta=delta).data.tolist() == expected
        assert F.pow2_quantize(x).data.tolist() == [0.25, -2]
        assert F.pow2_quantize(x, n=3).data.tolist() == [0, -2]


def test_arguments_are_those_of_the_call(backend):
    x = nn.Variable((2,))
    assert F.fixed_point_quantize(x).parent.arguments == {
        "sign": True, "n": 8, "delta": 0.0625, "quantize": True, "ste_fine_grained": True
    }  # fmt: skip
