"""Failures of the device while graphs run: errors that say what happened, and nothing left half-done."""

import contextlib
import gc

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim
from atled.limits.caches import clear_caches
from atled_contexts import context_scope
from atled_sim import faults


def network(context):
    w = nn.Variable.from_numpy_array(np.linspace(-1, 1, 12, dtype="f").reshape(4, 3), need_grad=True)
    x = nn.Variable.from_numpy_array(np.linspace(0, 1, 8, dtype="f").reshape(2, 4))
    with context_scope(context):
        loss = F.sum(F.tanh(F.affine(x, w)))
        solver = S.Sgd(0.1)
        solver.set_parameters({"w": w})
    return x, w, loss, solver


def train(loss, solver, context):
    loss.forward()
    solver.zero_grad()
    loss.backward()
    with context_scope(context):
        solver.update()


def words(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("allocation", "memory on SimArray:0 for a plan of"),
        ("upload", "while a plan fetched float32[8] to SimArray:0"),
        ("launch", "while sim ran Affine(float32[2, 4], float32[4, 3]"),
    ],
)
def test_the_error_says_what_failed_and_for_what(sim, operation, expected):
    _, _, loss, _ = network(sim)
    clear_caches()
    gc.collect()  # plans that other tests left may have an arena that is large enough
    with faults.fail(operation), pytest.raises(atled_sim.SimFault) as caught:
        loss.forward()
    assert "plugin sim" in words(caught.value)
    assert expected in words(caught.value)


def test_a_failed_download_says_so(sim):
    _, _, loss, _ = network(sim)
    loss.forward()
    with faults.fail("download"), pytest.raises(atled_sim.SimFault, match="download of"):
        loss.d  # noqa: B018  # reading is what fails
    assert np.isfinite(loss.d)


def test_a_failed_copy_inside_a_plan_says_so():
    with atled_sim.refuse({"Tanh"}):
        _, _, loss, _ = network(nn.get_extension_context("sim", fallback="quiet"))
        with faults.fail("download"), pytest.raises(atled_sim.SimFault) as caught:
            loss.forward()
    assert "while a plan copied float32[2, 3] from SimArray:0 to host" in words(caught.value)


@pytest.mark.parametrize("operation", ["allocation", "upload", "launch"])
@pytest.mark.parametrize("warm", [False, True])
def test_after_any_failure_the_next_step_is_right(sim, operation, warm):
    reference = nn.Context("reference")
    _, expected, loss, solver = network(reference)
    for _ in range(2 + warm):
        train(loss, solver, reference)
    for nth in range(1, 40):
        x, w, loss, solver = network(sim)
        if warm:
            train(loss, solver, sim)
        with faults.fail(operation, nth) as fault, contextlib.suppress(atled_sim.SimFault):
            x.d = x.d.copy()
            loss.forward()
            solver.zero_grad()
            loss.backward()
        if not fault.happened:
            break
        train(loss, solver, sim)
        train(loss, solver, sim)
        np.testing.assert_array_equal(w.d, expected.d)
    assert nth > 1 or (warm and operation == "allocation")


def test_a_failed_backward_leaves_nothing_for_the_solver(sim):
    for nth in range(1, 20):
        _, w, loss, solver = network(sim)
        before = w.d.copy()
        loss.forward()
        solver.zero_grad()
        with faults.fail("launch", nth) as fault, contextlib.suppress(atled_sim.SimFault):
            loss.backward()
        if not fault.happened:
            break
        with context_scope(sim):
            solver.update()
        np.testing.assert_array_equal(w.d, before)
    assert nth > 3


def test_failures_leak_no_memory(sim, device):
    def fail_everywhere():
        for operation in ("allocation", "upload", "launch"):
            for nth in (1, 2, 3):
                _, _, loss, solver = network(sim)
                with faults.fail(operation, nth), pytest.raises(atled_sim.SimFault):
                    train(loss, solver, sim)

    before = device.memory.bytes_in_use
    fail_everywhere()
    gc.collect()
    assert device.memory.bytes_in_use == before


@pytest.mark.parametrize("operation", ["upload", "launch"])
def test_an_update_that_fails_leaves_changes_of_the_gradient_waiting(sim, operation):
    for nth in range(1, 20):
        _, w, loss, solver = network(sim)
        loss.forward()
        loss.backward()
        start, gradient = w.d.copy(), w.g.copy()
        expected = 2 * gradient + np.float32(0.5) * start
        with context_scope(sim):
            with faults.fail(operation, nth) as fault, contextlib.suppress(atled_sim.SimFault):
                solver.scale_grad(2)
                solver.weight_decay(0.5)
                solver.update()
            if not fault.happened:
                break
            np.testing.assert_array_equal(w.d, start)
            solver.update()
        np.testing.assert_allclose(w.g, expected, rtol=1e-6)
        np.testing.assert_allclose(w.d, start - np.float32(0.1) * expected, rtol=1e-6)
    assert nth > 1


def test_a_compiled_step_whose_backward_fails_moves_nothing(sim):
    updates = sum(bool(step.node.spec.inplace) for step in two_layers(sim)[-1].plan.steps if step.node.spec)
    moved = []
    for nth in range(1, 60):
        weights, step = two_layers(sim)
        before = [w.d.copy() for w in weights]
        with faults.fail("launch", nth) as fault, contextlib.suppress(atled_sim.SimFault):
            step()
        if not fault.happened:
            break
        moved.append(any(not np.array_equal(w.d, old) for w, old in zip(weights, before, strict=True)))
    # Only a launch of an update itself may come too late: the first one is the first to be missed.
    assert len(moved) > updates + 3
    assert not any(moved[: 1 - updates])


def two_layers(context):
    """Weights of different uses, one of them elementwise, and the step that trains them."""
    rng = np.random.default_rng(0)
    shapes = [(2, 4), (4, 3), (2, 3), (3, 5)]
    x, *weights = (nn.Variable.from_numpy_array(rng.standard_normal(s).astype("f"), need_grad=True) for s in shapes)
    with context_scope(context):
        h = F.tanh(F.affine(x, weights[0])) * weights[1]
        loss = F.sum(F.tanh(F.affine(h, weights[2])))
        solver = S.Momentum(0.1)
        solver.set_parameters({str(number): w for number, w in enumerate(weights)})
        return weights, nn.compile_step(loss, solver, weight_decay=0.1)
