"""Casts as parts of formulas: fewer steps, the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled as nn
import atled.functions as F

UNARY = (F.tanh, F.exp, lambda x: F.mul_scalar(x, -0.7), lambda x: F.add_scalar(x, 0.3))
BINARY = (F.add2, F.sub2, F.mul2)
CONFIGS = ("half", "float", "double")
DTYPES = (np.float16, np.float32, np.float64)


def in_config(type_config, backend="compiling"):
    return nn.context_scope(nn.Context([f"{backend}:{type_config}"], fallback="raise"))


def names(variable):
    return [step.name for step in variable.plan.steps]


def leaf(dtype, shape=(2, 3)):
    array = nn.NdArray.from_numpy_array(np.linspace(-2, 2, 6).reshape(shape).astype(dtype))
    return nn.Variable.from_numpy_array(array.data, need_grad=True) if dtype == np.float32 else _of(array)


def _of(array):
    variable = nn.Variable(array.shape, need_grad=True)
    variable.data = array
    return variable


def test_what_is_wider_is_widened_as_it_is_read():
    with in_config("float"):
        y = F.tanh(leaf(np.float16))
        assert names(y) == ["Cast+Tanh"]
        y.forward()
    np.testing.assert_array_equal(
        y.d, np.tanh(np.linspace(-2, 2, 6).astype(np.float16).astype(np.float32)).reshape(2, 3)
    )


def test_what_is_narrower_is_rounded_as_it_is_stored():
    x = leaf(np.float32)
    with in_config("float"):
        h = F.tanh(x)
    with in_config("half"):
        y = F.sum(h, axis=1)
    assert names(y) == ["Tanh+Cast", "Sum"]


def test_a_result_that_others_read_is_stored_in_both_dtypes():
    x = leaf(np.float32)
    with in_config("float"):
        h = F.tanh(x)
        z = F.sum(h, axis=1)
    with in_config("half"):
        y = F.sum(h, axis=1)
    with in_config("float"):
        y = F.add2(y, z)
    assert "Tanh+Cast" in names(y) and len(names(y)) == 4
    (step,) = (step for step in y.plan.steps if step.name == "Tanh+Cast")
    assert [y.plan.slots[slot].desc.dtype for slot in step.written] == [np.float32, np.float16]


def test_a_rounding_between_two_formulas_stays():
    with in_config("float"):
        h = F.tanh(leaf(np.float32))
    with in_config("half"):
        h = F.exp(h)
    with in_config("float"):
        y = F.tanh(h)
    assert names(y) == ["Tanh+Cast", "Exp", "Cast+Tanh"]


def test_other_kinds_of_steps_have_their_casts():
    x = leaf(np.float16)
    with in_config("float"):
        y = F.sum(x, axis=1) + F.sum(F.tanh(x), axis=1)
    assert names(y) == ["Cast", "Sum", "Cast+Tanh", "Sum", "Add2"]


def test_a_formula_is_computed_in_the_dtype_that_it_was():
    x = leaf(np.float32)
    with in_config("double"):
        y = F.exp(x)
    assert names(y) == ["Cast", "Exp"]  # of float32 alone it would be computed in float32


@st.composite
def programs(draw):
    """A graph as a list of steps: (type config, is it binary, which function, which earlier values)."""
    steps = []
    for count in range(3, 3 + draw(st.integers(1, 12))):
        binary = draw(st.booleans())
        function = draw(st.integers(0, len(BINARY if binary else UNARY) - 1))
        earlier = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        steps.append((draw(st.sampled_from(CONFIGS)), binary, function, *earlier))
    return steps


def run(program, backend):
    """Results and gradients of a program, and the count of steps."""
    values = [leaf(dtype) for dtype in DTYPES]
    for type_config, binary, function, first, second in program:
        with in_config(type_config, backend):
            values.append(BINARY[function](values[first], values[second]) if binary else UNARY[function](values[first]))
    with in_config("float", backend):
        loss = F.sum(values[-1] * values[len(values) // 2])
        loss.forward()
        loss.backward()
        steps = len(loss.plan.steps)
    return [loss.d.copy(), *(x.g.copy() for x in values[:3])], steps


@settings(max_examples=150, deadline=None, derandomize=True)
@given(programs())
def test_the_bits_are_those_of_the_casts(program):
    with np.errstate(all="ignore"):
        wanted, apart = run(program, "fusing")
        found, together = run(program, "compiling")
    assert together <= apart
    for want, got in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("type_config", CONFIGS)
def test_a_verification_computes_casts_too(type_config):
    with in_config("float"):
        h = F.tanh(leaf(np.float16))
    with in_config(type_config):
        y = F.sum(h * 2.0, axis=1)
    with nn.verify() as checks:
        y.forward()
    assert any("Cast" in op and "Tanh" in op for op in checks.by_op)
