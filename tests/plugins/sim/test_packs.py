"""Packed weights of arrays that travel between host and device are those of the last write, wherever that was."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S

pytest.importorskip("atled_cpu_numba")

RNG = np.random.default_rng(0)
IMAGES, WEIGHT = RNG.standard_normal((8, 300), "f"), RNG.standard_normal((300, 200), "f")


def product(images, weight, context):
    with nn.context_scope(nn.Context(context)):
        return F.affine(images, weight)


def test_an_update_on_the_device_is_seen_by_a_graph_on_the_host():
    images = nn.Variable.from_numpy_array(IMAGES)
    weight = nn.Variable.from_numpy_array(WEIGHT, need_grad=True)
    on_host = product(images, weight, "cpu")
    for _ in range(3):
        on_host.forward()
    assert nn.memory_statistics()["caches"]["constants"] > 0
    with nn.context_scope(nn.Context("sim")):
        loss = F.mean(product(images, weight, "sim"))
        solver = S.Sgd(10.0)
    solver.set_parameters({"w": weight})
    for _ in range(6):
        loss.forward()
        weight.grad.zero()
        loss.backward()
        solver.update()
        for _ in range(2):
            on_host.forward()
            np.testing.assert_allclose(on_host.d, IMAGES @ weight.data.data, rtol=1e-3, atol=1e-3)
