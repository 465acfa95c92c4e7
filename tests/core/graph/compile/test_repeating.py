"""Slices and transposes of repeated arrays repeat what they choose, where that makes no more than before."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.keyed import Description


def variable(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return nn.Variable.from_numpy_array(values.astype(np.float32), need_grad=True)


def steps(plan):
    return [step.name for step in plan.steps]


def backward_steps(y, *leaves):
    """The steps of the gradients of leaves, which are computed."""
    y.forward()
    for leaf in leaves:
        leaf.grad.zero()
    y.backward()
    (binding,) = y.value.roots.backward.bindings.values()
    return steps(binding.plan)


def test_the_gradient_of_a_sum_over_a_transpose_is_no_transpose():
    x = variable(40, 30)
    y = F.sum(F.transpose(x, (1, 0)))  # not within the assertion, which would hold what is transposed
    assert backward_steps(y, x) == ["Broadcast"]
    assert (x.g == 1).all()


def test_gradients_of_joined_arrays_are_not_cut_out_of_one():
    a, b, weight = variable(5, 40), variable(3, 40), variable(8)
    y = F.sum(F.sum(F.concatenate(a, b, axis=0), axis=1) * F.unlink(weight))
    assert "Slice" not in backward_steps(y, a, b)
    np.testing.assert_array_equal(np.concatenate([a.g, b.g]), np.broadcast_to(weight.d[:, None], (8, 40)))


CHOICES = {
    "transpose": (lambda v: F.transpose(v, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "slice": (lambda v: F.slice(v, (1, 0, 2), (5, 4, 7), (1, 2, 2)), lambda a: a[1:5, 0:4:2, 2:7:2]),
    "backwards": (lambda v: F.slice(v, (4, 3, 6), (0, -9, 1), (-2, -1, -1)), lambda a: a[4:0:-2, 3::-1, 6:1:-1]),
    "flip": (lambda v: F.flip(v, (0, 2)), lambda a: a[::-1, :, ::-1]),
    "one after the other": (
        lambda v: F.flip(F.transpose(F.slice(v, (0, 1, 0), (6, 4, 7)), (1, 2, 0)), (1,)),
        lambda a: a[:6, 1:4, :7].transpose(1, 2, 0)[:, ::-1],
    ),
    "one": (lambda v: F.slice(v, (2, 2, 2), (3, 3, 3)), lambda a: a[2:3, 2:3, 2:3]),
    "none": (lambda v: F.slice(v, (2, 2, 2), (2, 3, 3)), lambda a: a[2:2, 2:3, 2:3]),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shape", [(6, 1, 7), (1, 4, 1), (1, 1, 1), (6, 4, 7), (1, 1, 7)])
def test_what_is_chosen_is_the_same(choice, shape):
    choose, of_array = CHOICES[choice]
    x = variable(*shape)
    y = choose(F.broadcast(x, (6, 4, 7)))
    y.forward()
    np.testing.assert_array_equal(y.d, of_array(np.broadcast_to(x.d, (6, 4, 7))))
    if choice != "none":
        assert steps(y.plan) == ["Broadcast"]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_window_is_repeated_where_it_is(choice):
    choose, of_array = CHOICES[choice]
    x = variable(20, 4, 7)
    y = choose(F.broadcast(F.slice(F.tanh(x), (3, 1, 0), (9, 2, 7)), (6, 4, 7)))
    y.forward()
    np.testing.assert_allclose(y.d, of_array(np.broadcast_to(np.tanh(x.d[3:9, 1:2]), (6, 4, 7))), rtol=1e-6)


def test_a_repeated_array_that_somebody_reads_is_made_once():
    x = variable(1, 50)
    whole = F.broadcast(x, (40, 50))
    y = F.sum(F.slice(whole, (0, 3), (40, 33)), axis=0)
    y.forward()
    assert whole.d.shape == (40, 50)
    assert steps(y.plan).count("Broadcast") == 1
    np.testing.assert_allclose(y.d, 40 * x.d[0, 3:33], rtol=1e-6)


def test_overlapping_parts_are_read_from_one_array():
    x = variable(1, 50)
    whole = F.broadcast(x, (40, 50))
    parts = [F.slice(whole, (0, first), (40, first + 30)) for first in (0, 5, 10)]
    del whole
    y = F.batch_matmul(F.reshape(parts[0], (1, 40, 30)), F.reshape(F.transpose(parts[1], (1, 0)), (1, 30, 40)))
    y = y + F.reshape(F.sum(parts[2]), (1, 1, 1))
    del parts
    y.forward()
    assert steps(y.plan).count("Broadcast") == 1
    full = np.broadcast_to(x.d, (40, 50))
    np.testing.assert_allclose(y.d[0], full[:, :30] @ full[:, 5:35].T + full[:, 10:40].sum(), rtol=1e-4)


def test_what_is_written_in_between_is_repeated_as_it_was():
    row = nn.NdArray.from_numpy_array(np.arange(6, dtype=np.float32).reshape(1, 6))
    program = Description()
    leaf = program.leaf(row)
    repeated = program.call("Broadcast", leaf, shape=(3, 6))
    program.assign(leaf, program.call("MulScalar", leaf, val=10.0))
    program.result(program.call("Transpose", repeated, axes=(1, 0)))
    (found,) = program.run()
    np.testing.assert_array_equal(found.data, np.broadcast_to(np.arange(6.0), (3, 6)).T)
    np.testing.assert_array_equal(row.data, 10 * np.arange(6.0)[None])


def test_nothing_is_repeated_on_an_array_that_is_written_at_once():
    square = nn.NdArray.from_numpy_array(np.arange(4, dtype=np.float32).reshape(1, 4))
    program = Description()
    leaf = program.leaf(square)
    program.assign(
        leaf,
        program.call("Slice", program.call("Broadcast", leaf, shape=(3, 4)), start=(1, 3), stop=(2, -5), step=(1, -1)),
    )
    program.run()
    np.testing.assert_array_equal(square.data, [[3, 2, 1, 0]])
