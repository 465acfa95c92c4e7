"""Arrays that travel between the host and simulated devices: every program gives what it gives on the reference."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim
from atled.arrays.place import TRANSFERS
from atled_contexts import context_scope
from atled_sim.array_class import SimArrayClass


def reference(device_id="0"):
    return nn.Context("reference:float")


def sim(device_id="0"):
    return nn.get_extension_context("sim", device_id=device_id, fallback="raise")


def half(device_id="0"):
    return nn.get_extension_context("sim", device_id=device_id, type_config="half", fallback="raise")


def leaf(*shape, seed=0, need_grad=True):
    values = np.random.default_rng(seed).standard_normal(shape).astype("f")
    return nn.Variable.from_numpy_array(values, need_grad=need_grad)


PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def writing_through_a_held_view_before_each_forward(context):
    with context_scope(context()):
        x = leaf(3, 4)
        y = F.tanh(x) * 2.0
    view = x.d
    results = []
    for value in (1.0, 2.0, 3.0):
        view[...] = value
        y.forward()
        results.append(y.d.copy())
    return results


@program
def a_held_view_of_a_result_shows_each_forward(context):
    with context_scope(context()):
        x = leaf(3, 4)
        y = F.tanh(x)
    y.forward()
    view = y.d
    results = [view.copy()]
    x.d = 0.5
    y.forward()
    results.append(view.copy())
    return results


@program
def writing_into_a_result_between_forward_and_backward(context):
    with context_scope(context()):
        x = leaf(3, 4)
        h = F.sigmoid(x)
        y = F.sum(F.pow_scalar(h, 2.0))
    y.forward()
    h.d[0] = 7.0
    x.grad.zero()
    y.backward()
    return [x.g.copy()]


@program
def a_reshaped_variable_shows_the_same_memory(context):
    with context_scope(context()):
        x = leaf(3, 4)
        h = F.tanh(x)
        r = F.reshape(h, (4, 3))
        y = F.sum(r * r)
    y.forward()
    r.d[0, 0] = 5.0
    x.grad.zero()
    y.backward()
    return [h.d.copy(), r.d.copy(), x.g.copy()]


@program
def a_reshaped_leaf_with_two_readers(context):
    with context_scope(context()):
        x = leaf(3, 4)
        r = F.reshape(x, (12,))
        y = F.sum(F.tanh(r) * r) + F.sum(F.tanh(x))
    x.grad.zero()
    r.grad.zero()
    y.forward()
    y.backward()
    first = [y.d.copy(), x.g.copy(), r.g.copy()]
    x.d = np.ones((3, 4))
    y.forward()
    return [*first, y.d.copy()]


@program
def an_imperative_reshape_shares_memory_that_ops_change_in_place(context):
    with context_scope(context()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.arange(6, dtype="f")))
        r = F.reshape(a, (2, 3))
        a += 1.0
        r *= 2.0
    return [a.data.copy(), r.data.copy()]


@program
def imperative_arithmetic(context):
    with context_scope(context()):
        a = nn.NdArray.from_numpy_array(np.arange(6, dtype="f").reshape(2, 3))
        b = F.exp(a * 0.1)
        b -= a
        b /= 3.0
        c = F.batch_matmul(F.reshape(b, (1, 2, 3)), F.reshape(a, (1, 3, 2)))
        a.fill(2.0)
        d = b + a
        a.zero()
        return [b.data, c.data, d.data, (a + d).data, (1.0 / d)[0].data]


@program
def imperative_results_written_by_the_user(context):
    with context_scope(context()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.arange(6, dtype="f")))
        a.data[2] = 9.0
        b = a * 2.0
        a.data = 1.0
        return [b.data, (a + b).data, a.data]


@program
def arrays_that_become_leaves(context):
    with context_scope(context()):
        x = nn.Variable((6,), need_grad=True)
        x.data = F.tanh(nn.NdArray.from_numpy_array(np.arange(6, dtype="f")))
        y = F.sum(x * x)
        y.forward()
        y.backward()
        return [y.d, x.g]


@program
def gradients_accumulate(context):
    with context_scope(context()):
        x = leaf(3, 4)
        y = F.sum(F.tanh(x))
    x.grad.zero()
    results = []
    for factor in (1.0, 2.0, 2.0):
        y.forward()
        y.backward(factor)
        results.append(x.g.copy())
    x.grad.zero()
    y.backward()
    return [*results, x.g.copy()]


@program
def gradients_in_the_middle(context):
    with context_scope(context()):
        x = leaf(3, 4)
        h = F.tanh(x)
        y = F.sum(F.exp(h) * h + F.reshape(h, (3, 4)))
    results = []
    for value in (1.0, 0.5):
        x.d = value
        x.grad.zero()
        y.forward()
        y.backward()
        results += [h.g.copy(), x.g.copy(), y.parent.inputs[0].g.copy(), h.d.copy()]
    return results


@program
def a_given_gradient(context):
    with context_scope(context()):
        x = leaf(3, 4)
        y = F.tanh(x)
    x.grad.zero()
    y.forward()
    y.backward(np.arange(12.0).reshape(3, 4))
    first = x.g.copy()
    x.grad.zero()
    y.g = 2.0
    y.backward(None)
    return [first, x.g.copy()]


@program
def two_graphs_over_the_same_arrays(context):
    with context_scope(context()):
        w = leaf(4, 2)
        x, z = leaf(3, 4, seed=1), leaf(5, 4, seed=2)
        first, second = F.sum(F.tanh(F.affine(x, w))), F.sum(F.relu(F.affine(z, w)))
        solver = S.Momentum(0.1)
        solver.set_parameters({"w": w})
        results = []
        for _ in range(3):
            for loss in (first, second):
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.update()
                results.append(loss.d.copy())
    return [*results, w.d.copy()]


@program
def a_result_that_is_a_leaf_or_a_view_of_one(context):
    with context_scope(context()):
        x = leaf(3, 4)
        y = F.reshape(x, (12,))
        z = F.identity(x)
    y.forward()
    z.forward()
    x.grad.zero()
    y.backward(3.0)
    z.backward(2.0)
    return [y.d, z.d, x.g]


@program
def random_masks_follow_the_seed(context):
    with context_scope(context()):
        x = leaf(20, 20)
        y = F.dropout(x, 0.5, seed=3)
        z = F.sum(y * y)
        noise = F.randn(0.0, 1.0, (5,), seed=4)
    results = []
    for _ in range(2):
        x.grad.zero()
        z.forward()
        z.backward()
        noise.forward()
        results += [y.d.copy(), x.g.copy(), noise.d.copy()]
    return results


@program
def casting_a_leaf(context):
    with context_scope(context()):
        x = leaf(3, 4)
        y = F.tanh(x)
    y.forward()
    x.data.cast(np.float64)
    y.forward()
    first = y.d.copy()
    x.data.cast(np.int32)
    y.forward()
    return [first, y.d.copy()]


@program
def a_function_called_on_other_variables(context):
    with context_scope(context()):
        x, other = leaf(3, 4), leaf(3, 4, seed=1)
        y = F.tanh(x)
        out = nn.Variable((3, 4))
    y.parent.forward([other], [out])
    out.g = 1.0
    other.grad.zero()
    y.parent.backward([other], [out])
    return [out.d, other.g]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_on_the_reference(name):
    for found, wanted in zip(PROGRAMS[name](sim), PROGRAMS[name](reference), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_half_precision_gives_what_it_gives_on_the_reference(name):
    half_reference = PROGRAMS[name](lambda: nn.Context("reference:half"))
    for found, wanted in zip(PROGRAMS[name](half), half_reference, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_a_result_stays_on_the_device_until_it_is_read(device):
    with context_scope(sim()):
        a = nn.NdArray.from_numpy_array(np.ones((2, 2), "f"))
        b = F.tanh(a)
        c = b + a
        assert (device.counts.uploads, device.counts.downloads) == (1, 0)
        assert (c.data == b.data + 1).all()
    assert device.counts.downloads == 2


def test_an_unchanged_array_goes_up_once_and_a_changed_one_again():
    with context_scope(sim()):
        x = leaf(3, 4)
        y = F.tanh(x)
    for _ in range(3):
        y.forward()
    assert TRANSFERS.calls == 1
    x.d = 2.0
    for _ in range(3):
        y.forward()
    assert TRANSFERS.calls == 2


def test_an_array_goes_up_before_each_run_while_a_view_is_alive():
    with context_scope(sim()):
        x = leaf(3, 4)
        y = F.tanh(x)
    view = x.d
    for _ in range(3):
        y.forward()
    assert TRANSFERS.calls == 3
    del view
    y.forward()  # it may have been written through until now
    y.forward()
    assert TRANSFERS.calls == 4


def test_a_reshaped_leaf_goes_up_once():
    with context_scope(sim()):
        y = F.tanh(F.reshape(leaf(3, 4), (12,)))
    y.forward()
    y.forward()
    assert TRANSFERS.calls == 1


def test_reading_a_result_does_not_compile_or_bind_anew(device):
    with context_scope(sim()):
        y = F.sum(F.tanh(leaf(3, 4)))
    y.forward()
    y.d  # noqa: B018  # reading is the point
    y.forward()
    device.reset_counts()
    planned = y.value.roots.forward
    y.d  # noqa: B018  # as above
    y.forward()
    assert y.value.roots.forward is planned
    assert device.counts.allocations == 0


def test_one_graph_on_two_devices_copies_between_them():
    def build(first, second):
        x = leaf(3, 4)
        with context_scope(first):
            h = F.tanh(x)
        with context_scope(second):
            k = F.exp(h)
        with context_scope(first):
            y = F.sum(k * h)
        return x, h, k, y

    results = []
    for first, second in ((reference(), reference()), (sim("0"), sim("1"))):
        x, h, k, y = build(first, second)
        x.grad.zero()
        with nn.trace() as trace:
            y.forward()
            y.backward()
        results.append([y.d.copy(), k.d.copy(), x.g.copy(), k.g.copy(), h.g.copy()])
    for found, wanted in zip(results[1], results[0], strict=True):
        np.testing.assert_array_equal(found, wanted)
    moves = {(row.source, row.destination): row.count for row in trace.transfers()}
    assert moves[("SimArray:0", "SimArray:1")] == 2  # h forward, the gradient of k backward
    assert moves[("SimArray:1", "SimArray:0")] == 3  # k forward, k again and the gradient of h backward
    assert repr(h.value.data.cell.place) == "SimArray:0"


@pytest.mark.parametrize("order", ["host first", "device first"])
def test_a_graph_partly_on_the_host(order):
    def build(first, second):
        x = leaf(3, 4)
        with context_scope(first):
            h = F.tanh(F.reshape(x, (4, 3)))
        with context_scope(second):
            y = F.sum(F.exp(h) * F.reshape(x, (4, 3)))
        return x, h, y

    contexts = (reference(), sim()) if order == "host first" else (sim(), reference())
    results = []
    for pair in ((reference(), reference()), contexts):
        x, h, y = build(*pair)
        found = []
        for value in (0.5, 1.5):
            x.d = value
            x.grad.zero()
            y.forward()
            y.backward()
            found += [y.d.copy(), x.g.copy(), h.g.copy()]
        results.append(found)
    for found, wanted in zip(results[1], results[0], strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_imperative_ops_of_the_host_take_arrays_of_the_device():
    with context_scope(sim()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.arange(6, dtype="f")))
    b = F.relu(a)  # the default Context, whose kernels may be machine code
    a += 1.0
    np.testing.assert_array_equal(b.data, np.tanh(np.arange(6, dtype="f")))
    np.testing.assert_array_equal(a.data, np.tanh(np.arange(6, dtype="f")) + 1)


def test_a_graph_of_the_host_reads_what_a_device_wrote():
    x = leaf(3, 4)
    with context_scope(reference()):
        on_host = F.sum(x)
    on_host.forward()
    with context_scope(sim()):
        on_device = F.sum(x * 2.0)
        solver = S.Sgd(1.0)
        solver.set_parameters({"x": x})
    before = x.d.copy()
    on_device.forward()
    solver.zero_grad()
    on_device.backward()
    with context_scope(sim()):
        solver.update()
    on_host.forward()
    np.testing.assert_allclose(on_host.d, (before - 2).sum(), rtol=1e-6)
    np.testing.assert_array_equal(x.d, before - 2)


def test_a_device_is_used_with_its_own_array_class_wherever_it_is_listed():
    x = leaf(3, 4)
    with nn.context_scope(nn.Context(["sim:float", "reference:float"], "CpuArray", fallback="raise")):
        y = F.tanh(x)
    y.forward()
    assert repr(y.value.data.cell.place) == "SimArray:0"


def test_a_gradient_check_by_the_solver_reads_the_device():
    with context_scope(sim()):
        x = leaf(3, 4)
        y = F.sum(F.log(x * 0.0))
        solver = S.Sgd(1.0)
        solver.set_parameters({"x": x})
        y.forward()
        y.backward()
        assert solver.check_inf_or_nan_grad()


# One array, changed by ops on two devices.


def test_what_an_op_changed_on_one_device_is_read_from_there_on_another():
    first, second = (nn.get_extension_context("sim", device_id=device_id) for device_id in ("0", "1"))
    x = nn.Variable.from_numpy_array(np.full((2, 3, 4), 2, np.float32))
    beta, gamma, mean, variance = (
        nn.Variable.from_numpy_array(np.full((1, 3, 1), value, np.float32)) for value in (0, 1, 0, 1)
    )
    with nn.context_scope(second):
        before = F.tanh(mean)
    with nn.context_scope(first):
        normalized = F.batch_normalization(x, beta, gamma, mean, variance, decay_rate=0.5)
    with nn.context_scope(second):
        after = F.tanh(mean)
    F.concatenate(F.reshape(before, (3,)), F.reshape(normalized, (24,)), F.reshape(after, (3,)), axis=0).forward()
    np.testing.assert_allclose(before.d, 0)
    np.testing.assert_allclose(after.d, np.tanh(1), rtol=1e-6)


def test_one_array_changed_on_two_devices_in_one_plan_is_refused():
    x = nn.Variable((2, 3, 4))
    statistics = [nn.Variable.from_numpy_array(np.full((1, 3, 1), value, np.float32)) for value in (0, 1, 0, 1)]
    for device_id in ("0", "1"):
        with nn.context_scope(nn.get_extension_context("sim", device_id=device_id)):
            x = F.batch_normalization(x, *statistics, decay_rate=0.5)
    with pytest.raises(RuntimeError, match="compute both on one device"):
        x.forward()
    np.testing.assert_array_equal(statistics[2].d, 0)


def test_what_was_written_through_a_view_that_is_gone_reaches_every_device():
    first, second = (nn.get_extension_context("sim", device_id=device_id) for device_id in ("0", "1"))
    x = nn.NdArray.from_numpy_array(np.ones(3, np.float32))
    with nn.context_scope(second):
        F.add_scalar(x, 1)
    x.data[...] = 5
    for context in (first, second):
        with nn.context_scope(context):
            np.testing.assert_array_equal(F.add_scalar(x, 1).data, 6)


def test_arrays_of_two_devices_meet_where_the_context_says():
    on_first, on_second = (nn.NdArray.from_numpy_array(np.full(5, value, "f")) for value in (1, 2))
    on_first.cast(np.float32, ctx=sim("0"))
    on_second.cast(np.float32, ctx=sim("1"))
    for _ in range(3):  # by the general way first, then by the short one
        for device_id in ("1", "0"):
            with context_scope(sim(device_id)):
                y = on_first + on_second
            assert repr(y.cell.place) == f"SimArray:{device_id}"
            np.testing.assert_array_equal(y.data, 3)


def test_a_cast_of_an_array_on_a_device_happens_there(device):
    x = nn.NdArray.from_numpy_array(np.array([[0.5, -3.25, 1e3]], "f"))
    x.cast(np.float32, ctx=sim())
    device.reset_counts()
    TRANSFERS.reset()
    x.cast(np.float16, ctx=sim())
    assert (device.counts.uploads, device.counts.downloads, TRANSFERS.calls) == (0, 0, 0)
    assert device.counts.launches == 1
    assert repr(x.cell.place) == "SimArray:0" and x.dtype == np.float16
    np.testing.assert_array_equal(x.data, np.array([[0.5, -3.25, 1e3]], np.float16))


def test_a_cast_that_the_device_refuses_is_made_on_the_host_and_counted(device):
    x = nn.NdArray.from_numpy_array(np.ones((2, 3), "f"))
    x.cast(np.float32, ctx=sim())
    with atled_sim.refuse({"Cast"}):
        TRANSFERS.reset()
        with nn.trace() as trace:
            x.cast(np.float16, ctx=sim())
    moves = {(row.source, row.destination): row.nbytes for row in trace.transfers()}
    assert moves == {("SimArray:0", "host"): 24, ("host", "SimArray:0"): 12}
    np.testing.assert_array_equal(x.data, np.ones((2, 3), np.float16))


@pytest.mark.parametrize("direct", [False, True])
def test_from_device_to_device_the_host_is_left_out_where_they_reach_each_other(monkeypatch, direct):
    if not direct:
        monkeypatch.setattr(SimArrayClass, "copy_across", lambda self, source, target: False)
    x = nn.NdArray.from_numpy_array(np.arange(6, dtype="f"))
    x.cast(np.float32, ctx=sim("0"))
    with nn.trace() as trace:
        x.cast(np.float32, ctx=sim("1"))
    moves = [(row.source, row.destination) for row in trace.transfers()]
    across = [("SimArray:0", "SimArray:1")]
    assert moves == (across if direct else [("SimArray:0", "host"), ("host", "SimArray:1")])
    np.testing.assert_array_equal(x.data, np.arange(6))


def test_a_cast_on_the_way_to_another_device_happens_where_the_values_are():
    x = nn.NdArray.from_numpy_array(np.arange(6, dtype="f"))
    x.cast(np.float32, ctx=sim("0"))
    with nn.trace() as trace:
        y = nn.NdArray((6,))
        y.cast(np.float16, ctx=sim("1"))
        y.copy_from(x)
    assert ("SimArray:0", "SimArray:1", 12) in [(row.source, row.destination, row.nbytes) for row in trace.transfers()]
    np.testing.assert_array_equal(y.data, np.arange(6, dtype=np.float16))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_copy_from_an_array_on_a_device_stays_there(device, dtype):
    with context_scope(sim()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.linspace(-3, 3, 7, dtype="f")))
    device.reset_counts()
    b = nn.NdArray((7,))
    b.cast(np.dtype(dtype))
    b.copy_from(a)
    assert (device.counts.uploads, device.counts.downloads) == (0, 0)
    assert repr(b.cell.place) == "SimArray:0" and b.dtype == dtype
    np.testing.assert_array_equal(b.data, a.data.astype(dtype))


def test_copy_from_a_device_shows_in_a_view_that_is_held():
    with context_scope(sim()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.ones(3, "f")))
    b = nn.NdArray.from_numpy_array(np.zeros(3, "f"))
    view = b.data
    b.copy_from(a)
    np.testing.assert_array_equal(view, a.data)
    view[...] = 2
    np.testing.assert_array_equal(b.data, 2)


def test_copy_from_itself_changes_nothing():
    with context_scope(sim()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.ones(3, "f")))
    wanted = a.data.copy()
    a.cast(np.float32, ctx=sim())
    a.copy_from(a)
    np.testing.assert_array_equal(a.data, wanted)


@pytest.mark.parametrize("operation", ["allocation", "launch"])
def test_copy_from_that_fails_leaves_the_values_as_they_were(operation):
    with context_scope(sim()):
        a = F.tanh(nn.NdArray.from_numpy_array(np.ones(3, "f")))
    b = nn.NdArray.from_numpy_array(np.full(3, 7, np.float16))
    with atled_sim.faults.fail(operation), pytest.raises(atled_sim.SimFault):
        b.copy_from(a)
    np.testing.assert_array_equal(b.data, 7)


def test_a_graph_sees_what_was_copied_on_the_device(device):
    with context_scope(sim()):
        x = leaf(3, 4)
        y = F.tanh(x)
        source = F.exp(nn.NdArray.from_numpy_array(np.ones((3, 4), "f")))
    for _ in range(6):  # until plans trust that it stays there
        y.forward()
    x.data.copy_from(source)
    device.reset_counts()
    y.forward()
    assert device.counts.uploads == 0
    np.testing.assert_array_equal(y.d, np.tanh(source.data))


@pytest.mark.parametrize("type_config", ["float", "half", "double"])
@pytest.mark.parametrize(
    ("value", "inf", "nan"), [(1, False, False), (np.inf, True, False), (-np.inf, True, False), (np.nan, False, True)]
)
def test_gradients_on_a_device_are_checked_there(device, type_config, value, inf, nan):
    dtype = np.dtype({"half": "e", "float": "f", "double": "d"}[type_config])
    solver, parameters = S.Sgd(1.0), {}
    for name in "abc":
        parameters[name] = leaf(3, 4)
        values = np.full((3, 4), np.finfo(dtype).max, dtype)  # of float64 beyond what float32 holds
        values[1, 2] = value if name == "b" else 1
        parameters[name].grad = nn.NdArray.from_numpy_array(values)
        parameters[name].grad.cast(dtype, ctx=sim())
    solver.set_parameters(parameters)
    for check, wanted in (
        (solver.check_inf_grad, inf),
        (solver.check_nan_grad, nan),
        (solver.check_inf_or_nan_grad, inf or nan),
    ):
        device.reset_counts()
        assert check() is wanted
        assert (device.counts.uploads, device.counts.downloads) == (0, 1)
        assert device.counts.downloaded_bytes <= 8


def gradients_on_sim(*values):
    """A solver, and parameters with these gradients on the device."""
    parameters = {f"w{number}": leaf(2) for number in range(len(values))}
    for parameter, value in zip(parameters.values(), values, strict=True):
        parameter.grad = nn.NdArray.from_numpy_array(np.float32(value))
        parameter.grad.cast(np.float32, ctx=sim())
    solver = S.Sgd(1.0)
    solver.set_parameters(parameters)
    return solver, list(parameters.values())


def test_norms_of_gradients_are_computed_on_the_device_and_read_together(device):
    solver, parameters = gradients_on_sim([3, 4], [0.3, 0.4], [-6, 8])
    device.reset_counts()
    with context_scope(sim()):
        solver.clip_grad_by_norm(1)
    assert device.counts.downloaded_bytes == 3 * 4
    for parameter, expected in zip(parameters, ([0.6, 0.8], [0.3, 0.4], [-0.6, 0.8]), strict=True):
        np.testing.assert_allclose(parameter.g, expected, rtol=1e-6)


def test_norms_of_gradients_whose_device_lacks_the_ops_are_computed_on_the_host(device):
    solver, (parameter,) = gradients_on_sim([3, 4])
    with atled_sim.refuse({"Sum"}):
        solver.clip_grad_by_norm(1)
    np.testing.assert_allclose(parameter.g, [0.6, 0.8], rtol=1e-6)


def test_gradients_whose_device_lacks_the_ops_are_checked_on_the_host(device):
    x = leaf(3, 4)
    x.grad = nn.NdArray.from_numpy_array(np.full((3, 4), np.nan, "f"))
    x.grad.cast(np.float32, ctx=sim())
    solver = S.Sgd(1.0)
    solver.set_parameters({"x": x})
    with atled_sim.refuse({"Sum"}):
        device.reset_counts()
        assert solver.check_nan_grad() and not solver.check_inf_grad()
    assert device.counts.downloaded_bytes == 3 * 4 * 4
