"""Activations of layers, as op-trees and as calls."""

import numpy as np
import pytest

from atled.neon.transforms import Identity, PixelwiseSoftmax, Sign, Softmax, Tanh

RNG = np.random.default_rng(11)


def tensor(be, *shape):
    return be.array(RNG.standard_normal(shape))


def value(be, tree):
    out = be.zeros(tree.shape)
    out[:] = tree
    return out.get()


@pytest.mark.parametrize("slope", [0, 0.1])
def test_rectifiers_are_op_trees(be, slope):
    x = tensor(be, 3, 4)
    values = x.get()
    wanted = np.maximum(values, 0) + slope * np.minimum(values, 0)
    np.testing.assert_allclose(value(be, be.fprop_relu(None, x, slope)), wanted, rtol=1e-6)
    derivative = be.bprop_relu(None, x, None, None, slope)
    np.testing.assert_allclose(value(be, derivative), (values > 0) + slope * (values < 0), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_is_an_op_tree(be, axis):
    x = tensor(be, 3, 4)
    powers = np.exp(x.get())
    wanted = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(value(be, be.fprop_softmax(x, axis)), wanted, rtol=1e-5)


@pytest.mark.parametrize("is_view", [False, True])
def test_transforms_are_computed_into_their_outputs(be, is_view):
    x, y, error = tensor(be, 3, 4), tensor(be, 3, 8), tensor(be, 3, 4)
    y = y[:, ::2] if is_view else y[:, :4]
    be.fprop_transform(object(), Tanh(), x, y)
    np.testing.assert_allclose(y.get(), np.tanh(x.get()), rtol=1e-5)
    wanted = (1 - y.get() ** 2) * error.get()
    be.bprop_transform(object(), Tanh(), y, error, error, False)
    np.testing.assert_allclose(error.get(), wanted, rtol=1e-5)


def test_a_derivative_of_1_gives_the_error(be):
    y, error, deltas = tensor(be, 3, 4), tensor(be, 3, 4), be.zeros((3, 4))
    for transform in (Identity(), Softmax()):
        deltas[:] = 0
        be.bprop_transform(None, transform, y, error, deltas, relu=False)
        np.testing.assert_array_equal(deltas.get(), error.get())


def test_softmax_is_a_part_of_the_program(cpu):
    x, y = tensor(cpu, 3, 4), cpu.zeros((3, 4))
    cpu.fprop_transform(None, Softmax(), x, y)
    np.testing.assert_allclose(y.get().sum(0), 1, rtol=1e-5)
    assert "Exp" in str(cpu.plan(cpu.fprop_transform, None, Softmax(), x, y))


@pytest.mark.parametrize("transform", [Sign(), PixelwiseSoftmax(3)])
def test_what_writes_its_inputs_is_called_by_itself_and_plan_says_so(be, transform):
    x, y = tensor(be, 3, 4), be.zeros((3, 4))
    plan = be.plan("fprop_transform", None, transform, x, y)
    assert "one by one in Python" in plan and type(transform).__name__ in plan
    signs = np.where(x.get() >= 0, 1, -1)
    be.fprop_transform(None, transform, x, y)
    np.testing.assert_array_equal(y.get(), x.get())
    if isinstance(transform, Sign):
        np.testing.assert_array_equal(y.get(), signs)
    else:
        np.testing.assert_allclose(y.get().sum(0), 1, rtol=1e-5)


def test_random_transforms_are_drawn_anew(be):
    x, y = be.zeros((3, 4)), be.zeros((3, 4))
    seen = set()
    for _ in range(3):
        be.fprop_transform(None, lambda x: be.rand() + x, x, y)
        seen.add(y.get().tobytes())
    assert len(seen) == 3


def test_other_shapes_are_refused(cpu):
    x, y = tensor(cpu, 3, 4), tensor(cpu, 4, 3)
    with pytest.raises(ValueError, match="outputs has shape"):
        cpu.fprop_transform(None, Tanh(), x, y)
    with pytest.raises(ValueError, match="deltas has shape"):
        cpu.bprop_transform(None, Tanh(), x, x, y)
