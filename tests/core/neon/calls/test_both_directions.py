"""Both directions of a recurrent layer do what each does."""

import numpy as np
import pytest

from atled.neon.transforms import Rectlin, Tanh, Transform

RNG = np.random.default_rng(11)


def tensor(be, *shape):
    return be.array(RNG.standard_normal(shape))


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
