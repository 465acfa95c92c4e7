"""Calls that compute at once on a device: no transfers, no allocations, and what a plan would have done."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled_sim
from atled.arrays.spares import clear_spares
from atled.calling import inline_cache
from atled.calling.call_tables import forget_calls
from atled.plugin import Prepared, reload_plugins
from atled_contexts import context_scope
from atled_sim import faults, kernels


@pytest.fixture(autouse=True)
def on_device(sim):
    """Everything happens on the device, and no call is known."""
    forget_calls()
    with context_scope(sim):
        yield


def array(*values):
    return nn.NdArray.from_numpy_array(np.array(values, np.float32))


def on_the_device(*values):
    """An array that is there alone, as results are."""
    return F.identity(array(*values))


def words(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def test_a_known_call_costs_one_launch(device):
    x = on_the_device(1, 2)
    y = F.relu(x)
    F.add2(x, y), F.add2(x, y)
    device.reset_counts()
    for _ in range(5):
        F.add2(x, F.relu(x))
    counts = device.counts
    assert (counts.launches, counts.uploads, counts.downloads, counts.copies) == (10, 0, 0, 0)
    assert counts.allocations <= 2  # of what goes round


def test_an_array_in_host_memory_is_uploaded_once(device):
    x, y = array(1, -2), on_the_device(3, 4)
    F.add2(x, y)
    device.reset_counts()
    for _ in range(5):
        assert np.array_equal(F.add2(x, y).data, [4, 2])
    assert device.counts.uploads == 0
    x.data[0] = 5
    assert np.array_equal(F.add2(x, y).data, [8, 2])
    x.data = [7, 7]
    assert np.array_equal(F.add2(x, y).data, [10, 11])
    assert device.counts.uploads == 2


def test_what_is_written_through_a_view_is_read_at_each_call():
    x = array(1, 2)
    view = x.data
    for number in range(4):
        view[:] = number
        assert np.array_equal(F.add_scalar(x, 1).data, [number + 1] * 2)


@pytest.mark.parametrize("how", ["array", "view", "reshaped", "variable", "numpy", "read", "cast", "parameter"])
def test_results_that_somebody_has_are_never_used_again(how):
    x = on_the_device(1, 2)
    shown = []
    for number in range(8):
        y = F.add_scalar(x, number)
        if how == "view":
            shown.append(y.data)
        elif how == "reshaped":
            shown.append(F.reshape(y, (2, 1)))
        elif how in ("variable", "parameter"):
            shown.append(nn.Variable((2,), need_grad=how == "parameter"))
            shown[-1].data = y
        elif how == "numpy":
            shown.append(np.asarray(y))
        else:
            shown.append(y)
            if how == "read":
                assert y.data is not None
            if how == "cast":
                y.cast(np.float64)
        del y
    for _ in range(600):
        F.add_scalar(x, -1000)
    values = [item if isinstance(item, np.ndarray) else getattr(item, "d", None) for item in shown]
    values = [np.array(item.data if value is None else value) for item, value in zip(shown, values, strict=True)]
    assert [value.ravel().tolist() for value in values] == [[1 + number, 2 + number] for number in range(8)]


def test_results_that_go_to_the_host_leave_no_trace_on_the_next():
    x = on_the_device(1, 2)
    for change in (
        lambda y: y.data,
        lambda y: y.cast(np.float16),
        lambda y: y.zero(),
        lambda y: y.fill(7),
        lambda y: setattr(y, "data", np.zeros(2)),
    ):
        for _ in range(4):
            y = F.add_scalar(x, 1)
            assert y.dtype == np.float32
            change(y)
            del y
            assert np.array_equal(F.add_scalar(x, 1).data, [2, 3])


def test_calls_under_other_contexts_take_over_from_known_ones():
    x = array(1, -2)
    for _ in range(3):
        assert np.array_equal(F.relu(x).data, [1, 0])
        with context_scope(nn.Context("reference")):
            assert np.array_equal(F.add_scalar(F.relu(x), 1).data, [2, 1])
        with context_scope(nn.get_extension_context("sim", device_id="1")):
            assert np.array_equal(F.mul_scalar(F.relu(F.identity(x)), 3).data, [3, 0])
        y = F.identity(x)
        with context_scope(nn.get_extension_context("sim", device_id="1")):
            assert np.array_equal(F.relu(y).data, [1, 0])


def test_an_array_that_a_call_changes_shows_it_in_a_view():
    x = nn.Variable.from_numpy_array(np.arange(6, dtype=np.float32).reshape(3, 2))
    scale, shift = nn.Variable((1, 2)), nn.Variable((1, 2))
    scale.d, shift.d = 1, 0
    mean, variance = nn.Variable((1, 2)), nn.Variable((1, 2))
    with nn.auto_forward():
        for number in range(4):
            mean.d, variance.d = 0, 1
            view = mean.d if number % 2 else None
            F.batch_normalization(x, shift, scale, mean, variance, decay_rate=0.5)
            assert np.array_equal(mean.d if view is None else view, [[1, 1.5]])


@pytest.mark.parametrize("operation", ["allocation", "upload", "launch"])
@pytest.mark.parametrize("known", [False, True])
def test_a_failed_call_says_what_failed_and_changes_nothing(operation, known):
    x, y = array(1, -2), on_the_device(3, 4)
    if known:
        F.add2(x, y)
    x.data = [5, -2]
    held = [F.add2(y, y)]  # so that there is no memory to be used again
    with pytest.raises(atled_sim.SimFault) as caught:
        for _ in range(4):
            with faults.fail(operation):
                held.append(F.add2(x, y))
                x.data = [5, -2]
    expected = {
        "allocation": "allocation of float32",
        "upload": "while a plan fetched float32[2] to SimArray:0",
        "launch": "while sim ran Add2(float32[2], float32[2]",
    }
    assert expected[operation] in words(caught.value)
    assert np.array_equal(x.data, [5, -2]) and np.array_equal(y.data, [3, 4])
    assert all(np.array_equal(each.data, [[6, 8], [8, 2]][number > 0]) for number, each in enumerate(held))
    assert np.array_equal(F.add2(x, y).data, [8, 2])


def test_a_failed_call_into_an_array_leaves_it_as_it_was():
    x, y = on_the_device(1, -2), array(3, 4)
    for _ in range(2):
        with faults.fail("launch"), pytest.raises(atled_sim.SimFault):
            F.relu(x, outputs=[y])
        assert np.array_equal(y.data, [3, 4])
    view = y.data
    F.relu(x, outputs=[y])
    assert view.tolist() == [1, 0]


def test_results_that_wait_to_be_used_again_count_as_kept():
    nn.clear_memory_cache()
    before = nn.memory_statistics()["SimArray:0"]["bytes_in_use"]
    x = on_the_device(1, 2)
    for _ in range(3):
        F.relu(x)
    del x
    after = nn.memory_statistics()["SimArray:0"]
    assert after["bytes_in_use"] == before and after["kept_bytes"] > 0
    nn.clear_memory_cache()
    assert "kept_bytes" not in nn.memory_statistics()["SimArray:0"]


def leaf(*values):
    return nn.Variable.from_numpy_array(np.array(values, np.float32), need_grad=True)


def rebuilt(w, x):
    """A graph with values that are needed only during its backward."""
    return F.sum(F.tanh(F.tanh(w * x) * F.exp(w)))


def expected_gradient(w, x):
    with context_scope(nn.Context("reference")), nn.auto_forward():
        v = leaf(*w.d)
        rebuilt(v, leaf(*x.d)).backward()
        return v.g.copy()


@pytest.mark.parametrize("patience", [0, 1 << 62], ids=["native", "text"])
def test_a_rebuilt_backward_allocates_and_moves_nothing(device, monkeypatch, patience):
    monkeypatch.setattr(inline_cache, "_PATIENCE", patience)  # or calls may change their way while they are counted
    clear_spares()  # of tests before, some of which may be in use for longer
    w = leaf(1, 2)
    with nn.auto_forward():
        x = F.identity(leaf(3, 4))
        for step in range(8):
            if step == 4:
                device.reset_counts()
            w.grad.zero()
            rebuilt(w, x).backward()
    counts = device.counts
    assert counts.launches > 20 and counts.uploads == counts.downloads == counts.copies == 0
    assert counts.allocations <= 6  # of results that go round; the rest is in an arena


@pytest.mark.parametrize("operation", ["launch", "allocation", "upload"])
def test_after_any_failure_in_a_rebuilt_backward_the_next_one_is_right(operation):
    w, x = leaf(1, 2), leaf(0.5, 0.25)
    with nn.auto_forward():
        for _ in range(4):
            w.grad.zero()
            rebuilt(w, x).backward()
        for nth in range(1, 40):
            w.d, x.d = [nth, 1], [0.5, 0.25]
            w.grad.zero()
            root = rebuilt(w, x)
            with faults.fail(operation, nth) as fault:
                try:
                    root.backward()
                except atled_sim.SimFault as error:
                    assert operation in str(error)
                    assert operation != "launch" or "while sim ran" in words(error)
                    assert not w.grad.cell.is_written
            root = rebuilt(w, x)
            root.backward()
            if not fault.happened:
                break
            np.testing.assert_allclose(w.g, expected_gradient(w, x), rtol=1e-6)
    assert nth > 3 or operation != "launch"


def test_gradients_that_are_read_or_written_on_the_host_between_rebuilt_backwards_add_up():
    w, x = leaf(1, 2), leaf(0.5, 0.25)
    with nn.auto_forward():
        for step in range(10):
            w.grad.zero()
            view = w.g if step % 3 == 1 else None
            if step % 3 == 2:
                w.grad.data = [10, 20]
            before = w.g.copy() if step % 2 else 0 * w.d + (10, 20) if step % 3 == 2 else 0
            rebuilt(w, x).backward()
            once = expected_gradient(w, x)
            np.testing.assert_allclose(w.g if view is None else view, before + once, rtol=1e-6)
            rebuilt(w, x).backward()
            np.testing.assert_allclose(w.g if view is None else view, before + 2 * once, rtol=1e-6)
            del view


def test_threads_that_run_one_rebuilt_plan_do_not_share_its_memory():
    def train(number):
        w, x = leaf(number, 2), leaf(0.5, 0.25)
        with context_scope(nn.get_extension_context("sim")), nn.auto_forward():
            for _ in range(30):
                w.grad.zero()
                rebuilt(w, x).backward()
                found = w.g.copy()
                yield found, expected_gradient(w, x)

    with ThreadPoolExecutor(4) as pool:
        for pairs in pool.map(lambda number: list(train(number)), range(4)):
            for found, wanted in pairs:
                np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_plan_amid_which_it_runs_again_has_other_memory(monkeypatch):
    w, x, v = leaf(1, 2), leaf(0.5, 0.25), leaf(3, 1)
    launches = []

    def start_launch(self, call):
        launches.append(call)
        if len(launches) == 4:
            rebuilt_again = rebuilt(v, x)
            rebuilt_again.backward()

    with nn.auto_forward():
        for _ in range(4):
            w.grad.zero()
            v.grad.zero()
            rebuilt(w, x).backward()
            rebuilt(v, x).backward()
        w.grad.zero()
        v.grad.zero()
        root = rebuilt(w, x)
        with monkeypatch.context() as patch:
            patch.setattr(atled_sim.SimDevice, "start_launch", start_launch)
            root.backward()
    assert len(launches) > 8
    np.testing.assert_allclose(w.g, expected_gradient(w, x), rtol=1e-6)
    np.testing.assert_allclose(v.g, expected_gradient(v, x), rtol=1e-6)


def test_calls_that_cast_first_take_the_short_way_too(device):
    x = F.identity(array(1, -2, 3))
    labels = nn.NdArray.from_numpy_array(np.zeros((1, 1), np.float32))
    scores = F.reshape(x, (1, 3))
    found = []
    for step in range(6):
        if step == 4:
            device.reset_counts()
        found.append(F.softmax_cross_entropy(scores, labels))
    assert (device.counts.launches, device.counts.uploads) == (4, 0)  # a cast to whole numbers, and the loss
    assert len({float(loss.data[0, 0]) for loss in found}) == 1
    with faults.fail("launch", 2), pytest.raises(atled_sim.SimFault) as caught:
        F.softmax_cross_entropy(scores, labels)
    assert "while sim ran SoftmaxCrossEntropy" in words(caught.value)


def test_an_array_that_is_read_there_often_stays_there_until_it_is_written(device):
    x = array(1, -2)
    for number in range(3):
        for _ in range(4):
            assert np.array_equal(F.relu(x).data, [1 + number, 0])
        assert x.cell.place is F.relu(x).cell.place
        device.reset_counts()
        assert np.array_equal(x.data, [1 + number, -2])
        assert device.counts.downloads == 0  # it is in host memory still
        x.data[0] += 1


def test_an_array_that_is_read_on_the_host_as_well_is_copied_once(device):
    x = nn.Variable.from_numpy_array(np.array([1, -2], np.float32))
    with context_scope(nn.Context("reference")):
        y = x + 1
        y.forward()
    device.reset_counts()
    for _ in range(4):
        results = F.relu(x.data), F.relu(x.data)
        y.forward()
        assert np.array_equal(y.d, [2, -1])
        del results
    assert (device.counts.uploads, device.counts.downloads) == (1, 0)


def test_what_is_left_out_has_no_memory_on_the_short_way_either(device):
    x = F.identity(nn.NdArray.from_numpy_array(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)))
    with atled_sim.omit({"MaxPooling"}):
        F.max_pooling(x, (2, 2)), F.max_pooling(x, (2, 2))
        device.reset_counts()
        for _ in range(3):
            y = F.max_pooling(x, (2, 2))
        assert (device.counts.launches, device.counts.uploads) == (3, 0)
        assert y.data.ravel().tolist() == [5, 7, 13, 15]
        with nn.auto_forward():
            v = nn.Variable((1, 1, 4, 4))
            v.data = x
            for _ in range(3):
                pooled = F.max_pooling(v, (2, 2))
        assert pooled.value.parent.auxiliary[1].is_unstored


@pytest.fixture
def workspaces(monkeypatch):
    """Every kernel asks for a workspace, and spoils it."""
    prepare = kernels.prepare

    def with_workspace(call):
        made, count = prepare(call), len(call.inputs) + len(call.outputs)

        def run(*arguments):
            workspace = arguments[count]
            assert (workspace.dtype, workspace.shape) == (np.uint8, (192,))
            made.run(*arguments[:count], *arguments[count + 1 :])
            atled_sim.device(call.device_id).reach(workspace).fill(0xFF)

        return Prepared(run, workspace=192)

    monkeypatch.setattr(kernels, "prepare", with_workspace)
    reload_plugins()
    yield
    monkeypatch.undo()
    reload_plugins()


def test_workspaces_are_there_on_every_short_way(workspaces, device):
    x, w = array(1, -2), leaf(1, 2)
    with nn.auto_forward():
        for step in range(8):
            if step == 5:
                device.reset_counts()
            assert F.elu(F.relu(x), 2).data.tolist() == [1, 0]
            row, column = F.reshape(x, (1, 2)), F.reshape(x, (2, 1))
            assert F.affine(row, column).data.tolist() == [[5]]
            w.grad.zero()
            rebuilt(w, leaf(0.5, 0.25)).backward()
            np.testing.assert_allclose(w.g, expected_gradient(w, leaf(0.5, 0.25)), rtol=1e-6)
    assert device.counts.launches > 30


@pytest.fixture
def failing_half_way(monkeypatch):
    """A block in which each launch spoils all memory of the device, and fails."""

    def spoil(self, call):
        for block in self.memory._blocks.values():
            block.fill(0xFF)
        raise atled_sim.SimFault("half-way")

    @contextlib.contextmanager
    def failing():
        with monkeypatch.context() as patch:
            patch.setattr(atled_sim.SimDevice, "start_launch", spoil)
            yield

    yield failing
    nn.clear_memory_cache()  # what is kept there, such as seeds, is spoilt, too


@pytest.mark.parametrize("known", [False, True])
def test_a_launch_that_fails_half_way_leaves_what_is_in_host_memory(failing_half_way, known):
    """Also where the kernel has changed the copy on the device before it failed."""
    x, y = array(3, 4), array(1, 2)
    scale, shift = leaf(1, 1), leaf(0, 0)
    mean, variance, rows = leaf(0, 0), leaf(1, 1), leaf(1, 2, 3, 4)
    one_row = [v.reshape((1, 2), unlink=True) for v in (shift, scale, mean, variance)]

    def normalize():
        return F.batch_normalization(F.reshape(rows, (2, 2)), *one_row, decay_rate=0.5)

    with nn.auto_forward():
        if known:
            for _ in range(3):
                F.add2(x, y, outputs=[x])
                normalize()
                x.data, mean.d, variance.d = [3, 4], [0, 0], [1, 1]
        (
            F.relu(x),
            F.relu(mean),
            F.relu(variance),
        )  # they are on the device now, and read there for the second time below
        with failing_half_way():
            for call in (lambda: F.add2(x, y, outputs=[x]), normalize):
                with pytest.raises(atled_sim.SimFault, match="half-way"):
                    call()
        assert F.add_scalar(x, 0).data.tolist() == [3, 4]
        assert [F.add_scalar(v, 0).d.tolist() for v in (mean, variance)] == [[0, 0], [1, 1]]
    assert x.data.tolist() == [3, 4]
    assert (mean.d.ravel().tolist(), variance.d.ravel().tolist()) == ([0, 0], [1, 1])


def test_a_rebuilt_backward_that_fails_half_way_leaves_gradients_in_host_memory(failing_half_way):
    w, x = leaf(1, 2), leaf(0.5, 0.25)

    with nn.auto_forward():
        for _ in range(5):
            w.g = [10, 20]
            rebuilt(w, x).backward()
            np.testing.assert_allclose(w.g, np.array([10, 20]) + expected_gradient(w, x), rtol=1e-6)
        w.g = [10, 20]
        root = rebuilt(w, x)
        with failing_half_way(), pytest.raises(atled_sim.SimFault, match="half-way"):
            root.backward()
        assert F.add_scalar(w.grad, 0).data.tolist() == [10, 20]
        assert w.g.tolist() == [10, 20]
