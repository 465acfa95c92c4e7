"""Other sizes for the same elements."""

import numpy as np
import pytest
from tests.core.neon.layers.running import drawn, ready

from atled.neon.layers import Reshape


@pytest.mark.parametrize(
    ("before", "sizes", "after", "columns"),
    [
        (12, (3, 2, 2), (3, 2, 2), (12, 4)),
        ((3, 2, 2), (0, -1), (3, 4), (3, 16)),
        ((3, 4), (-1,), (12,), (12, 4)),
        ((3, 2, 2), -1, (12,), (12, 4)),
        ((3, 2, 2), (2, 0, 3), (2, 2, 3), (12, 4)),
    ],
)
def test_elements_of_an_example_stay_in_order(be, before, sizes, after, columns):
    layer = ready(Reshape(sizes), before)
    assert layer.out_shape == after
    x = drawn(be, be.iobuf(before).shape)
    y = layer.fprop(x)
    assert y.shape == columns
    np.testing.assert_array_equal(y.get(), x.get().reshape(columns))
    assert layer.bprop(y).shape == x.shape
    y[:] = 7
    assert (x.get() == 7).all()


def test_what_does_not_lie_in_one_piece_is_copied(be):
    layer, buffer = ready(Reshape((6, 1)), (3, 2)), drawn(be, (3, 12))
    y = layer.fprop(buffer[:, 4:])
    np.testing.assert_array_equal(y.get(), buffer.get()[:, 4:].reshape(6, 4))
    y[:] = 7  # by a layer that writes into its inputs
    assert (buffer.get() != 7).all()


@pytest.mark.parametrize("sizes", [(5, -1), (3, 5), (-1, -1), (12, 0), (0, 2)])
def test_another_count_of_elements_is_refused(cpu, sizes):
    with pytest.raises(ValueError, match=r"(?s)Reshape 'r'.*12 elements"):
        Reshape(sizes, name="r").configure(12)


def test_what_does_not_fit_is_refused(cpu):
    layer = ready(Reshape((3, 4), name="r"), 12)
    with pytest.raises(ValueError, match=r"(?s)Reshape 'r'\.fprop: inputs have shape \[3, 16\].*\[12, 4\]"):
        layer.fprop(cpu.ones((3, 16)))
    with pytest.raises(ValueError, match=r"(?s)Reshape 'r'\.bprop: errors have shape \[12, 4\]"):
        layer.bprop(cpu.ones((12, 4)))
