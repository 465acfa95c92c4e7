"""The functions of the NNabla API: names, argument order, defaults, and how wrong calls are refused."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
from atled.errors import RefusedError, four_parts
from nnabla_signatures import SIGNATURES

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def _described(parameters: Any) -> list[tuple[Any, ...]]:
    return [(p.name, p.kind, p.default) for p in parameters]


# Names and signatures.


def test_every_function_of_nnablas_is_there():
    assert set(SIGNATURES) <= set(dir(F))


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_are_in_nnablas_order(name):
    expected = eval(f"lambda {SIGNATURES[name][1]}: None")  # text of the table
    parameters = list(inspect.signature(getattr(F, name)).parameters.values())
    count = len(inspect.signature(expected).parameters)
    assert _described(parameters[:count]) == _described(inspect.signature(expected).parameters.values())
    if "n_outputs" in inspect.signature(getattr(F, name)).parameters:
        assert [(p.name, p.default) for p in parameters[count : count + 2]] == [("n_outputs", -1), ("outputs", None)]


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_of_nnablas_is_made_of_its_op(name):
    op = SIGNATURES[name][0]
    assert not op or getattr(F, name).spec.name == op


@pytest.mark.parametrize("name", dir(F))
def test_a_function_has_a_name_and_a_docstring(name):
    function = getattr(F, name)
    assert function.__name__ == name
    assert function.__module__ == "atled.functions"
    assert function.__doc__


def test_the_text_of_a_function_can_be_read():
    text = inspect.getsource(F.relu)
    assert text.startswith("def relu(x, inplace=") and "_apply(" in text


# Arguments.


@pytest.mark.parametrize("axis", [1, -1, [1], (1,), np.int64(1), np.array([1]), range(1, 2)])
def test_axes_come_as_a_number_or_any_sequence(axis):
    y = F.sum(leaf([[1, 2], [3, 4]]), axis)
    y.forward()
    assert_array_equal(y.d, [3, 7])


@pytest.mark.parametrize("axes", [(1, 0), [1, 0], np.array([1, 0]), range(1, -1, -1)])
def test_sequences_of_any_kind_do(axes):
    assert F.transpose(nn.Variable((2, 3)), axes).shape == (3, 2)


def test_arguments_may_come_by_position_or_name():
    x, w = nn.Variable((2, 3, 8, 8)), nn.Variable((4, 3, 3, 3))
    by_position = F.convolution(x, w, None, 1, (1, 1), (2, 2), (1, 1), 1)
    by_name = F.convolution(x=x, weight=w, stride=[2, 2], pad=[1, 1])
    assert by_position.shape == by_name.shape == (2, 4, 4, 4)
    assert by_position.parent.info.args == by_name.parent.info.args


def test_n_outputs_is_taken_and_does_nothing():
    assert F.exp(leaf([1]), n_outputs=1).shape == (1,)
    assert len(F.split(leaf([[1], [2]]), 0, 2)) == 2


def test_several_results_come_as_a_tuple_and_one_as_itself():
    assert isinstance(F.split(leaf([[1], [2]]), axis=0), tuple)
    assert isinstance(F.exp(leaf([1])), nn.Variable)


@pytest.mark.parametrize(
    ("x", "w", "base_axis", "shape"),
    [((2, 3, 4), (12, 5, 6), 1, (2, 5, 6)), ((2, 3, 4), (4, 5, 6), 2, (2, 3, 5, 6)), ((2, 3), (6, 5), 0, (5,))],
)
def test_affine_keeps_leading_axes_and_those_of_the_weight(x, w, base_axis, shape):
    assert F.affine(nn.Variable(x), nn.Variable(w), base_axis=base_axis).shape == shape


# outputs=.


def test_outputs_are_where_a_recorded_result_lives():
    x, array = leaf([1, 2], True), nn.NdArray((2,))
    y = F.mul_scalar(x, 3, outputs=[array])
    assert isinstance(y, nn.Variable)
    assert not array.data.any()
    y.forward()
    assert_array_equal(array.data, [3, 6])
    x.d = 5
    y.forward()
    assert_array_equal(array.data, [15, 15])
    y.backward()
    assert_array_equal(x.g, [3, 3])


def test_outputs_may_be_variables_whose_arrays_are_used():
    x, out = leaf([1, 2]), nn.Variable((2,))
    F.exp(x, outputs=[out]).forward()
    assert_allclose(out.d, np.exp([1, 2]), rtol=1e-6)


def test_outputs_of_a_recorded_view_receive_the_values():
    x, array = leaf([1, 2]), nn.NdArray((2, 1))
    F.reshape(x, (2, 1), outputs=[array]).forward()
    assert_array_equal(array.data, [[1], [2]])


def test_a_recorded_elementwise_result_may_live_in_its_input():
    x = leaf([1, 2])
    y = F.mul_scalar(x, 3, outputs=[x.data])
    y.forward()
    assert_array_equal(x.d, [3, 6])


def test_a_recorded_result_in_memory_still_to_be_read_is_refused():
    x = leaf([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="array of its own"):
        F.transpose(x, (1, 0), outputs=[x.data])


def test_every_statistic_may_have_an_output():
    x, parameters = leaf(np.arange(6).reshape(2, 3)), [leaf(np.full((1, 3), v)) for v in (0, 1, 0, 1)]
    arrays = [nn.NdArray((2, 3)), nn.NdArray((1, 3)), nn.NdArray((1, 3))]
    y, _, _ = F.batch_normalization(x, *parameters, output_stat=True, outputs=arrays)
    y.forward()
    assert_array_equal(arrays[1].data, [[1.5, 2.5, 3.5]])


# auto_forward.


def test_auto_forward_computes_at_the_call_and_records():
    x = leaf([2], True)
    with nn.auto_forward():
        y = x * x
        assert_array_equal(y.d, [4])
    assert y.parent.name == "Mul2"
    y.backward()
    assert_array_equal(x.g, [4])
    x.d = 3
    y.forward()
    assert_array_equal(y.d, [9])


def test_auto_forward_ends_with_its_block():
    with nn.auto_forward():
        assert nn.get_auto_forward()
        with nn.auto_forward(False):
            assert not nn.get_auto_forward()
            assert not (leaf([2]) * 2).d.any()
        assert nn.get_auto_forward()
    assert not nn.get_auto_forward()


def test_set_auto_forward_is_for_the_program_or_for_the_block_around():
    nn.set_auto_forward(True)
    try:
        assert nn.get_auto_forward()
        with nn.auto_forward(False):
            assert not nn.get_auto_forward()
        with nn.auto_forward():
            nn.set_auto_forward(False)
            assert not nn.get_auto_forward()
        assert nn.get_auto_forward()
    finally:
        nn.set_auto_forward(False)
    assert not nn.get_auto_forward()


def test_auto_forward_draws_one_mask_for_value_and_gradient():
    x = leaf(np.ones(50), True)
    with nn.auto_forward():
        y = F.dropout(x)
    y.backward()
    assert_array_equal(x.g, y.d)


# Wrong calls.


ELEMENTWISE_PAIRS = [
    "add2", "sub2", "mul2", "div2", "pow2", "maximum2", "minimum2", "equal", "not_equal", "greater", "greater_equal",
    "less", "less_equal", "logical_and", "logical_or", "logical_xor", "squared_error", "absolute_error", "huber_loss",
]  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE_PAIRS)
@pytest.mark.parametrize("shape", [(3,), (), (1, 2, 3)])
def test_elementwise_functions_ask_for_equal_ndim(name, shape):
    a, b = nn.Variable((2, 3)), nn.Variable(shape)
    for inputs in ((a, b), (b, a), (a.data, b.data)):
        with pytest.raises(ValueError, match="axes each"):
            getattr(F, name)(*inputs)


@pytest.mark.parametrize("name", ELEMENTWISE_PAIRS)
def test_elementwise_functions_spread_axes_of_size_one(name):
    assert getattr(F, name)(nn.Variable((2, 1)), nn.Variable((1, 3))).shape == (2, 3)


@pytest.mark.parametrize("value", [1, 1.5, "a", None, np.ones(2), [1, 2], object()])
@pytest.mark.parametrize("call", [F.exp, lambda x: F.add2(leaf([1, 2]), x), lambda x: F.affine(x, leaf([[1]]))])
def test_an_input_that_is_no_array_of_ours_is_refused(call, value):
    with pytest.raises(TypeError, match="What to do: pass"):
        call(value)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: F.sum(x, axis=2), ValueError, "axis"),
        (lambda x: F.sum(x, axis="rows"), TypeError, "axis='rows'"),
        (lambda x: F.sum(x, keepdims="yes"), TypeError, "keepdims='yes'"),
        (lambda x: F.sum(x, axis=1.5), TypeError, "axis=1.5"),
        (lambda x: F.sum(x, axis=True), TypeError, "axis=True"),
        (lambda x: F.relu(x, inplace=2), TypeError, "inplace=2"),
        (lambda x: F.mul_scalar(x, "2"), TypeError, "val='2'"),
        (lambda x: F.mul_scalar(x, None), TypeError, "val=None"),
        (lambda x: F.reshape(x, (4, 4)), ValueError, "has 16 elements"),
        (lambda x: F.reshape(x, "ab"), TypeError, "shape='ab'"),
        (lambda x: F.transpose(x, (0, 0)), ValueError, "axes"),
        (lambda x: F.affine(x, nn.Variable((5, 5))), ValueError, "weight"),
        (lambda x: F.softmax(x, axis=7), ValueError, "axis"),
        (lambda x: F.pad(x, (1, 1), "wrap"), ValueError, "mode='wrap'"),
        (lambda x: F.softmax_cross_entropy(x, nn.Variable((2,))), ValueError, "target"),
        (lambda x: F.batch_matmul(x, nn.Variable((5, 5))), ValueError, "BatchMatmul"),
        (lambda x: F.concatenate(x, nn.Variable((5, 5))), ValueError, "Concatenate"),
        (lambda x: F.stack(x, nn.Variable((5, 5))), ValueError, "Stack"),
        (lambda x: F.max_pooling(x, (3, 3, 3)), ValueError, "MaxPooling"),
        (lambda x: F.convolution(x, nn.Variable((2, 2))), ValueError, "Convolution"),
        (lambda x: F.broadcast(x, (3, 3)), ValueError, "Broadcast"),
        (lambda x: F.one_hot(x, (3,)), ValueError, "OneHot"),
        (lambda x: F.randint(3, 3), ValueError, "high > low"),
    ],
)
def test_a_call_that_does_not_fit_says_what_is_wrong_and_what_to_do(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call(nn.Variable((2, 3)))
    assert "What to do: " in str(caught.value)
    assert caught.value.__class__ in (error, RefusedError)


@pytest.mark.parametrize("function", [F.concatenate, F.stack])
def test_a_function_of_any_number_of_arrays_needs_one(function):
    with pytest.raises((TypeError, ValueError), match="What to do: "):
        function()


def test_an_unknown_function_is_refused_with_the_nearest_name():
    with pytest.raises(AttributeError, match="did you mean 'convolution'"):
        F.convolutoin  # noqa: B018 - the look is what is tested


def test_an_unknown_argument_is_refused_by_name():
    with pytest.raises(TypeError, match="axsi"):
        F.sum(nn.Variable((2,)), axsi=0)


def test_a_refused_call_changes_nothing():
    x, out = leaf([1, 2]), nn.NdArray.from_numpy_array(np.array([7, 7], np.float32))
    for outputs in ([nn.NdArray((3,))], [out, out]):
        with pytest.raises(ValueError, match="What to do"):
            F.exp(x.data, outputs=outputs)
    with pytest.raises(ValueError, match="axes each"):
        F.add2(x.data, nn.NdArray((1, 2)), outputs=[out])
    assert_array_equal(out.data, [7, 7])
    assert_array_equal(x.d, [1, 2])


def test_outputs_that_are_no_list_are_refused():
    with pytest.raises(TypeError, match="pass a list"):
        F.exp(leaf([1]).data, outputs=nn.NdArray((1,)))


def test_parts_of_a_message_that_are_empty_are_left_out():
    assert four_parts("asked", "wrong", "", "do") == "asked: wrong\nWhat to do: do"
