"""Views of steps, and sizes as layers tell them."""

import numpy as np
import pytest

from atled.neon.layers.recurrent import get_steps, interpret_in_shape


def test_steps_are_views(be):
    x = be.array(np.arange(24).reshape(2, 12))
    steps = get_steps(x, (2, 3))
    assert [each.shape for each in steps] == [(2, 4)] * 3
    steps[1][:] = 0
    assert not x.get()[:, 4:8].any()
    assert x.get()[:, 8:].all()


@pytest.mark.parametrize(("given", "expected"), [(5, (5, 1)), ((5, 3), (5, 3)), ((2, 3, 4), (24, 1))])
def test_sizes_are_rows_and_steps(given, expected):
    assert interpret_in_shape(given) == expected


def test_columns_that_are_no_steps_are_refused(cpu):
    with pytest.raises(ValueError, match="5 steps of 2 rows"):
        get_steps(cpu.zeros((2, 12)), (2, 5))
