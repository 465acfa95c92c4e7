"""Shifts: which element comes where."""

import numpy as np
import pytest

from atled.ops.shifting import shift_sources


@pytest.mark.parametrize(("border_mode", "pad_mode"), [("nearest", "edge"), ("reflect", "symmetric")])
@pytest.mark.parametrize("shift", [-11, -4, -1, 0, 1, 3, 4, 9])
def test_the_gap_is_filled_as_numpy_pads(reference, border_mode, pad_mode, shift):
    x = np.arange(4.0)
    padded = np.pad(x, 12, mode=pad_mode)
    expected = padded[12 - shift : 16 - shift]
    np.testing.assert_array_equal(reference("Shift", x, shifts=(shift,), border_mode=border_mode), expected)


def test_positive_shifts_move_to_higher_indices_of_the_trailing_axes(reference):
    x = np.arange(12.0).reshape(2, 2, 3)
    y = reference("Shift", x, shifts=(0, 1))
    assert y.tolist() == [[[0, 0, 1], [3, 3, 4]], [[6, 6, 7], [9, 9, 10]]]
    np.testing.assert_array_equal(reference("Shift", x, shifts=(1,)), y)


@pytest.mark.parametrize("border_mode", ["nearest", "reflect"])
def test_the_gradient_is_the_adjoint(reference, border_mode):
    rng = np.random.default_rng(0)
    x, gy = rng.standard_normal((3, 5, 4)), rng.standard_normal((3, 5, 4))
    attributes = {"shifts": (1, -7, 2), "border_mode": border_mode}
    y, gx = reference("Shift", x, **attributes), reference("ShiftGrad", gy, **attributes)
    np.testing.assert_allclose(np.vdot(gx, x), np.vdot(gy, y))


@pytest.mark.parametrize("border_mode", ["nearest", "reflect"])
def test_an_empty_axis_has_no_sources(border_mode):
    assert shift_sources(0, 3, border_mode).shape == (0,)
