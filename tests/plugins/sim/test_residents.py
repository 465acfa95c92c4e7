"""Arrays that stay on a device: runs trust them to, until they are moved, read or written elsewhere."""

import contextlib

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim
from atled.arrays.place import TRANSFERS
from atled.function import PythonFunction
from atled.graph.run import travelling
from atled.graph.run.travelling import Travelling
from atled_contexts import context_scope
from atled_sim import faults


def noting(method, found):
    """The method of an item, which notes the size of its array."""

    def noted(item):
        found.append(item.cell.size)
        method(item)

    return noted


@pytest.fixture
def looked_at(monkeypatch):
    """The sizes of the arrays that runs look at."""
    found = []
    for name in ("fetch", "expect", "show"):
        monkeypatch.setattr(Travelling, name, noting(getattr(Travelling, name), found))
    return found


class Net:
    """Two parameters, a loss and Sgd, from fixed values."""

    def __init__(self, context):
        rng = np.random.default_rng(0)
        self.context = context
        self.w = nn.Variable.from_numpy_array(rng.normal(size=(4, 3)).astype("f"), need_grad=True)
        self.b = nn.Variable.from_numpy_array(rng.normal(size=3).astype("f"), need_grad=True)
        self.x = nn.Variable.from_numpy_array(rng.normal(size=(2, 4)).astype("f"))
        with context_scope(context):
            self.loss = F.mean(F.tanh(F.affine(self.x, self.w, self.b)) ** 2)
            self.solver = S.Sgd(0.1)
            self.solver.set_parameters({"w": self.w, "b": self.b})
        with context_scope(nn.Context("reference")):
            self.norm = F.sum(self.w**2)  # a plan on the host that reads a parameter
        self.held = None

    def step(self):
        self.loss.forward()
        self.solver.zero_grad()
        self.loss.backward()
        with context_scope(self.context):
            self.solver.update()


def in_context(context, step):
    """A step in a context, which is that of its updates."""

    def run():
        with context_scope(context):
            step()

    return run


def test_residents_are_looked_at_by_no_run(sim, looked_at):
    net = Net(sim)
    step = in_context(sim, nn.compile_step(net.loss, net.solver))
    for _ in range(8):
        step()
    looked_at.clear()
    for _ in range(3):
        step()
    assert looked_at == []
    net.x.d = np.ones((2, 4))
    step()
    assert set(looked_at) == {8}  # what moved, and nothing else


def test_parameters_that_are_only_read_settle_on_the_device(sim, looked_at, device):
    net = Net(sim)
    for _ in range(8):
        net.loss.forward()
    looked_at.clear()
    device.reset_counts()
    net.loss.forward()
    assert looked_at == [] and device.counts.uploads == 0
    before = net.w.d.copy()  # the copy on the host is still there
    assert device.counts.downloads == 0
    net.w.d = 2 * before
    net.loss.forward()
    assert device.counts.uploads == 1


def test_what_is_read_at_each_step_is_trusted_less_and_less(sim, looked_at):
    net = Net(sim)
    for _ in range(100):
        net.loss.forward()
        net.x.d = np.ones((2, 4))
    looked_at.clear()
    for _ in range(100):
        net.loss.forward()
        net.x.d = np.ones((2, 4))
    assert looked_at.count(8) >= 90 and looked_at.count(12) <= 20


OPERATIONS = {
    "step": Net.step,
    "compiled": lambda net: nn.compile_step(net.loss, net.solver)(),
    "forward": lambda net: net.loss.forward(),
    "read": lambda net: net.w.d.sum(),
    "write": lambda net: setattr(net.w, "d", np.linspace(-1, 1, 12).reshape(4, 3)),
    "halve": lambda net: np.multiply(net.w.d, 0.5, out=net.w.d),
    "fill": lambda net: net.b.data.fill(0.25),
    "zero": lambda net: net.b.data.zero(),
    "copy": lambda net: nn.NdArray(net.w.shape).copy_from(net.w.data),
    "host plan": lambda net: net.norm.forward(),
    "feed": lambda net: setattr(net.x, "d", net.x.d + 0.5),
    "hold": lambda net: setattr(net, "held", net.w.d),
    "let go": lambda net: setattr(net, "held", None),
    "write held": lambda net: None if net.held is None else net.held.__imul__(0.75),
    "decay": lambda net: net.solver.weight_decay(0.1),
    "gradient": lambda net: net.w.g.sum(),
    "cast": lambda net: net.b.data.cast(np.float64 if net.b.data.dtype == np.float32 else np.float32) is None,
}


@pytest.mark.parametrize("patience", [0, 1])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_done_between_runs_is_seen(sim, monkeypatch, patience, seed):
    monkeypatch.setattr(travelling, "_PATIENCE", patience)
    nets = Net(sim), Net(nn.Context("reference"))
    rng = np.random.default_rng(seed)
    names = ["step", *rng.choice([*OPERATIONS, *["step", "forward"] * 8], 60)]
    for name in names:
        found = [net.loss.d.copy() for net in nets] if name != "step" else []
        for net in nets:
            with context_scope(net.context):
                OPERATIONS[name](net)
            if net.held is not None:
                net.held.flags.writeable  # noqa: B018  # still there
        if found:
            np.testing.assert_allclose(found[0], found[1], rtol=2e-5, atol=1e-7, err_msg=str(names))
    for mine, other in zip((nets[0].w, nets[0].b), (nets[1].w, nets[1].b), strict=True):
        np.testing.assert_allclose(mine.d, other.d, rtol=2e-5, atol=1e-6, err_msg=str(names))
    if nets[0].held is not None:
        np.testing.assert_allclose(nets[0].held, nets[1].held, rtol=2e-5, atol=1e-6, err_msg=str(names))


def test_a_failed_step_leaves_residents_as_they_can_be_used(sim, monkeypatch):
    monkeypatch.setattr(travelling, "_PATIENCE", 0)
    wanted = Net(nn.Context("reference"))
    for _ in range(6):
        wanted.step()
    for nth in range(1, 40):
        net = Net(sim)
        for _ in range(3):
            net.step()
        with faults.fail("launch", nth) as fault, contextlib.suppress(atled_sim.SimFault):
            net.loss.forward()
            net.solver.zero_grad()
            net.loss.backward()
        for _ in range(3):
            net.step()
        np.testing.assert_allclose(net.w.d, wanted.w.d, rtol=1e-5)
        if not fault.happened:
            break
    assert nth > 3


class Reading(PythonFunction):
    """Reads a parameter while the plan runs that moves it."""

    parameter: nn.Variable
    seen: list

    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        self.seen.append(float(self.parameter.d.sum()))
        outputs[0].data.copy_from(inputs[0].data)

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        inputs[0].g = outputs[0].g


def test_code_of_the_user_in_a_plan_may_read_a_resident(sim, monkeypatch):
    monkeypatch.setattr(travelling, "_PATIENCE", 0)
    values = []
    for context in (nn.get_extension_context("sim", fallback="quiet"), nn.Context("reference")):
        net = Net(context)
        reading = Reading(context)
        reading.parameter, reading.seen = net.w, []
        with context_scope(context):
            loss = F.mean(reading(F.tanh(F.affine(net.x, net.w, net.b))))
            solver = S.Sgd(0.5)
            solver.set_parameters({"w": net.w, "b": net.b})
            step = nn.compile_step(loss, solver)
            for _ in range(6):
                step()
        values.append((reading.seen, net.w.d.copy()))
    np.testing.assert_allclose(values[0][0], values[1][0], rtol=1e-5)
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-5)
    assert len(set(values[0][0])) == 6


def test_a_run_with_residents_moves_nothing(sim, device):
    net = Net(sim)
    step = in_context(sim, nn.compile_step(net.loss, net.solver))
    for _ in range(8):
        step()
    TRANSFERS.reset()
    device.reset_counts()
    for _ in range(4):
        step()
    assert TRANSFERS.calls == 0
    counts = device.counts
    assert (counts.uploads, counts.table_copies, counts.allocations, counts.replays) == (0, 0, 0, 4)
