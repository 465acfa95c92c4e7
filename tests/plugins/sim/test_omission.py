"""Auxiliary outputs that a device does not make: max pooling without its places, in every way to run it."""

import contextlib

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim


def pooled(sim, x, **geometry):
    with nn.context_scope(sim):
        h = F.tanh(x)
        y = F.max_pooling(h, (3, 3), stride=(2, 2), pad=(1, 1), **geometry)
        return F.sum(y * y)


def leaf(*shape):
    values = np.random.default_rng(3).standard_normal(shape).astype("f")
    return nn.Variable.from_numpy_array(values, need_grad=True)


def static(sim, x):
    loss = pooled(sim, x)
    for _ in range(2):
        x.grad.zero()
        loss.forward()
        loss.backward()
    return [loss.d.copy(), x.g.copy()]


def rebuilt(sim, x):
    with nn.auto_forward():
        for _ in range(4):
            x.grad.zero()
            loss = pooled(sim, x)
            loss.backward()
    return [loss.d.copy(), x.g.copy()]


def second(sim, x):
    with nn.context_scope(sim):
        (gradient,) = nn.grad([pooled(sim, x)], [x])
        penalty = F.sum(gradient * gradient)
        penalty.forward()
        penalty.backward()
    return [penalty.d.copy(), x.g.copy()]


def second_at_once(sim, x):
    with nn.auto_forward():
        return second(sim, x)


def stepped(sim, x):
    loss = pooled(sim, x)
    with nn.context_scope(sim):
        solver = S.Sgd(0.1)
        solver.set_parameters({"x": x})
        step = nn.compile_step(loss, solver)
        for _ in range(3):
            step()
    return [loss.d.copy(), x.d.copy()]


def imperative(sim, x):
    with nn.context_scope(sim):
        return [F.max_pooling(x.data, (2, 2), ignore_border=False).data.copy() for _ in range(3)]


WAYS = [static, rebuilt, second, second_at_once, stepped, imperative]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_gives_what_it_gives_with_places(sim, way):
    expected = way(sim, leaf(2, 3, 7, 7))
    with atled_sim.omit({"MaxPooling"}):
        for want, got in zip(expected, way(sim, leaf(2, 3, 7, 7)), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("way", [static, rebuilt, stepped], ids=lambda way: way.__name__)
def test_the_pair_without_places_ran(sim, way):
    with atled_sim.omit({"MaxPooling"}), nn.trace() as trace:
        way(sim, leaf(2, 3, 7, 7))
    ops = {row.op for row in trace.rows()}
    assert "MaxPoolingGradByValue" in ops
    assert "MaxPoolingGrad" not in ops


def test_no_memory_is_taken_for_places(sim):
    x = leaf(2, 3, 7, 7)
    loss = pooled(sim, x)
    with atled_sim.omit({"MaxPooling"}):
        loss.forward()
        plan = loss.plan
    (step,) = (step for step in plan.steps if step.name == "MaxPooling")
    assert step.node.decision.call.wanted == (True, False)
    assert "without place" in repr(step.node.decision.call)
    assert {slot.desc.dtype.name for slot in plan.slots} == {"float32"}


def test_the_pair_keeps_places_where_the_gradient_by_value_is_refused(sim):
    with atled_sim.omit({"MaxPooling"}), atled_sim.refuse({"MaxPoolingGradByValue"}), nn.trace() as trace:
        static(sim, leaf(2, 3, 7, 7))
    assert "MaxPoolingGrad" in {row.op for row in trace.rows()}


def test_a_verification_passes_over_what_was_left_out(sim):
    with atled_sim.omit({"MaxPooling"}), nn.verify() as verification:
        static(sim, leaf(2, 3, 7, 7))
    assert verification.checked


def forward_without_places(sim, x):
    loss = pooled(sim, x)
    with atled_sim.omit({"MaxPooling"}):
        loss.forward()
    x.grad.zero()
    return loss


def test_a_backward_that_reads_places_which_were_left_out_has_them_made(sim):
    x = leaf(2, 3, 7, 7)
    forward_without_places(sim, x).backward()
    np.testing.assert_array_equal(x.g, static(sim, leaf(2, 3, 7, 7))[1])


def test_places_are_not_made_of_what_was_written_since(sim):
    x = leaf(2, 3, 7, 7)
    loss = forward_without_places(sim, x)
    x.d = -x.d
    with pytest.raises(RuntimeError, match="an array that it is computed from was written since"):
        loss.backward()
    loss.forward()
    loss.backward()


def test_places_of_an_earlier_forward_are_not_taken_for_those_of_a_later_one(sim):
    x = leaf(2, 3, 7, 7)
    loss = pooled(sim, x)
    loss.forward()
    with atled_sim.omit({"MaxPooling"}):
        x.d = -x.d
        loss.forward()
    with pytest.raises(RuntimeError, match="it was left out"):
        loss.backward()


@pytest.mark.parametrize("knows_it", [True, False])
def test_a_device_that_knows_channel_last_pools_so_without_places_as_well(sim, knows_it):
    def train():
        x = leaf(2, 5, 6, 3)
        with nn.context_scope(sim):
            y = F.max_pooling(x, (2, 2), channel_last=True)
            loss = F.sum(y * y)
        loss.forward()
        loss.backward()
        return x.g.copy()

    expected = train()
    order = atled_sim.prefer_layout("") if knows_it else contextlib.nullcontext()
    with order, atled_sim.omit({"MaxPooling"}), nn.trace() as trace:
        np.testing.assert_array_equal(train(), expected)
    assert ("MaxPoolingGradByValue" in {row.op for row in trace.rows()}) == knows_it


def test_a_device_that_cannot_make_places_computes_the_pair_without_them(sim):
    with atled_sim.omit({"MaxPooling"}, always=True), nn.trace() as trace:
        static(sim, leaf(2, 3, 7, 7))
    rows = {row.op: row.backend for row in trace.rows()}
    assert rows["MaxPooling"] == rows["MaxPoolingGradByValue"] == "sim"


def test_a_device_that_cannot_make_places_leaves_the_pair_to_others_where_it_refuses_the_gradient(sim):
    quiet = nn.Context(sim.backend, sim.array_class, sim.device_id, fallback="quiet")
    with atled_sim.omit({"MaxPooling"}, always=True), atled_sim.refuse({"MaxPoolingGradByValue"}), nn.trace() as trace:
        static(quiet, leaf(2, 3, 7, 7))
    rows = {row.op: row.backend for row in trace.rows()}
    assert rows["MaxPooling"] == "reference" and "MaxPoolingGrad" in rows
