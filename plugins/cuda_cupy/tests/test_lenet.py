"""A convolutional network's training step: one program each way, with the losses of the reference."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.parameter import clear_parameters
from atled_contexts import Context, get_extension_context


def network(x, t):
    h = F.relu(F.max_pooling(PF.convolution(x, 8, (5, 5), name="conv1"), (2, 2)))
    h = F.relu(F.max_pooling(PF.convolution(h, 16, (3, 3), name="conv2"), (2, 2)))
    h = F.relu(PF.affine(h, 20, name="affine1"))
    return F.mean(F.softmax_cross_entropy(PF.affine(h, 10, name="affine2"), t))


def trained(context):
    """Losses of some steps, and the plans of forward and backward."""
    clear_parameters()
    nn.seed(0)
    rng, losses = np.random.default_rng(0), []
    with nn.context_scope(context):
        x, t = nn.Variable((4, 1, 18, 18)), nn.Variable((4, 1))
        loss = network(x, t)
        solver = S.Momentum(0.1)
        solver.set_parameters(nn.get_parameters())
        for _ in range(4):
            x.d, t.d = rng.standard_normal(x.shape), rng.integers(0, 10, t.shape)
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.update()
            losses.append(float(loss.d))
        (backward,) = loss.value.roots.backward.bindings.values()
    return losses, str(loss.plan), str(backward.plan)


@pytest.mark.parametrize(("type_config", "error"), [("float", 1e-5), ("half", 2e-2), ("bf16", 1e-1), ("tf32", 1e-2)])
def test_a_step_is_one_program_each_way_and_learns_as_the_reference(type_config, error):
    losses, *plans = trained(get_extension_context("cuda", type_config=type_config, fallback="raise"))
    expected, *_ = trained(Context(["reference:float"]))
    np.testing.assert_allclose(losses, expected, rtol=error)
    for plan in plans:
        assert plan.count("device program of") == 1 and "Python steps" not in plan and "native" not in plan, plan
