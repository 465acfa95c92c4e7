"""What depends on parameters alone is computed once, as long as nobody writes them and there is room."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.arrays.cell import ArrayCell
from atled.graph.inference import fixed_values
from atled.graph.run import packs
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
    nn.clear_memory_cache()  # what other tests left would go amid this one
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


def deep_network(count: int = 5):
    x = h = nn.Variable((1, 3, 8, 8))
    for number in range(count):
        h = PF.convolution(h, 16, (3, 3), pad=(1, 1), with_bias=False, name=f"c{number}")
        h = F.relu(PF.batch_normalization(h, batch_stat=False, name=f"n{number}"))
    return x, PF.affine(F.global_average_pooling(h), 4, name="head")


def test_a_write_has_only_that_computed_and_packed_again_which_depends_on_it(computed, monkeypatch):
    packed = []
    fill = packs._fill
    monkeypatch.setattr(
        packs, "_fill", lambda item, storage: packed.append(item.packed.step.name) or fill(item, storage)
    )
    x, y = deep_network()
    infer = nn.inference(y, x)
    for _ in range(10):
        infer(ONES)
    assert len(computed) == 5
    bytes_before = held_bytes()
    for name, values in (("n3/bn/var", 1), ("c2/conv/W", 1), ("head/affine/W", 0)):
        parameter = nn.get_parameters(grad_only=False)[name]
        parameter.d = parameter.d + 0.5
        before = len(computed), len(packed)
        for _ in range(9):
            found = infer(ONES)
        assert len(computed) - before[0] == values, name
        assert len(packed) - before[1] <= 1, name
        assert held_bytes() == bytes_before, name
    x.d = ONES
    y.forward()
    np.testing.assert_allclose(found, y.d, rtol=1e-4)


def test_what_most_values_do_not_depend_on_may_be_written_at_each_call(computed):
    x, y = deep_network()
    infer = nn.inference(y, x)
    infer(ONES)
    assert len(computed) == 5
    for number in range(12):
        nn.get_parameters()["head/affine/b"].d = number
        nn.get_parameters()["n4/bn/beta"].d = number
        infer(ONES)
        assert len(computed) == 6 + number
    assert not nn.explain(infer).note


def test_values_are_taken_over_by_what_they_were_read_from():
    parameters = [ArrayCell(1), ArrayCell(1)]
    for cell in parameters:
        cell.settle()
    values = fixed_values.FixedValues(parameters)
    first = values.current()
    kept = []
    for number, cell in enumerate(parameters):
        fixed = SimpleNamespace(keys=(number,), computed=lambda cells, read=cell: ([ArrayCell(1)], [read]))
        compiled = SimpleNamespace(fixed={number: fixed})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fixed_values, "FoldedOnHost", SimpleNamespace)
            kept.append(first.value(number, compiled, parameters))
    parameters[0].fill(2)
    second = values.current()
    assert second is not first
    assert second._known.get(0) is None and second._known.get(1) is kept[1]


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
