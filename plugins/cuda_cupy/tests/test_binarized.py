"""Layers with binary weights in a network that trains: as on the reference, and within one program."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.parameter import clear_parameters


def train(context, affine, convolution):
    """Losses, parameters, and the plan's listing."""
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((8, 2, 6, 6)).astype(np.float32), rng.integers(0, 4, (8, 1))
    clear_parameters()
    nn.seed(0)
    losses = []
    with nn.context_scope(context):
        x, t = nn.Variable.from_numpy_array(images), nn.Variable.from_numpy_array(labels)
        h = F.tanh(convolution(x, 6, (3, 3), rng=np.random.RandomState(0)))
        loss = F.mean(F.softmax_cross_entropy(affine(h, 4, rng=np.random.RandomState(0)), t))
        solver = S.Sgd(0.1)
        solver.set_parameters(nn.get_parameters())
        for _ in range(4):
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.update()
            losses.append(loss.d.item())
        return losses, {name: p.d.copy() for name, p in nn.get_parameters(grad_only=False).items()}, str(loss.plan)


@pytest.mark.parametrize("kind", ["binary_connect", "binary_weight"])
def test_networks_train_as_on_the_reference(cuda, kind):
    layers = getattr(PF, f"{kind}_affine"), getattr(PF, f"{kind}_convolution")
    losses, parameters, plan = train(cuda, *layers)
    expected_losses, expected, _ = train(nn.Context(["reference:float"]), *layers)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    assert parameters.keys() == expected.keys()
    for name, value in parameters.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)
    assert "device program" in plan
    assert "Python steps" not in plan
