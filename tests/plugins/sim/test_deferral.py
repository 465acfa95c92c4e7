"""Indices that the device checks: the host is told when it waits, and nothing behind a failure moves."""

import gc
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
import atled_sim
from atled.arrays.place import place_on
from atled_sim.plugin import ARRAY_CLASS

GOOD = np.array([[0], [2], [1], [2]])
BAD = np.array([[0], [2], [3], [2]])


@pytest.fixture(params=[True, False], ids=["heeded", "waited"])
def deferred(request):
    """Checks on the device; updates look at the flag themselves, or the host does."""
    with atled_sim.defer_checks(heeded=request.param):
        yield


class Model:
    """A network with everything that a step moves: parameters, moments, draws, and counts of updates."""

    def __init__(self, context, solver=S.Adam):
        nn.clear_parameters()
        rng = np.random.default_rng(1)
        self.context = context
        self.x = nn.Variable.from_numpy_array(rng.standard_normal((4, 5)).astype("f"))
        self.label = nn.Variable.from_numpy_array(GOOD)
        self.w = nn.Variable.from_numpy_array(rng.standard_normal((5, 3)).astype("f"), need_grad=True)
        with nn.context_scope(context):
            h = F.dropout(F.affine(self.x, self.w), 0.4, seed=3)
            self.loss = F.mean(F.softmax_cross_entropy(h, self.label))
            self.solver = solver(0.1)
            self.solver.set_parameters({"w": self.w})
            self.step = nn.compile_step(self.loss, self.solver)

    def one_by_one(self):
        self.loss.forward()
        self.solver.zero_grad()
        self.loss.backward()
        with nn.context_scope(self.context):
            self.solver.update()

    def compiled(self):
        with nn.context_scope(self.context):  # that of the updates
            self.step()

    def state(self):
        (state,) = self.solver.get_states().values()
        return [self.w.d.copy(), *(y.d.copy() for y in state.pstate.values()), state.t]


WAYS = [Model.one_by_one, Model.compiled]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.usefixtures("deferred")
def test_the_host_is_told_of_op_and_call_when_it_waits_and_only_once(sim):
    model = Model(sim)
    model.label.d = BAD
    model.loss.forward()
    with pytest.raises(IndexError, match=r"SoftmaxCrossEntropy\(float32\[4, 3\].* by sim of sim: an index is out of"):
        model.loss.d  # noqa: B018  # reading is what waits
    model.loss.d  # noqa: B018  # told already
    model.label.d = GOOD
    model.loss.forward()
    assert np.isfinite(model.loss.d)


@pytest.mark.usefixtures("deferred")
def test_a_synchronization_tells_it_as_well(sim):
    model = Model(sim)
    model.label.d = BAD
    model.loss.forward()
    with pytest.raises(IndexError, match="SimArray:0 found it"):
        nn.ext_utils.import_extension_module("sim").synchronize("0")


@pytest.mark.usefixtures("deferred")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", range(4))  # runs: the first ones, then a program
def test_a_failed_step_moves_nothing_and_the_next_ones_go_on_as_if_it_had_not_been(sim, way, before):
    model, expected = Model(sim), Model(sim)
    for _ in range(before):
        way(model)
        way(expected)
    model.state()  # waits
    model.label.d = BAD
    with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
        way(model), model.loss.d
    assert same(model.state(), expected.state())
    model.label.d = GOOD
    for _ in range(3):
        way(model)
        way(expected)
    assert same(model.state(), expected.state())


@pytest.mark.parametrize("way", WAYS)
def test_steps_behind_a_failed_one_move_nothing_either(sim, way):
    with atled_sim.defer_checks():
        model = Model(sim, S.Momentum)
        way(model)
        before = model.state()
        model.label.d = BAD
        way(model)
        model.label.d = GOOD
        way(model)
        way(model)
        with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
            model.loss.d  # noqa: B018  # reading is what waits
        assert same(model.state(), before)


@pytest.mark.usefixtures("deferred")
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_a_failed_step_are_nothing_for_a_solver(sim, dynamic):
    model = Model(sim, S.Momentum)
    with nn.context_scope(sim), nn.auto_forward(dynamic):
        for number in range(5):
            before = model.w.d.copy()
            model.label.d = BAD if number % 2 else GOOD
            loss = F.mean(F.softmax_cross_entropy(F.affine(model.x, model.w), model.label))
            model.solver.zero_grad()
            loss.forward()
            loss.backward()
            if number % 2:
                with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
                    loss.d  # noqa: B018  # reading is what waits
            model.solver.update()
            assert np.array_equal(model.w.d, before) == bool(number % 2)


@pytest.mark.usefixtures("deferred")
def test_running_statistics_behind_a_failure_stay(sim):
    with nn.context_scope(sim):
        index = nn.Variable.from_numpy_array(np.array([0, 1, 1]))
        w = nn.Variable.from_numpy_array(np.arange(6, dtype="f").reshape(2, 3))
        y = PF.batch_normalization(F.embed(index, w))
    y.forward()
    statistics = [v for name, v in nn.get_parameters(grad_only=False).items() if name.split("/")[-1] in ("mean", "var")]
    before = [v.d.copy() for v in statistics]
    index.d = [0, 1, 2]
    with pytest.raises(IndexError, match="Embed"):
        y.forward(), y.d
    assert len(before) == 2
    assert same([v.d for v in statistics], before)


@pytest.mark.parametrize("heeded", [True, False])
def test_groups_of_updates_and_formulas_beside_an_op_that_fails_do_nothing(sim, heeded):
    def build(context):
        nn.clear_parameters()
        rng = np.random.default_rng(1)
        x = nn.Variable.from_numpy_array(rng.standard_normal((4, 3)).astype("f"))
        label = nn.Variable.from_numpy_array(GOOD)
        w = [nn.Variable.from_numpy_array(rng.standard_normal((3, 3)).astype("f"), need_grad=True) for _ in range(3)]
        with nn.context_scope(context):
            h = F.affine(F.tanh(F.affine(F.tanh(F.affine(x, w[0])), w[1])), w[2])
            loss = F.mean(F.softmax_cross_entropy(h, label) * 2.0)
            solver = S.Adam(0.1)
            solver.set_parameters({str(number): each for number, each in enumerate(w)})
            return w, label, loss, nn.compile_step(loss, solver)

    with atled_sim.compile_formulas(), atled_sim.defer_checks(heeded=heeded), nn.context_scope(sim):
        w, label, loss, step = build(sim)
        assert "3xAdamUpdate" in {each.name for each in step.plan.steps}
        for bad in (False, True, False, False, True, False):
            before = [each.d.copy() for each in w]
            label.d = BAD if bad else GOOD
            if bad:
                with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
                    step(), loss.d
            else:
                step()
            assert same(before, [each.d for each in w]) == bad


def test_an_update_that_falls_back_to_the_host_waits_for_the_device():
    with atled_sim.defer_checks(), atled_sim.refuse({"AdamUpdate"}):
        model = Model(nn.get_extension_context("sim", fallback="quiet"))
        model.compiled()
        before = model.state()
        model.label.d = BAD
        with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
            model.compiled()
        assert same(model.state(), before)


@pytest.mark.usefixtures("deferred")
@pytest.mark.usefixtures("deferred")
@pytest.mark.parametrize("elsewhere", ["reference", "sim"])
def test_what_changes_arrays_elsewhere_waits_for_the_device_that_may_have_failed(sim, elsewhere):
    index = nn.Variable.from_numpy_array(np.array([0, 1]))
    w = nn.Variable.from_numpy_array(np.arange(6, dtype="f").reshape(3, 2))
    with nn.context_scope(sim):
        one = F.embed(index, w)
    with nn.context_scope(nn.get_extension_context(elsewhere, device_id="1" if elsewhere == "sim" else "0")):
        other = PF.batch_normalization(F.tanh(w))
    statistics = [v for name, v in nn.get_parameters(grad_only=False).items() if name.split("/")[-1] in ("mean", "var")]
    for bad in (False, True, False, False, True):
        before = [v.d.copy() for v in statistics]
        index.d = [0, 3] if bad else [0, 1]
        if bad:
            with pytest.raises(IndexError, match="Embed"):
                nn.forward_all([one, other])
        else:
            nn.forward_all([one, other])
        assert same([v.d for v in statistics], before) == bad


@pytest.mark.usefixtures("deferred")
@pytest.mark.parametrize("elsewhere", ["reference", "sim"])
def test_an_update_elsewhere_waits_for_the_device_that_may_have_failed(sim, elsewhere):
    rng = np.random.default_rng(1)
    far, near = (nn.Variable.from_numpy_array(rng.standard_normal((3, 2)).astype("f"), need_grad=True) for _ in "12")
    index = nn.Variable.from_numpy_array(np.array([0, 1]))
    with nn.context_scope(sim):
        one = F.sum(F.embed(index, far))
    with nn.context_scope(nn.get_extension_context(elsewhere, device_id="1" if elsewhere == "sim" else "0")):
        solver = S.Momentum(0.1)
        solver.set_parameters({"near": near})
        step = nn.compile_step(F.sum(F.tanh(near)) + F.mul_scalar(one, 1.0), solver)
        for bad in (False, True, False, True):
            before = near.d.copy()
            index.d = [0, 3] if bad else [0, 1]
            if bad:
                with pytest.raises(IndexError, match="Embed"):
                    step()
            else:
                step()
            assert np.array_equal(near.d, before) == bad


@pytest.mark.usefixtures("deferred")
def test_under_a_trace_the_error_comes_with_the_step(sim):
    model = Model(sim)
    model.label.d = BAD
    with nn.trace() as trace, pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
        model.compiled()
    assert "AdamUpdate" not in {row.op for row in trace.rows()}


@pytest.mark.usefixtures("deferred")
def test_calls_at_once_tell_it_when_the_host_waits(sim):
    index, w = nn.NdArray.from_numpy_array(np.array([0, 7])), nn.NdArray.from_numpy_array(np.ones((3, 2), "f"))
    with nn.context_scope(sim):
        for _ in range(3):
            y = F.embed(index, w)
            with pytest.raises(IndexError, match="Embed"):
                y.data  # noqa: B018  # reading is what waits


@pytest.mark.usefixtures("deferred")
def test_rebuilt_graphs_tell_it_and_move_nothing(sim):
    model = Model(sim)
    with nn.context_scope(sim), nn.auto_forward():
        for number in range(6):
            before = model.w.d.copy()
            model.label.d = BAD if number % 2 else GOOD
            loss = F.mean(F.softmax_cross_entropy(F.affine(model.x, model.w), model.label))
            model.solver.zero_grad()
            if number % 2:
                with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
                    loss.backward(), model.solver.update(), loss.d
            else:
                loss.backward(), model.solver.update(), loss.d
            assert np.array_equal(model.w.d, before) == bool(number % 2)


def test_a_failure_on_one_device_is_none_on_another():
    with atled_sim.defer_checks():
        zero, one = (Model(nn.get_extension_context("sim", device_id=i, fallback="raise")) for i in "01")
        zero.label.d = BAD
        zero.compiled()
        one.compiled()
        assert np.isfinite(one.loss.d)
        with pytest.raises(IndexError, match="SimArray:0"):
            zero.loss.d  # noqa: B018  # reading is what waits


def test_the_flag_is_looked_at_only_where_something_may_have_failed(sim, device):
    with atled_sim.defer_checks():
        model = Model(sim)
        model.compiled()
        model.loss.d  # noqa: B018  # waits
        before = device.counts.downloads
        with nn.context_scope(sim):
            y = F.tanh(model.x)
        y.forward()
        assert np.isfinite(y.d).all()
        assert device.counts.downloads == before + 1


def test_the_flag_goes_with_the_last_plan(sim, device):
    gc.collect()
    before = device.memory.bytes_in_use
    with atled_sim.defer_checks():
        model = Model(sim)
        model.compiled()
        model.loss.d  # noqa: B018  # waits
        del model
    nn.clear_parameters()
    gc.collect()
    assert device.memory.bytes_in_use == before
    assert not place_on(ARRAY_CLASS, "0").failures.is_expecting


def test_of_two_threads_each_failure_is_told_once(sim):
    told = []

    def work(number):
        with nn.context_scope(sim):
            index = nn.NdArray.from_numpy_array(np.array([0, 7 if number else 1]))
            w = nn.NdArray.from_numpy_array(np.ones((3, 2), "f"))
            for _ in range(50):
                try:
                    F.embed(index, w).data  # noqa: B018  # reading is what waits
                except IndexError as error:
                    told.append(str(error))

    with atled_sim.defer_checks():
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 <= len(told) <= 50
    assert all("Embed" in text for text in told)
