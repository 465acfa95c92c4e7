"""What becomes of the axes of a convolution in front of the last two."""

from atled_cpu_numba.kernels.shared.leading_axes import (
    OUTSIDE,
    Axis,
    Phase,
    leading_phases,
    merge_axes,
    one_tap_each,
    two_axes,
)


def axis(source, result, kernel=1, pad=0, stride=1, dilation=1):
    return Axis(source, result, kernel, pad, stride, dilation)


def test_neighbours_that_are_passed_through_become_one_axis():
    windows = axis(5, 5, kernel=3, pad=1)
    assert merge_axes([windows, axis(4, 4), axis(6, 6)]) == (windows, axis(24, 24))
    assert merge_axes([axis(2, 2), axis(4, 4), axis(6, 6)]) == (axis(48, 48),)
    assert merge_axes([axis(2, 2), windows, axis(6, 6)]) == (axis(2, 2), windows, axis(6, 6))


def test_axes_of_one_element_go_whatever_their_stride():
    windows = axis(5, 5, kernel=3, pad=1)
    assert merge_axes([axis(1, 1, stride=2), windows, windows]) == (windows, windows)
    assert merge_axes([axis(1, 1), axis(1, 1), axis(1, 1)]) == (axis(1, 1),)


def test_strides_padding_and_kernels_keep_an_axis():
    kept = (axis(4, 2, stride=2), axis(4, 6, pad=1), axis(4, 4, kernel=3, pad=1))
    assert merge_axes(kept) == kept


def test_two_axes_are_left_as_they_are():
    assert merge_axes([axis(4, 4), axis(6, 6)]) == (axis(4, 4), axis(6, 6))
    assert two_axes([axis(9, 4, 3, 0, 2, 1)]) == ((1, 9), (1, 4), (1, 3), (0, 0), (1, 2), (1, 1))


def test_slices_that_see_the_same_taps_are_one_phase():
    first, inner, last = leading_phases([axis(4, 4, kernel=3, pad=1)], forward=True, least=1)
    assert first == Phase((1, 2), ((0, 0, 1),))
    assert inner == Phase((0, 1, 2), ((1, 0, 1, 2), (2, 1, 2, 3)))
    assert last == Phase((0, 1), ((3, 2, 3),))


def test_few_slices_are_computed_with_those_that_see_more():
    (phase,) = leading_phases([axis(4, 4, kernel=3, pad=1)], forward=True, least=2)
    assert phase.taps == (0, 1, 2)
    assert sorted(phase.slices) == [(0, OUTSIDE, 0, 1), (1, 0, 1, 2), (2, 1, 2, 3), (3, 2, 3, OUTSIDE)]


def test_a_stride_divides_the_slices_of_an_adjoint():
    phases = leading_phases([axis(2, 5, kernel=3, stride=2)], forward=False, least=1)
    assert phases == (
        Phase((0,), ((0, 0),)),
        Phase((1,), ((1, 0), (3, 1))),
        Phase((0, 2), ((2, 1, 0),)),
        Phase((2,), ((4, 1),)),
    )


def test_slices_that_see_nothing_have_no_taps():
    phases = leading_phases([axis(1, 3, kernel=1, pad=1)], forward=True, least=9)
    assert phases == (Phase((), ((0,), (2,))), Phase((0,), ((1, 0),)))


def test_several_leading_axes_are_counted_through():
    (phase,) = leading_phases([axis(3, 2, kernel=2), axis(4, 4)], forward=True, least=1)
    assert phase.taps == (0, 1)
    assert phase.slices[5] == (5, 5, 9)


def test_one_tap_each_leaves_out_padding():
    phases = leading_phases([axis(2, 2, kernel=3, pad=1)], forward=True, least=9)
    assert one_tap_each(phases) == (Phase((1,), ((0, 0), (1, 1))), Phase((2,), ((0, 1),)), Phase((0,), ((1, 0),)))
