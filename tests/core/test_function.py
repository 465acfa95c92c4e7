"""Functions: what a recorded call tells about itself, and calls on Variables of other graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


# What it tells.


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (F.relu, "ReLU"),
        (F.elu, "ELU"),
        (F.asin, "ASin"),
        (lambda x: 1 - x, "RSubScalar"),
        (lambda x: F.softmax_cross_entropy(x, leaf([[0]])), "SoftmaxCrossEntropy"),
    ],
)
def test_the_name_is_that_of_the_op(call, name):
    f = call(leaf([[1, 2]])).parent
    assert f.name == f.info.type_name == name


def test_args_are_the_arguments_by_name_with_defaults_filled_in():
    y = F.convolution(nn.Variable((2, 3, 6, 6)), nn.Variable((5, 3, 3, 3)), stride=(2, 1))
    args = y.parent.info.args
    assert {name: list(value) if isinstance(value, tuple) else value for name, value in args.items()} == {
        "base_axis": 1,
        "pad": [0, 0],
        "stride": [2, 1],
        "dilation": [1, 1],
        "group": 1,
        "channel_last": False,
    }


def test_args_hold_nothing_that_the_user_cannot_give():
    assert set(F.rand(shape=(2,)).parent.info.args) == {"low", "high", "shape", "seed"}


def test_inputs_leave_absent_ones_out():
    x, w = nn.Variable((2, 3)), nn.Variable((3, 4))
    assert F.affine(x, w).parent.inputs == [x, w]
    b = nn.Variable((4,))
    assert F.affine(x, w, b).parent.inputs == [x, w, b]


def test_in_place_is_told_of_views_only():
    x = leaf([1, 2])
    assert F.reshape(x, (2, 1)).parent.inplace_data(0) == 1
    assert not F.relu(x, inplace=True).parent.inplace_data(0)
    assert not F.tanh(x).parent.inplace_grad(0)


def test_a_function_keeps_the_context_it_was_called_in():
    context = nn.Context(["reference:double"])
    with nn.context_scope(context):
        y = F.exp(leaf([1]))
    assert y.parent.context == context
    y.forward()
    assert y.d.dtype == np.float64


def test_min_outputs_counts_what_the_user_gets():
    assert F.tanh(leaf([1])).parent.min_outputs() == 1
    assert F.dropout(leaf([1])).parent.min_outputs() == 1
    assert F.split(leaf(np.ones((3, 2))), axis=0)[0].parent.min_outputs() == 3


# Forward and backward on other Variables.


def test_forward_takes_variables_that_are_not_of_its_graph():
    y = F.exp(leaf([1, 2]))
    x, out = leaf([[0, 1, 2]]), nn.Variable()
    y.parent.forward([x], [out])
    assert_allclose(out.d, np.exp([[0, 1, 2]]), rtol=1e-6)
    y.forward()
    assert_allclose(y.d, np.exp([1, 2]), rtol=1e-6)


def test_forward_of_a_view_gives_the_foreign_output_the_memory_of_the_input():
    y = F.reshape(leaf([1, 2]), (2, 1))
    x, out = leaf([5, 6]), nn.Variable((2, 1))
    y.parent.forward([x], [out])
    assert_array_equal(out.d, [[5], [6]])


def test_backward_takes_variables_that_are_not_of_its_graph():
    f = F.mul2(leaf([1]), leaf([1])).parent
    a, b, out = leaf([2, 3], True), leaf([5, 7], True), nn.Variable()
    f.forward([a, b], [out])
    out.g = 1
    f.backward([a, b], [out])
    assert_array_equal(a.g, [5, 7])
    assert_array_equal(b.g, [2, 3])


def test_backward_accumulates_unless_told_otherwise():
    x = leaf([2], True)
    y = F.mul_scalar(x, 3)
    y.forward()
    x.g = 10
    y.g = 1
    f = y.parent
    f.backward([x], [y])
    assert_array_equal(x.g, [13])
    f.backward([x], [y], accum=[True])
    assert_array_equal(x.g, [16])
    f.backward([x], [y], accum=[False])
    assert_array_equal(x.g, [3])


def test_accum_false_overwrites_even_nan():
    x = leaf([2], True)
    y = F.mul_scalar(x, 3)
    y.forward()
    x.g = np.nan
    y.g = 1
    y.parent.backward([x], [y], accum=[False])
    assert_array_equal(x.g, [3])


def test_accum_is_per_input():
    a, b = leaf([2], True), leaf([5], True)
    y = a * b
    y.forward()
    a.g, b.g, y.g = 10, 20, 1
    y.parent.backward([a, b], [y], accum=[True, False])
    assert_array_equal(a.g, [15])
    assert_array_equal(b.g, [2])


def test_accum_needs_one_flag_per_input():
    x = leaf([2], True)
    y = F.exp(x)
    y.forward()
    with pytest.raises(ValueError, match="1 inputs"):
        y.parent.backward([x], [y], accum=[True, False])


@pytest.mark.parametrize("need_grad", [False, None])
def test_inputs_without_need_grad_are_left_alone(need_grad):
    x, w = leaf([2], need_grad), leaf([3], True)
    y = x * w
    y.forward()
    x.g, y.g = 5, 1
    y.parent.backward([x, w], [y])
    assert_array_equal(x.g, [5])
    assert_array_equal(w.g, [2])


def test_an_input_in_the_middle_of_a_graph_gets_a_gradient():
    x = leaf([1, 2], True)
    h = x * 2
    y = F.exp(h)
    y.forward()
    h.g, y.g = 5, 1
    y.parent.backward([h], [y])
    assert_allclose(h.g, 5 + np.exp([2, 4]), rtol=1e-6)


def test_absent_inputs_are_left_out():
    x, w = leaf(np.ones((2, 3)), True), leaf(np.ones((3, 4)), True)
    y = F.affine(x, w)
    f = y.parent
    f.forward([x, w], [y])
    y.g = 1
    f.backward([x, w], [y], [False, False])
    assert_array_equal(x.g, np.full((2, 3), 4))
    assert_array_equal(w.g, np.full((3, 4), 2))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_inputs_is_refused(count):
    a = leaf([2])
    y = a * leaf([3])
    with pytest.raises(ValueError, match="it takes 2"):
        y.parent.forward([a] * count, [y])


def test_a_wrong_number_of_outputs_is_refused():
    x = leaf([2], True)
    y = F.exp(x)
    with pytest.raises(ValueError, match="it gives 1"):
        y.parent.forward([x], [y, y])


def test_outputs_of_another_shape_are_refused_by_backward():
    x = leaf([1, 2], True)
    y = F.exp(x)
    y.forward()
    with pytest.raises(ValueError, match="the outputs have shapes"):
        y.parent.backward([x], [leaf([1, 2, 3])])
    assert not x.g.any()


def test_inputs_that_do_not_fit_the_op_are_refused():
    y = leaf([[1, 2]]) * leaf([[1, 2]])
    out = nn.Variable()
    with pytest.raises(ValueError, match="do not broadcast"):
        y.parent.forward([leaf([[1, 2]]), leaf([[1, 2, 3]])], [out])
    assert out.shape == ()


def test_setup_gives_the_outputs_their_shapes():
    y = F.affine(leaf(np.ones((2, 3))), leaf(np.ones((3, 4))))
    out = nn.Variable()
    y.parent.setup([leaf(np.ones((5, 6))), leaf(np.ones((6, 7)))], [out])
    assert out.shape == (5, 7)


# State.


def test_the_mask_of_dropout_lives_in_the_function():
    f = F.dropout(leaf([1]), p=0.5, seed=3).parent
    x, out = leaf(np.ones(100), True), nn.Variable()
    f.forward([x], [out])
    out.g = 1
    f.backward([x], [out])
    assert_array_equal(x.g, out.d)
    assert set(np.unique(x.g)) == {0, 2}


def test_the_maximum_that_pooling_found_lives_in_the_function():
    f = F.max_pooling(leaf(np.zeros((1, 1, 2, 2))), (2, 2)).parent
    x, out = leaf(np.arange(16).reshape(1, 1, 4, 4), True), nn.Variable()
    f.forward([x], [out])
    out.g = 1
    f.backward([x], [out])
    expected = np.zeros((4, 4))
    expected[1::2, 1::2] = 1
    assert_array_equal(x.g[0, 0], expected)


def test_batch_statistics_live_in_the_function():
    shape = (1, 3)
    beta, gamma, mean, variance = (leaf(np.full(shape, value)) for value in (0, 1, 0, 1))
    f = F.batch_normalization(leaf(np.zeros((4, 3))), beta, gamma, mean, variance).parent
    rng = np.random.default_rng(0)
    x, out = leaf(rng.standard_normal((6, 3)) * 3 + 1, True), nn.Variable()
    f.forward([x, beta, gamma, mean, variance], [out])
    assert_allclose(out.d.mean(axis=0), 0, atol=1e-6)
    out.g = rng.standard_normal((6, 3))
    f.backward([x, beta, gamma, mean, variance], [out])
    # What normalizing makes is constant along shifts and scales of x, so the gradient has no part along them.
    assert_allclose(x.g.sum(axis=0), 0, atol=1e-5)
    assert_allclose((x.g * x.d).sum(axis=0), 0, atol=1e-4)


def test_a_call_on_other_variables_leaves_the_graph_usable():
    x = leaf(np.ones(10), True)
    y = F.dropout(x, p=0.5, seed=1)
    y.forward()
    y.parent.forward([leaf(np.ones((3, 5)))], [nn.Variable()])
    y.forward()
    y.backward()
    assert_array_equal(x.g, y.d)


def test_state_follows_the_shape_of_the_input():
    x = leaf(np.ones(10), True)
    y = F.dropout(x, p=0.5, seed=1)
    y.forward()
    x.reset_shape((30,), force=True)
    x.d = 1
    y.forward()
    y.backward()
    assert_array_equal(x.g, y.d)


def test_results_that_are_state_reach_foreign_outputs():
    shape = (1, 3)
    parameters = [leaf(np.full(shape, value)) for value in (0, 1, 0, 1)]
    y, _, _ = F.batch_normalization(leaf(np.ones((4, 3))), *parameters, output_stat=True)
    outputs = [nn.Variable() for _ in range(3)]
    y.parent.forward([leaf(np.arange(6).reshape(2, 3)), *parameters], outputs)
    assert_allclose(outputs[1].d, [[1.5, 2.5, 3.5]])
    assert_allclose(outputs[2].d, [[2.25, 2.25, 2.25]])


def test_a_function_can_be_called_on_other_arrays(backend):
    x = nn.Variable.from_numpy_array(np.ones((2, 3), np.float32))
    y = F.sum(F.mul_scalar(x, 3.0), axis=1)
    scale = y.parent.inputs[0].parent
    other = nn.NdArray.from_numpy_array(np.full((4,), 2, np.float32))
    np.testing.assert_array_equal(scale(other).data, np.full(4, 6))
    assert scale(nn.Variable((5,))).parent.info.args == scale.info.args
