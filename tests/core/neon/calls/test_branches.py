"""Branches are added up, or stand side by side."""

import numpy as np
import pytest

RNG = np.random.default_rng(11)


def tensor(be, *shape):
    return be.array(RNG.standard_normal(shape))


def test_nodes_copy_and_add(be):
    x, y, error, deltas = (tensor(be, 3, 4) for _ in range(4))
    for beta in (0.0, 0.5):
        wanted = x.get() + beta * y.get()
        be.fprop_skipnode(x, y, beta)
        np.testing.assert_allclose(y.get(), wanted, rtol=1e-5, atol=1e-6)
        wanted = 2 * error.get() + beta * deltas.get()
        be.bprop_skipnode(error, deltas, 2.0, beta)
        np.testing.assert_allclose(deltas.get(), wanted, rtol=1e-5, atol=1e-6)


class Branch:
    """A layer that multiplies by a factor."""

    def __init__(self, factor, outputs, deltas):
        self.factor, self.outputs, self.deltas = factor, outputs, deltas

    def fprop(self, inputs, inference=False, beta=0.0):
        self.outputs[:] = self.factor * inputs + beta * self.outputs
        return self.outputs

    def bprop(self, error, alpha=1.0, beta=0.0):
        self.deltas[:] = alpha * self.factor * error + beta * self.deltas
        return self.deltas


def test_branches_are_summed(be):
    x, y, error, deltas = (tensor(be, 3, 4) for _ in range(4))
    layers = [Branch(factor, y, deltas) for factor in (2.0, 3.0, 4.0)]
    be.fprop_mergesum(None, x, False, layers, y, (3, 4))
    np.testing.assert_allclose(y.get(), 9 * x.get(), rtol=1e-5)
    wanted = 0.5 * 9 * error.get() + 0.25 * deltas.get()
    be.bprop_mergesum(None, 0.5, 0.25, layers, error, deltas)
    np.testing.assert_allclose(deltas.get(), wanted, rtol=1e-5, atol=1e-5)


def test_branches_stand_side_by_side(be):
    x, y, error, deltas = tensor(be, 3, 4), be.zeros((6, 4)), tensor(be, 6, 4), tensor(be, 3, 4)
    layers = [Branch(2.0, y[:3], deltas), Branch(3.0, y[3:], deltas)]
    be.fprop_mergebroadcast(None, x, False, y, layers, (6, 4))
    np.testing.assert_allclose(y.get(), np.concatenate([2 * x.get(), 3 * x.get()]), rtol=1e-5)
    parts = [error[:3], error[3:]]
    wanted = 0.5 * (1.0 * 2 * parts[0].get() + 0.1 * 3 * parts[1].get()) + 0.25 * deltas.get()
    be.bprop_mergebroadcast(None, layers, parts, error, deltas, (3, 4), 0.5, 0.25, [1.0, 0.1])
    np.testing.assert_allclose(deltas.get(), wanted, rtol=1e-5, atol=1e-5)


def test_other_shapes_are_refused(cpu):
    with pytest.raises(ValueError, match="y has shape"):
        cpu.fprop_skipnode(tensor(cpu, 3, 4), tensor(cpu, 4, 3), 0.0)
