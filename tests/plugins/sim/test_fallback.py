"""Ops that the simulated device refuses: where they go, what is counted, what is told, what is forbidden."""

import os
import sys

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim
from atled.arrays.place import TRANSFERS
from atled_contexts import FallbackCount, FallbackWarning, SelectionError, context_scope, fallback_counts

sys.path.append(os.path.dirname(__file__))  # for network: pytest's importlib mode leaves this folder off the path

from network import BATCH_BYTES, Training, assert_same_bits


def preset(fallback="quiet"):
    return nn.get_extension_context("sim", fallback=fallback)


def chain(context, *functions, need_grad=False):
    x = nn.Variable.from_numpy_array(np.linspace(0.1, 1.2, 12, dtype="f").reshape(3, 4), need_grad=need_grad)
    y = x
    with context_scope(context):
        for function in functions:
            y = function(y)
    return x, y


def test_a_refused_op_goes_to_the_reference_and_gives_the_same():
    _, wanted = chain(nn.Context("reference"), F.exp, F.tanh, F.exp)
    with atled_sim.refuse({"Tanh"}):
        _, found = chain(preset(), F.exp, F.tanh, F.exp)
        found.forward()
        backends = [step.backend for step in found.plan.steps]
    wanted.forward()
    np.testing.assert_array_equal(found.d, wanted.d)
    assert backends == ["sim", "engine", "reference", "engine", "sim"]


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_every_run_of_a_plan_counts_its_fallbacks_and_their_bytes(runs):
    with atled_sim.refuse({"Tanh"}):
        _, y = chain(preset(), F.exp, F.tanh, F.exp)
        for _ in range(runs):
            y.forward()
        assert fallback_counts() == {("Tanh", "reference"): FallbackCount(runs, runs * 2 * 48)}


def test_two_graphs_of_one_structure_count_alike():
    with atled_sim.refuse({"Tanh"}):
        for _ in range(2):
            _, y = chain(preset(), F.exp, F.tanh, F.exp)
            y.forward()
        assert fallback_counts() == {("Tanh", "reference"): FallbackCount(2, 2 * 2 * 48)}


def test_compiling_a_backward_counts_no_forward_op_again():
    with atled_sim.refuse({"Tanh"}):
        x, y = chain(preset(), F.exp, F.tanh, F.exp, need_grad=True)
        x.grad.zero()
        y.forward()
        y.backward()
        assert fallback_counts() == {("Tanh", "reference"): FallbackCount(1, 2 * 48)}


def test_a_copy_between_two_fallbacks_is_counted_once():
    with atled_sim.refuse({"Tanh", "Sigmoid"}):
        _, y = chain(preset(), F.exp, F.tanh, F.sigmoid, F.exp)
        y.forward()
        counts = fallback_counts()
    assert counts == {("Tanh", "reference"): FallbackCount(1, 48), ("Sigmoid", "reference"): FallbackCount(1, 48)}


def test_a_leaf_that_only_a_fallback_reads_costs_nothing_while_it_is_on_the_host():
    with atled_sim.refuse({"Tanh"}):
        x, y = chain(preset(), F.tanh, F.exp)
        y.forward()
        assert fallback_counts() == {("Tanh", "reference"): FallbackCount(1, 48)}
        with context_scope(preset()):
            x.data += 1.0  # on the device
        y.forward()
        assert fallback_counts() == {("Tanh", "reference"): FallbackCount(2, 48 + 2 * 48)}


def test_an_imperative_fallback_is_counted_at_each_call():
    with atled_sim.refuse({"Tanh"}), context_scope(preset()):
        a = nn.NdArray.from_numpy_array(np.ones(12, "f"))
        for _ in range(3):
            F.tanh(a)
        assert fallback_counts() == {("Tanh", "reference"): FallbackCount(3, 0)}


def test_a_trace_shows_the_fallback_and_what_it_moved():
    with atled_sim.refuse({"Tanh"}):
        _, y = chain(preset(), F.exp, F.tanh, F.exp)
        y.forward()
        with nn.trace() as trace:
            y.forward()
    rows = {row.op: row for row in trace.rows()}
    assert (rows["Tanh"].backend, rows["Tanh"].fallbacks) == ("reference", 1)
    assert (rows["Exp"].backend, rows["Exp"].fallbacks) == ("sim", 0)
    assert (rows["Transfer"].calls, rows["Transfer"].bytes_moved) == (2, 96)


def test_the_user_is_told_once_and_why():
    with atled_sim.refuse({"Tanh"}):
        _, y = chain(preset("warn"), F.tanh)
        with pytest.warns(FallbackWarning, match=r"Tanh.*runs on 'reference:float' as a fallback") as told:
            y.forward()
        _, again = chain(preset("warn"), F.tanh, F.exp)
        again.forward()
    assert len(told) == 1
    assert "refuse('Tanh') is in force" in str(told[0].message)


def test_a_context_without_a_host_backend_never_leaves_its_device():
    with atled_sim.refuse({"Tanh"}):
        x, y = chain(nn.Context("sim:float"), F.exp, F.tanh)
        before = x.d.copy()
        with pytest.raises(SelectionError, match=r"reference:float +NumPy +forbidden"):
            y.forward()
        np.testing.assert_array_equal(x.d, before)
    assert fallback_counts() == {}


def test_a_fallback_can_be_refused():
    with atled_sim.refuse({"Tanh"}):
        _, y = chain(preset("raise"), F.tanh)
        with pytest.raises(SelectionError, match="fallback='raise'"):
            y.forward()


def test_graphs_decide_anew_when_a_refusal_begins_and_ends():
    _, y = chain(preset(), F.tanh)

    def backends():
        y.forward()
        return {step.backend for step in y.plan.steps}

    assert backends() == {"sim"}
    with atled_sim.refuse({"Tanh"}):
        assert backends() == {"reference"}
    assert backends() == {"sim"}


@pytest.mark.parametrize(
    "ops",
    [
        {"Tanh", "TanhGradX"},
        {"BatchNormalization", "Dropout"},
        {"AdamUpdate", "WeightDecay"},
        {"Cast", "Sum", "Mean"},
        {"ConvolutionWeightGrad", "SoftmaxCrossEntropyGrad", "Mul2", "Add2", "Broadcast"},
    ],
    ids=lambda ops: min(ops),
)
@pytest.mark.parametrize("type_config", ["float", "half", "bf16"])
def test_training_with_fallbacks_gives_the_numbers_of_the_reference(ops, type_config):
    wanted = Training(nn.Context(f"reference:{type_config}")).run(3)
    with atled_sim.refuse(ops):
        context = nn.get_extension_context("sim", type_config=type_config, fallback="quiet")
        assert_same_bits(Training(context).run(3), wanted)
        assert {op for op, _ in fallback_counts()} <= ops


def test_a_step_of_training_counts_every_byte_that_a_fallback_moves():
    with atled_sim.refuse({"Tanh"}):
        training = Training(preset())
        for _ in range(3):
            training.step()
        before = fallback_counts()[("Tanh", "reference")]
        TRANSFERS.reset()
        training.step()
        after = fallback_counts()[("Tanh", "reference")]
    assert after.calls - before.calls == 3
    # Besides the batch, the loss and the copies of forward, the device fetches the results of Tanh for its gradient.
    results = 4 * 8 * (4 * 16 + 8 * 16 + 16)
    assert after.bytes_moved - before.bytes_moved == 2 * results
    assert TRANSFERS.bytes_moved == BATCH_BYTES + 4 + 2 * results + results


def test_a_solver_that_falls_back_moves_parameters_and_gradients():
    with atled_sim.refuse({"SgdUpdate"}):
        x, y = chain(preset(), F.tanh, need_grad=True)
        with context_scope(preset()):
            solver = S.Sgd(0.1)
            solver.set_parameters({"x": x})
            for _ in range(3):
                y.forward()
                solver.zero_grad()
                y.backward()
                solver.update()
    # The gradient comes down each time; the parameter stays on the host, from where forward takes it.
    assert fallback_counts() == {("SgdUpdate", "reference"): FallbackCount(3, 3 * 48)}
