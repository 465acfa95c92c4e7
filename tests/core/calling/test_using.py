"""`using` of every function: the Context of one call."""

import inspect

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.ops.spec import FUNCTIONS
from atled_contexts import ContextError
from wrong_plugin import wrong


@pytest.fixture
def x():
    """Six numbers."""
    return nn.NdArray.from_numpy_array(np.arange(6, dtype=np.float32).reshape(2, 3))


def ran(t):
    """Op and backend of every row."""
    return {(row.op, row.backend) for row in t.rows()}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_takes_it_last(name):
    *_, parameter = inspect.signature(getattr(F, name)).parameters.values()
    assert parameter.name == "using" and parameter.default is None


def test_a_call_on_arrays_runs_where_it_says(x):
    with wrong(), nn.trace() as t:
        F.relu(x, using="wrong")
        F.concatenate(x, x, using="reference")
        F.relu(x, using="reference")
    assert ran(t) == {("ReLU", "wrong"), ("ReLU", "reference"), ("Concatenate", "reference")}


def test_a_recorded_call_keeps_it_for_forward_and_backward():
    v = nn.Variable((2, 3), need_grad=True)
    v.d = 1.0
    with wrong():
        y = F.tanh(v, using="wrong")
        with nn.trace() as t:
            y.forward()
            y.backward()
        assert y.parent.context.backend == ["wrong:float"]
        assert nn.get_current_context().backend != ["wrong:float"]
    assert {("Tanh", "wrong"), ("TanhGradX", "wrong")} <= ran(t)


def test_it_takes_a_type_config_a_list_and_a_context(x):
    assert F.relu(x, using="reference:half").dtype == np.float16
    assert F.relu(x, using=["nowhere", "reference:double"]).dtype == np.float64
    assert F.relu(x, using=nn.Context("reference:double", fallback="raise")).dtype == np.float64


def test_an_entry_without_a_type_config_takes_that_of_the_scope(x):
    with nn.using("reference:double"), wrong():
        assert F.relu(x, using="wrong").dtype == np.float64


def test_it_wins_over_scopes_and_ends_with_the_call(x):
    with wrong(), nn.using("reference"):
        with nn.trace() as t:
            F.exp(x, using="wrong")
            F.exp(x)
        assert ran(t) == {("Exp", "wrong"), ("Exp", "reference")}


def test_a_backend_that_came_later_is_found(x):
    for _ in range(2):
        with pytest.raises(ContextError, match="wrong is absent"):
            F.relu(x, using="wrong")
        with wrong():
            F.relu(x, using="wrong")


@pytest.mark.parametrize(
    ("using", "error", "words"),
    [
        ("referense", ContextError, "did you mean 'reference'?"),
        ("reference:flaot", ContextError, "did you mean 'float'?"),
        ([], ContextError, "the list of backends is empty"),
        (3, TypeError, "pass a backend such as 'cpu'"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(x, using, error, words):
    with pytest.raises(error) as caught:
        F.relu(x, using=using)
    assert words in str(caught.value)


def test_parametric_functions_follow_the_scope():
    nn.clear_parameters()
    v = nn.Variable((2, 3))
    with wrong():
        with nn.using("wrong", fallback="raise"):
            y = PF.affine(v, 4)
        with nn.trace() as t:
            y.forward()
    assert ("Affine", "wrong") in ran(t)
    nn.clear_parameters()


def test_one_call_of_a_parametric_function_or_composite_may_use_other_backends():
    nn.clear_parameters()
    v = nn.Variable((2, 3))
    with wrong():
        y = PF.affine(v, 4, using="wrong")
        z = F.clip_by_value(v, -1, 1, using="reference")
        plain = PF.affine(v, 4)
    assert y.parent.context.backends[0][0] == "wrong"
    assert z.parent.context.backends[0][0] == "reference"
    assert plain.parent.context == nn.get_current_context()
    nn.clear_parameters()


def test_a_parametric_function_with_an_argument_using_keeps_it():
    @PF.parametric_function_api("mine")
    def mine(x, using):
        return using

    assert mine(1, 2) == 2
    assert mine(1, using="this") == "this"


def test_deterministic_reaches_implementations():
    seen = []

    with wrong():
        from atled_contexts import implementations

        (made,) = implementations("ReLU", "wrong")
        made.accepts = lambda call: seen.append(call.deterministic) or True
        v = nn.NdArray((2, 3))
        with nn.using("wrong", deterministic=True):
            F.relu(v)
        with nn.using("wrong"):
            F.relu(v)
    assert seen == [True, False]
