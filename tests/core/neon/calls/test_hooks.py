"""What layers have a backend do."""

import numpy as np
import pytest

from atled.neon.transforms import Identity, PixelwiseSoftmax, Rectlin, Sign, Softmax, Tanh, Transform

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


def columns(tensor, first, count=3):
    return [tensor[:, 2 * n : 2 * n + 2] for n in range(first, first + count)]


@pytest.mark.parametrize("activation", [Tanh(), Rectlin()])
def test_both_directions_of_a_layer_are_computed(be, activation):
    weights = [tensor(be, 3, 3) for _ in range(2)]
    states, fed = ([tensor(be, 3, 10) for _ in range(2)] for _ in range(2))
    copies = [be.array(each.get()) for each in states]
    about = (3, 3, 3, activation)
    be.compound_rnn_unroll_fprop_bibnrnn(
        object(),
        None,
        None,
        weights[0],
        columns(states[0], 0),
        columns(fed[0], 0),
        columns(states[0], 1),
        None,
        weights[1],
        columns(states[1], 2),
        columns(fed[1], 0),
        columns(states[1], 1),
        None,
        *about,
    )
    for number, before, reverse in ((0, 0, False), (1, 2, True)):
        lists = columns(copies[number], before), columns(fed[number], 0), columns(copies[number], 1)
        be.compound_rnn_unroll_fprop(weights[number], *lists, None, *about, reverse)
        np.testing.assert_allclose(states[number].get(), copies[number].get(), rtol=1e-5)
    errors = [tensor(be, 3, 10) for _ in range(2)]
    copies = [be.array(each.get()) for each in errors]
    be.compound_rnn_unroll_bprop_bibnrnn(
        object(),
        None,
        columns(errors[0], 1),
        columns(errors[0], 0),
        columns(errors[1], 1),
        columns(errors[1], 2),
        *weights,
        columns(states[0], 1),
        columns(states[1], 1),
        *about,
    )
    for number, before, reverse in ((0, 0, True), (1, 2, False)):
        lists = columns(copies[number], before), columns(copies[number], 1), columns(states[number], 1)
        be.compound_rnn_unroll_bprop(weights[number], *lists, *about, reverse)
        np.testing.assert_allclose(errors[number].get(), copies[number].get(), rtol=1e-5)


def test_a_direction_that_fails_leaves_what_the_other_one_wrote(be):
    class Failing(Transform):
        calls = 0

        def __call__(self, x):
            x[:] = x / 2
            self.calls += 1
            if self.calls > 4:
                raise OSError("no more")
            return x

    weights, start = tensor(be, 3, 3), tensor(be, 3, 2)
    fed, states = tensor(be, 3, 6), [tensor(be, 3, 6) for _ in range(2)]
    before = [each.get() for each in states]
    one, other = (([start] * 3, columns(fed, 0), columns(each, 0), None) for each in states)
    with pytest.raises(OSError, match="no more"):
        be.compound_rnn_unroll_fprop_bibnrnn(None, None, None, weights, *one, weights, *other, 3, 3, 3, Failing())
    for tensors, values in zip(states, before, strict=True):
        np.testing.assert_array_equal(tensors.get(), values)


def test_other_shapes_are_refused(cpu):
    x, y = tensor(cpu, 3, 4), tensor(cpu, 4, 3)
    with pytest.raises(ValueError, match="outputs has shape"):
        cpu.fprop_transform(None, Tanh(), x, y)
    with pytest.raises(ValueError, match="deltas has shape"):
        cpu.bprop_transform(None, Tanh(), x, x, y)
    with pytest.raises(ValueError, match="y has shape"):
        cpu.fprop_skipnode(x, y, 0.0)
