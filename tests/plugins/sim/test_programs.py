"""Queued steps as programs of the device: what they compute, when they are made, and what becomes of them."""

import contextlib
import gc
import os
import sys
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim
from atled.graph.run import programs
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    PluginInfo,
    PluginWarning,
    context_scope,
    hookimpl,
    register_plugin,
    unregister_plugin,
)
from atled_sim import faults, kernels
from atled_sim.plugin import ARRAY_CLASS

sys.path.append(os.path.dirname(__file__))  # for network: pytest's importlib mode leaves this folder off the path

from network import Training, assert_same_bits

from late_handler import interrupted, needs_signals, raises_late


def small(context, size=3):
    """A graph of a few steps."""
    x = nn.Variable.from_numpy_array(np.linspace(-1, 1, size, dtype="f"), need_grad=True)
    with context_scope(context):
        y = F.mean(F.tanh(F.mul_scalar(x, 3.0)))
    return x, y


def compiled(context):
    """A training whose step is one plan, with random masks and two kinds of updates."""
    training = Training(context)
    step = nn.compile_step(training.loss, training.solver)

    def run():
        training.feed()
        step()
        return float(training.loss.d)

    return training, run


def results(training, losses):
    return losses, {name: v.d.copy() for name, v in nn.get_parameters(grad_only=False).items()}


def test_a_program_is_made_at_the_second_run_and_replayed(sim, device):
    _, y = small(sim)
    found = []
    for _ in range(4):
        y.forward()
        found.append((device.counts.programs, device.counts.replays, device.counts.launches))
    steps = len(y.plan.steps)
    assert found == [(0, 0, steps), (1, 1, 2 * steps), (1, 2, 3 * steps), (1, 3, 4 * steps)]
    assert f"device program of {steps}" in str(y.plan)


@pytest.mark.parametrize("way", ["step", "dynamic", "compiled"])
def test_programs_compute_the_bits_of_single_steps(sim, device, way):
    def train(observed):
        training = Training(sim)
        compiled = nn.compile_step(training.loss, training.solver) if way == "compiled" else None
        losses = []
        for number in range(8):
            training.solver.set_learning_rate(0.01 / (1 + number // 3))
            if number == 5:
                nn.get_parameters()["fc1/affine/W"].need_grad = False
            with nn.trace() if observed else contextlib.nullcontext():
                if compiled is None:
                    losses.append(training.dynamic_step() if way == "dynamic" else training.step())
                else:
                    training.feed()
                    compiled()
                    losses.append(float(training.loss.d))
        return results(training, losses)

    wanted = train(observed=True)
    assert device.counts.replays == 0
    found = train(observed=False)
    assert_same_bits(found, wanted)
    assert way == "dynamic" or device.counts.replays >= 5


def test_observed_runs_go_step_by_step_between_replays(sim, device):
    x, y = small(sim)
    for _ in range(3):
        y.forward()
    before = device.counts.replays
    x.d = [1, 2, 3]
    with nn.trace() as trace:
        y.forward()
    assert device.counts.replays == before and len(trace.rows()) >= len(y.plan.steps)
    with nn.verify() as checks:
        y.forward()
    assert device.counts.replays == before and checks.by_op
    y.forward()
    assert device.counts.replays == before + 1
    np.testing.assert_allclose(y.d, np.mean(np.tanh(3 * np.array([1, 2, 3]))), rtol=1e-6)


def test_floats_are_copied_only_when_they_change(sim, device):
    w = nn.Variable.from_numpy_array(np.ones(3, np.float32), need_grad=True)
    with context_scope(sim):
        loss = F.sum(w**2)
        solver = S.Sgd(0.5)
        solver.set_parameters({"w": w})
        step = nn.compile_step(loss, solver)
        for _ in range(5):
            step()
        assert (device.counts.table_copies, device.counts.replays) == (1, 3)
        solver.set_learning_rate(0.25)
        step()
    assert device.counts.table_copies == 2
    assert w.d.tolist() == [0.0] * 3


def test_random_ops_draw_on_as_they_do_one_by_one(sim):
    def drawn(observed):
        with context_scope(sim):
            y = F.rand(shape=(5,), seed=3)
        found = []
        for _ in range(5):
            with nn.trace() if observed else contextlib.nullcontext():
                y.forward()
            found.append(y.d.copy())
        return np.array(found)

    wanted = drawn(observed=True)
    np.testing.assert_array_equal(drawn(observed=False), wanted)
    assert len(np.unique(wanted)) == wanted.size


@pytest.mark.parametrize("operation", ["allocation", "upload", "launch", "table copy", "program", "replay"])
def test_after_any_failure_of_a_program_the_next_run_is_right(sim, operation, monkeypatch):
    monkeypatch.setattr(programs, "_told", {"SimArray"})  # a recording that fails is told once
    for nth in range(1, 60):
        x, y = small(sim)
        with faults.fail(operation, nth) as fault:
            for number in range(4):
                with contextlib.suppress(atled_sim.SimFault):
                    x.d = [number, 1, 2]
                    y.forward()
        x.d = [0.1, 0.2, 0.3]
        y.forward()
        np.testing.assert_allclose(y.d, np.mean(np.tanh(3 * np.array([0.1, 0.2, 0.3]))), rtol=1e-6)
        if not fault.happened:
            break
    assert nth > 1


@pytest.mark.parametrize("operation", ["table copy", "program", "replay"])
def test_a_step_whose_program_fails_moves_no_parameter(sim, operation, monkeypatch):
    monkeypatch.setattr(programs, "_told", {"SimArray"})
    _, run = compiled(sim)
    before = None
    with faults.fail(operation) as fault:
        for _ in range(4):
            before = {name: v.d.copy() for name, v in nn.get_parameters().items()}
            try:
                run()
            except atled_sim.SimFault:
                for name, v in nn.get_parameters().items():
                    np.testing.assert_array_equal(v.d, before[name])
                break
    assert fault.happened
    losses = [run() for _ in range(3)]
    assert np.isfinite(losses).all()


def test_a_failed_replay_says_what_ran(sim):
    _, y = small(sim)
    y.forward()
    with faults.fail("replay"), pytest.raises(atled_sim.SimFault) as caught:
        y.forward()
    assert any("while SimArray:0 ran a program of" in note and "Tanh" in note for note in caught.value.__notes__)


def test_a_recording_that_fails_is_told_and_the_loop_runs(sim, device, monkeypatch):
    monkeypatch.setattr(programs, "_told", set())
    _, y = small(sim)
    y.forward()
    wanted = y.d.copy()
    with faults.fail("program"), pytest.warns(PluginWarning, match="SimArray.program failed: SimFault: recording"):
        y.forward()
    y.forward()
    assert device.counts.replays == 0 and y.d == wanted
    assert "queued steps (SimArray.program failed: SimFault" in str(y.plan)


@needs_signals
def test_a_recording_that_a_handler_of_a_signal_ends_is_made_at_the_next_run(sim, device):
    _, y = small(sim)
    y.forward()
    with pytest.MonkeyPatch.context() as patch, raises_late():
        patch.setattr(type(ARRAY_CLASS), "program", interrupted)
        y.forward()
    y.forward()
    assert device.counts.replays == 1


def test_a_class_may_make_none(sim, device, monkeypatch):
    monkeypatch.setattr(type(ARRAY_CLASS), "program", lambda self, launches, device_id: None)
    _, y = small(sim)
    for _ in range(3):
        y.forward()
    assert device.counts.replays == 0
    assert f"{len(y.plan.steps)} queued steps (SimArray.program made none of them)" in str(y.plan)


def test_a_class_without_programs_is_named(sim, monkeypatch):
    monkeypatch.delattr(type(ARRAY_CLASS), "program")
    _, y = small(sim)
    for _ in range(3):
        y.forward()
    assert f"{len(y.plan.steps)} queued steps (SimArray makes no programs)" in str(y.plan)


class Library:
    """A second backend of sim's family: what it computes waits, or has numbers that it cannot take from a table."""

    def __init__(self, **facts):
        self.facts = facts

    @hookimpl
    def atled_info(self):
        backend = BackendInfo("simlib", device_family="sim", array_classes=("SimArray",))
        return PluginInfo("simlib", API_VERSION, "atled-simlib", "1", (backend,))

    @hookimpl
    def atled_devices(self, backend):
        return ["0", "1"]

    @hookimpl
    def atled_register(self, registrar):
        registrar.implementation("Tanh", "simlib", self._prepare)
        registrar.implementation("MulScalar", "simlib", self._prepare)

    def _prepare(self, call):
        prepared = kernels.prepare(call)
        return type(prepared)(prepared.run, **self.facts)


@contextlib.contextmanager
def library(**facts):
    register_plugin("simlib", Library(**facts))
    try:
        yield nn.Context(["simlib:float", "sim:float"], "SimArray", "0", fallback="raise")
    finally:
        unregister_plugin("simlib")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, ["2 Python steps (not queued)", "device program of 1"]),
        ({"queued": True}, ["1 Python steps (numbers of it change, and it has no bind)", "device program of 2"]),
        ({"queued": True, "bind": True}, ["device program of 3"]),
    ],
)
def test_a_program_takes_neighbours_of_all_backends_of_a_device(device, facts, said):
    if "bind" in facts:
        facts = {"queued": True, "bind": lambda arrays, table, first: lambda: None}
    with library(**facts) as context:
        _, y = small(context)
        y.forward()
        wanted = y.d.copy()
        assert {step.backend for step in y.plan.steps} == {"simlib", "sim"}
        for line in said:
            assert f"  {line}\n" in str(y.plan)
        if "bind" not in facts:
            for _ in range(3):
                y.forward()
            assert y.d == wanted and device.counts.replays == 3


def test_programs_are_bounded_in_number_and_come_back(sim, device, monkeypatch):
    monkeypatch.setattr(programs.PROGRAMS, "limit", 2)
    monkeypatch.setattr(programs, "_WAIT", 1)
    nn.clear_memory_cache()
    graphs = [small(sim, size) for size in (2, 3, 4)]
    for _ in range(6):
        for x, y in graphs:
            y.forward()
            np.testing.assert_allclose(y.d, np.mean(np.tanh(3 * x.d)), atol=1e-7)
            assert nn.memory_statistics()["caches"]["device programs"] <= 2
    assert device.counts.programs > 3


def test_cleared_programs_are_loops_until_they_are_made_again(sim, device, monkeypatch):
    monkeypatch.setattr(programs, "_WAIT", 2)
    _, y = small(sim)
    for _ in range(3):
        y.forward()
    programs.PROGRAMS.clear()
    before = device.counts.replays
    for _ in range(2):
        y.forward()
    assert device.counts.replays == before
    y.forward()
    assert device.counts.replays == before + 1


def test_programs_are_gone_with_their_graph(sim, device):
    gc.collect()
    gc.disable()
    try:
        count, in_use = len(programs.PROGRAMS), device.memory.bytes_in_use
        x, y = small(sim)
        for _ in range(3):
            y.forward()
        assert len(programs.PROGRAMS) == count + 1
        del x, y
        assert (len(programs.PROGRAMS), device.memory.bytes_in_use) == (count, in_use)
    finally:
        gc.enable()


def test_two_threads_share_a_program(sim):
    x, y = small(sim)
    for _ in range(3):
        y.forward()
    failed = []

    def run():
        try:
            for _ in range(50):
                y.forward()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    np.testing.assert_allclose(y.d, np.mean(np.tanh(3 * x.d)), atol=1e-7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_replays_and_makes_programs(sim):
    x, y = small(sim)
    for _ in range(3):
        y.forward()
    child = os.fork()
    if child == 0:
        try:
            x.d = [1, 1, 1]
            _, other = small(sim, 5)
            for _ in range(3):
                y.forward()
                other.forward()
            os._exit(0 if abs(float(y.d) - np.tanh(3.0)) < 1e-6 else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
