"""Calls read back: how values of a description are computed from given ones, gradients included."""

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description


def described(*shapes):
    d = Description()
    return d, *(d.leaf(NdArray.from_numpy_array(np.ones(shape, np.float32))) for shape in shapes)


def named(calls):
    return [call.spec.name for call in calls.made]


def test_calls_are_read_up_to_what_is_given():
    d, x = described((2, 3))
    y = d.call("Exp", x)
    z = d.call("Tanh", y)
    calls = d.calls([z], [y])
    assert named(calls) == ["Tanh"]
    assert calls.made[0].inputs == (y,) and calls.values == [calls.made[0].number]
    assert named(d.calls([z], [x])) == ["Exp", "Tanh"]


def test_what_is_given_is_itself_and_needs_no_call():
    d, x = described((2, 3))
    assert d.calls([x], [x]) == ([], [x])


def test_gradients_are_read_as_the_calls_that_make_them():
    d, x, error = described((2, 3), (2, 3))
    y = d.call("Tanh", x)
    calls = d.calls(d.gradients(y, [x], error), [x, y, error])
    (call,) = calls.made
    assert call.spec.name == "TanhGradX" and call.inputs == (error, y)
    assert call.outputs[0].shape == (2, 3) and call.outputs[0].dtype == np.float32


def test_numbers_are_attributes_with_their_values():
    d, x = described((2, 3))
    y = d.call("Mul2", x, d.number(0.5))
    z = d.call("MulScalar", y, val=3.0)
    assert [dict(call.attributes) for call in d.calls([z], [x]).made] == [{"x1": 0.5}, {"val": 3.0}]


def test_a_call_is_read_once():
    d, x = described((2, 3))
    calls = d.calls([d.call("Exp", x), d.call("Exp", x), d.call("MulScalar", x, val=0.0)], [x])
    assert named(calls) == ["Exp", "MulScalar"] and calls.values[0] == calls.values[1]


def test_numbers_that_are_equal_but_not_alike_are_two():
    d, x = described((2, 3))
    calls = d.calls([d.call("MulScalar", x, val=0.0), d.call("MulScalar", x, val=-0.0)], [x])
    assert len(calls.made) == 2


def test_views_of_one_array_are_values_of_their_own():
    d = Description()
    whole = View(NdArray.from_numpy_array(np.ones((3, 4), np.float32)))
    x, part = d.leaf(whole), d.leaf(whole[1:])
    y = d.call("Mul2", part, part)
    gx, gpart = d.gradients(y, [x, part])
    calls = d.calls([gx, gpart], [x, part, y])
    assert named(calls) == ["Constant", "Constant", "Mul2", "Add2"]
    assert calls.made[0].outputs[0].shape == (3, 4), "zeros: views are told apart"
