"""Counts of elements by powers of two, against numpy.histogram."""

import numpy as np
import pytest


def counted(values, bins, offset):
    """The counts by NumPy."""
    edges = np.arange(bins + 1, dtype=float) + offset
    edges[0] = -np.inf
    with np.errstate(divide="ignore"):
        powers = np.rint(np.log2(np.abs(values.astype(np.float32))))
    return np.histogram(powers[~np.isnan(powers)], edges)[0]


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8], ids=lambda dtype: dtype.__name__
)
def test_a_row_counts_powers_of_two(be, dtype):
    values = (np.array([-1, 1] * 15) * np.random.default_rng(1).lognormal(1, 2, (20, 30)) * 10).astype(dtype)
    row = be.array(values, dtype=dtype).hist("x")
    assert (row.shape, row.dtype) == ((1, be.hist_bins), np.int32)
    np.testing.assert_array_equal(row.get()[0], counted(values, be.hist_bins, be.hist_offset))


def test_zeros_are_in_the_first_bin_and_nan_and_infinity_in_none(be):
    be.set_hist_buffers(4, -1)
    values = np.array([[0, 1e-30, 0.5, 1, 2, 3, 4, 8, 9, 16, 30, np.inf, -np.inf, np.nan]], np.float32)
    row = be.array(values).hist("x").get()[0]
    np.testing.assert_array_equal(row, counted(values, 4, -1))
    assert row.tolist() == [3, 1, 1, 4]


def test_nothing_and_views_are_counted(cpu):
    assert not cpu.zeros((0, 3)).hist("x").get().any()
    x = cpu.array(np.arange(24).reshape(4, 6))
    np.testing.assert_array_equal(x[1:, ::-2].T.hist("x").get()[0], counted(x.get()[1:, ::-2], 64, -48))


def test_rows_are_kept_under_their_tags_until_they_are_dumped(be):
    x, y = be.ones((2, 3)), be.zeros((3, 4))
    x.hist("x")
    y.hist("y")
    x.hist("x")
    counts, rows = be.dump_hist_data()
    assert (counts.shape, counts.dtype, rows) == ((3, 64), np.int32, {"x": 2, "y": 1})
    assert counts.get().sum(1).tolist() == [6, 12, 6] and counts.get()[1, 0] == 12
    empty, none = be.dump_hist_data()
    assert (empty.shape, none) == ((0, 64), {})


def test_other_bins_start_anew(cpu):
    cpu.ones((2, 3)).hist("x")
    cpu.set_hist_buffers(64, -48)
    cpu.set_hist_buffers(8, -4)
    assert cpu.ones((2, 3)).hist("y").get().tolist() == [[0, 0, 0, 0, 6, 0, 0, 0]]
    assert cpu.dump_hist_data()[1] == {"y": 0}


@pytest.mark.parametrize(
    ("bins", "offset", "error"), [(0, 0, ValueError), (-3, 0, ValueError), (2.5, 0, TypeError), (8, "a", TypeError)]
)
def test_what_are_no_bins_is_refused(cpu, bins, offset, error):
    with pytest.raises(error, match="set_hist_buffers"):
        cpu.set_hist_buffers(bins, offset)
    assert (cpu.hist_bins, cpu.hist_offset) == (64, -48)
