"""A device that is lost amid a step: the error says so, and arrays keep the values that are elsewhere."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.plugin import DeviceLostError
from atled_sim import faults


def training(context):
    rng = np.random.default_rng(0)
    x = nn.Variable.from_numpy_array(rng.standard_normal((4, 5)).astype("f"))
    w = nn.Variable.from_numpy_array(rng.standard_normal((5, 3)).astype("f"), need_grad=True)
    with nn.context_scope(context):
        loss = F.mean(F.tanh(F.affine(x, w)))
        solver = S.Momentum(0.1)
        solver.set_parameters({"w": w})
    return x, w, loss, solver


def step(loss, solver, context):
    loss.forward()
    solver.zero_grad()
    loss.backward()
    with nn.context_scope(context):
        solver.update()


@pytest.mark.parametrize("operation", ["launch", "replay", "upload", "synchronization"])
def test_the_error_names_the_device_and_what_to_do(sim, operation):
    x, _, loss, solver = training(sim)
    for _ in range(3):
        step(loss, solver, sim)
    with faults.lose("0", operation) as fault, pytest.raises(DeviceLostError) as caught:
        x.d = x.d * 2
        step(loss, solver, sim)
        nn.ext_utils.import_extension_module("sim").synchronize("0")
    assert fault.happened
    words = str(caught.value)
    assert "use of device SimArray:0: it was lost" in words
    assert "go on from what was saved last, on another device or in a new process" in words


def test_parameters_that_were_read_have_the_values_from_before_the_step_that_failed(sim):
    for nth in range(1, 40):
        x, w, loss, solver = training(sim)
        for _ in range(2):
            step(loss, solver, sim)
        before, given = w.d.copy(), x.d.copy()
        with faults.lose("0", "launch", nth) as fault:
            try:
                step(loss, solver, sim)
            except DeviceLostError:
                np.testing.assert_array_equal(w.d, before)
            np.testing.assert_array_equal(x.d, given)
        if not fault.happened:
            break
    assert nth > 3


@pytest.mark.parametrize("lost_at", ["first launch", "update"])
def test_what_is_elsewhere_goes_on_there(sim, lost_at):
    x, w, loss, solver = training(sim)
    _, expected, reference_loss, reference_solver = training(nn.Context("reference"))
    for _ in range(2):
        step(loss, solver, sim)
        step(reference_loss, reference_solver, nn.Context("reference"))
    (state,) = solver.get_states().values()
    saved = {name: values.d.copy() for name, values in state.pstate.items()}
    w.d.copy()
    operation = ("launch", 1) if lost_at == "first launch" else ("launch", len(loss.plan.steps) + 4)
    with faults.lose("0", *operation):
        with pytest.raises(DeviceLostError):
            while True:
                step(loss, solver, sim)
                w.d.copy()
        for name, values in saved.items():
            np.testing.assert_array_equal(state.pstate[name].d, values)
        with nn.context_scope(nn.Context("reference")):
            again = F.mean(F.tanh(F.affine(x, w)))
        solver.zero_grad()
        step(again, solver, nn.Context("reference"))
        step(reference_loss, reference_solver, nn.Context("reference"))
        np.testing.assert_allclose(w.d, expected.d, rtol=1e-6)


def test_what_was_only_there_is_gone_and_reading_it_says_so(sim):
    _, _, loss, solver = training(sim)
    step(loss, solver, sim)
    with faults.lose("0"):
        with pytest.raises(DeviceLostError):
            loss.forward()
        with pytest.raises(DeviceLostError, match="what was only on the device is gone"):
            loss.d  # noqa: B018  # reading is what fails


def test_other_devices_go_on():
    zero, one = (nn.get_extension_context("sim", device_id=i, fallback="raise") for i in "01")
    (_, _, lost, _), (_, _, kept, solver) = training(zero), training(one)
    with faults.lose("0"):
        with pytest.raises(DeviceLostError):
            lost.forward()
        step(kept, solver, one)
        assert np.isfinite(kept.d)


def test_another_device_takes_what_is_in_host_memory_as_well(sim):
    x, _, loss, solver = training(sim)
    for _ in range(6):  # then x is trusted to stay on device 0
        step(loss, solver, sim)
    other = nn.get_extension_context("sim", device_id="1", fallback="raise")
    with faults.lose("0", "copy") as fault, nn.context_scope(other):
        y = F.exp(x)
        y.forward()
        assert fault.happened
        np.testing.assert_allclose(y.d, np.exp(x.d), rtol=1e-6)


def test_what_is_on_another_device_as_well_is_read_from_there(sim):
    given = np.float32([0, 1, 2])
    with nn.context_scope(sim):
        a = F.exp(nn.NdArray.from_numpy_array(given))
    with nn.context_scope(nn.get_extension_context("sim", device_id="1", fallback="raise")):
        F.exp(a)
    with faults.lose("0", "download") as fault:
        np.testing.assert_allclose(a.data, np.exp(given), rtol=1e-6)
        assert fault.happened
