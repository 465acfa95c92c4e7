"""What depends on parameters alone is computed once, as long as nobody writes them and there is room."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.graph.inference import fixed_values
from atled_contexts import Context

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"], fallback="quiet"),
    "reference": Context(["reference:float"]),
}
ONES = np.ones((1, 3, 8, 8), np.float32)


@pytest.fixture(params=CONTEXTS, autouse=True)
def context(request):
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(CONTEXTS[request.param]):
        yield
    nn.clear_parameters()
    nn.set_constants_limit(1 << 30)


@pytest.fixture
def computed(monkeypatch):
    """The plans that were run for values of parameters alone."""
    plans = []
    run = fixed_values._computed
    monkeypatch.setattr(fixed_values, "_computed", lambda plan, cells: plans.append(plan) or run(plan, cells))
    return plans


def network():
    x = nn.Variable((1, 3, 8, 8))
    h = PF.convolution(x, 8, (3, 3), name="c", w_init=np.full((8, 3, 3, 3), 0.1), b_init=np.arange(8.0))
    y = F.relu(PF.batch_normalization(h, batch_stat=False, name="n"))
    nn.get_parameters(grad_only=False)["n/bn/var"].d = 1
    return x, y


def held_bytes():
    caches = nn.memory_statistics()["caches"]
    return caches["bytes of values of inferences"] + caches["bytes of constants"]


def test_values_are_computed_once_for_all_batch_sizes_of_one_plan(computed):
    x, y = network()
    infer = nn.inference(y, x)
    first = infer(ONES)
    count = len(computed)
    assert count == 1  # weight and bias of the one convolution
    for _ in range(3):
        np.testing.assert_array_equal(infer(ONES), first)
    assert len(computed) == count


def test_a_write_has_them_computed_again(computed):
    x, y = network()
    infer = nn.inference(y, x)
    before = infer(ONES)
    nn.get_parameters(grad_only=False)["n/bn/mean"].d = -1
    after = infer(ONES)
    assert len(computed) == 2
    np.testing.assert_allclose(after - before, 1 / np.sqrt(1 + 1e-5), rtol=1e-5)


def test_without_room_they_are_computed_each_time_and_that_is_said_once(computed, caplog):
    x, y = network()
    infer = nn.inference(y, x)
    wanted = infer(ONES)
    nn.clear_memory_cache()
    nn.set_constants_limit(0)
    del computed[:]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            np.testing.assert_allclose(infer(ONES), wanted, rtol=1e-6)
    assert len(computed) == 3
    assert held_bytes() == 0
    assert len([record for record in caplog.records if "do not fit" in record.message]) == 1


def test_cleared_memory_is_given_back():
    x, y = network()
    infer = nn.inference(y, x)
    wanted = infer(ONES)
    assert held_bytes() >= 8 * 3 * 3 * 3 * 4
    nn.clear_memory_cache()
    np.testing.assert_array_equal(infer(ONES), wanted)
    del infer


def test_a_view_that_somebody_holds_is_read_at_each_call_and_that_is_said_once(computed, caplog):
    x, y = network()
    infer = nn.inference(y, x)
    view = nn.get_parameters()["n/bn/beta"].d
    before = infer(ONES)
    with caplog.at_level(logging.WARNING):
        view[...] = 2
        np.testing.assert_allclose(infer(ONES) - before, 2, rtol=1e-5)
    view[...] = 3
    np.testing.assert_allclose(infer(ONES) - before, 3, rtol=1e-5)
    del view
    infer(ONES)
    count = len(computed)
    infer(ONES)
    assert len(computed) == count


def test_calls_of_parameters_alone_are_computed_once(computed):
    x = nn.Variable((2, 3))
    w = nn.Variable.from_numpy_array(np.arange(6, dtype=np.float32).reshape(2, 3))
    y = F.affine(x, F.transpose(F.exp(w), (1, 0)))
    infer = nn.inference(y, x)
    found = [infer(np.ones((2, 3), np.float32)) for _ in range(3)]
    np.testing.assert_allclose(found[0], np.broadcast_to(np.exp(w.d).sum(1), (2, 2)), rtol=1e-6)
    assert len(computed) == 1
    assert "Exp" not in str(infer.plan)
