"""Biases are added in place, errors summed."""

import numpy as np
import pytest


def test_a_bias_is_added_to_each_column(be):
    x = be.array(np.arange(24.0).reshape(4, 6))
    before = x.get()
    be.add_fc_bias(x[:, ::2], be.array([1.0, 2.0, 3.0, 4.0]))
    before[:, ::2] += np.array([[1.0], [2.0], [3.0], [4.0]])
    np.testing.assert_array_equal(x.get(), before)


def test_its_gradient_is_the_sum_over_the_batch(be):
    errors, out = be.array(np.arange(24.0).reshape(4, 6)), be.zeros((4, 2))
    be.update_fc_bias(errors[:, 1:], out[:, 1:])
    np.testing.assert_allclose(out.get()[:, 1], errors.get()[:, 1:].sum(1), rtol=1e-6)
    np.testing.assert_array_equal(out.get()[:, 0], 0)


def test_other_shapes_are_refused(cpu):
    x, wide = cpu.zeros((4, 6)), cpu.zeros((4, 2))
    with pytest.raises(ValueError, match=r"bias has shape \[4, 2\]"):
        cpu.add_fc_bias(x, wide)
    with pytest.raises(ValueError, match=r"out has shape \[4, 2\]"):
        cpu.update_fc_bias(x, wide)
