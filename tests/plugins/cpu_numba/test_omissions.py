"""Auxiliary outputs on backend cpu: left out where nobody reads them, made and read where a gradient does."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context

CONFIGS = pytest.mark.parametrize("config", ["float", "double", "half"])
CALLS = {
    "MaxPooling": lambda x: F.max_pooling(x, (3, 3), stride=(2, 2), pad=(1, 1)),
    "Max": lambda x: F.max(x, axis=3),
    "Min": lambda x: F.min(x, axis=(1, 2)),
}
OPS = pytest.mark.parametrize("op", CALLS)


@pytest.fixture(autouse=True)
def static():
    nn.clear_parameters()
    with nn.auto_forward(False):
        yield


def values():
    return np.random.default_rng(1).standard_normal((2, 3, 9, 10)).astype(np.float32)


def recorded(op, config, need_grad):
    """A leaf, the call of it behind tanh, and a scalar."""
    x = nn.Variable.from_numpy_array(values(), need_grad=need_grad)
    with nn.context_scope(Context([f"cpu:{config}", f"reference:{config}"], fallback="raise")):
        y = CALLS[op](F.tanh(x))
        return x, y, F.sum(y * y)


def wanted_of(plan, op):
    (step,) = [step for step in plan.steps if step.name == op]
    return step.node.decision.call.wanted


@OPS
@CONFIGS
def test_an_inference_leaves_them_out(op, config):
    x, y, _ = recorded(op, config, need_grad=True)
    infer = nn.inference(y, x)
    found = infer(values())
    assert wanted_of(infer.plan, op) == (True, False)
    made = {slot.desc.dtype.name for slot in infer.plan.slots}
    assert not made & {"uint8", "int64"}
    y.forward()
    np.testing.assert_allclose(found, y.d, rtol=2e-3 if config == "half" else 1e-6)


@OPS
@CONFIGS
def test_a_forward_before_a_backward_makes_them_and_the_gradient_reads_them(op, config):
    x, _, loss = recorded(op, config, need_grad=True)
    with nn.trace() as trace:
        loss.forward()
        loss.backward()
    assert wanted_of(loss.plan, op) == (True, True)
    ran = {name for row in trace.rows() for name in row.op.split("+")}
    assert ("MaxPoolingGrad" if op == "MaxPooling" else "MaxMinGrad") in ran
    assert "MaxPoolingGradByValue" not in ran
    found = x.g.copy()
    with nn.context_scope(Context([f"reference:{config}"])):
        other = nn.Variable.from_numpy_array(values(), need_grad=True)
        y = CALLS[op](F.tanh(other))
        loss = F.sum(y * y)
        loss.forward()
        loss.backward()
    np.testing.assert_allclose(found, other.g, rtol=1e-2 if config == "half" else 1e-5, atol=1e-6)


@OPS
def test_a_step_behind_it_is_computed_on_its_way(op):
    x = nn.Variable((2, 3, 9, 10))
    with nn.context_scope(Context(["cpu:float"])):
        infer = nn.inference(F.relu(CALLS[op](x)), x)
    (step,) = [step for step in infer.plan.steps if step.name == "ReLU"]
    assert step.carrier is not None
    y = CALLS[op](nn.Variable.from_numpy_array(values()))
    y.forward()
    np.testing.assert_array_equal(infer(values()), np.maximum(y.d, 0))
