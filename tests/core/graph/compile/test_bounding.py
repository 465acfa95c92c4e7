"""Bounding: which steps a kernel is told as two numbers, and that whoever looks sees what they compute."""

import math

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.compile.bounding import interval_of
from atled.ops.formula import Program
from atled_contexts import verify

pytest.importorskip("atled_cpu_numba")  # the kernels with bounds are its

CPU = nn.Context(["cpu:float"], fallback="raise")
INF = math.inf


@pytest.mark.parametrize(
    ("formula", "interval"),
    [
        ("maximum(x, 0)", (0, INF)),
        ("minimum(x, 6)", (-INF, 6)),
        ("minimum(maximum(x, 0), 6)", (0, 6)),
        ("maximum(minimum(x, 6), 0)", (0, 6)),
        ("maximum(maximum(x, 0), 1)", (1, INF)),
        ("minimum(maximum(x, 3), 2)", (2, 2)),  # what is said last counts
        ("maximum(minimum(x, 2), 3)", (3, 3)),
        ("x", None),
        ("maximum(0, x)", None),
        ("maximum(x, x)", None),
        ("maximum(x + 1, 0)", None),
        ("2 * maximum(x, 0)", None),
        ("where(x > 0, x, 0)", None),
    ],
)
def test_formulas_that_only_bound_what_they_read_are_found(formula, interval):
    assert interval_of(Program(("x",), (), (("y", formula),))) == interval


def test_formulas_of_several_inputs_or_outputs_do_more():
    assert interval_of(Program(("x", "z"), (), (("y", "maximum(x, 0)"),))) is None
    assert interval_of(Program(("x",), (), (("y", "maximum(x, 0)"), ("z", "minimum(x, 0)")))) is None
    assert interval_of(Program(("x",), ("low",), (("y", "maximum(x, low)"),))) is None


@pytest.mark.parametrize(("low", "high"), [(0, math.nan), (math.nan, 6), (math.nan, INF), (-INF, math.nan)])
def test_a_bound_that_is_nan_makes_everything_nan(low, high):
    with nn.context_scope(CPU):
        x = nn.Variable.from_numpy_array(np.random.default_rng(1).normal(size=(2, 8, 9, 9)))
        w = nn.Variable.from_numpy_array(np.random.default_rng(2).normal(size=(16, 8, 1, 1)))
        y = F.minimum_scalar(F.maximum_scalar(F.convolution(x, w), low), high)
        y.forward()
        assert np.isnan(y.d).all()
        assert np.isnan(nn.inference(y, x)(x.d)).all()


def convolution():
    rng = np.random.default_rng(0)
    x, w = (nn.Variable.from_numpy_array(rng.normal(size=shape)) for shape in ((1, 16, 56, 56), (9, 16, 1, 1)))
    return F.convolution(x, w)


def bounded(plan):
    """The steps that a carrier was told as two numbers."""
    return [carried.step.name for step in plan.steps for carried in step.carried if carried.bounds >= 0]


def test_a_result_that_others_read_is_bounded_by_the_step_itself():
    with nn.context_scope(CPU):
        held = convolution()
        y = F.relu(held)
        y.forward()
        assert bounded(y.plan) == []
        assert held.d.min() < 0
        np.testing.assert_array_equal(y.d, np.maximum(held.d, 0))


def test_a_verified_run_sees_the_result_before_it_is_bounded():
    with nn.context_scope(CPU):
        y = F.relu(convolution())
        with verify():  # computes both steps, one by one, and compares what each of them makes
            y.forward()
        assert bounded(y.plan) == ["ReLU"]
        assert y.d.min() == 0


def test_gradients_pass_what_was_not_bounded():
    with nn.context_scope(CPU):
        x = nn.Variable.from_numpy_array(np.random.default_rng(1).normal(size=(1, 8, 12, 16)), need_grad=True)
        w = nn.Variable.from_numpy_array(np.random.default_rng(2).normal(size=(7, 8, 1, 1)))
        y = F.relu(F.convolution(x, w))
        y.forward()
        y.backward()
        passed = np.einsum("mc,nmhw->nchw", w.d[:, :, 0, 0], (y.d > 0).astype(np.float32))
        np.testing.assert_allclose(x.g, passed, rtol=1e-4, atol=1e-5)
