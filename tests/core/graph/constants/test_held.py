"""What a forward computes of arrays that nobody writes, kept between runs: never stale, bounded, given up in time."""

from __future__ import annotations

import gc
import logging
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.constants import CONSTANTS
from atled.logger import logger
from ways_of_writing import all_ways, by_output_of_an_op

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((3, 4, 160), "f")
WEIGHTS = RNG.standard_normal((3, 160, 160), "f")
FACTORS = RNG.standard_normal((2, 160, 1), "f")


@pytest.fixture(autouse=True)
def empty():
    nn.clear_memory_cache()
    yield
    CONSTANTS.set_limit(1 << 30)


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(values, need_grad=need_grad)


def scaled(x, w, factor):
    """x @ (w * factor), of which nobody holds the product."""
    return F.affine(x, w * F.broadcast(factor, w.shape))


def computed(rows, weight, factor=FACTORS[0]):
    """In a first run, which keeps nothing."""
    y = scaled(leaf(rows), leaf(weight), leaf(factor))
    y.forward()
    return y.d.copy()


def counted():
    return nn.memory_statistics()["caches"]["constants"]


def step_count(y):
    return len(y.plan.steps)


def run(x, y, times=1):
    """Forward with other rows each time; the last of them."""
    for number in range(times):
        rows = ROWS[number % 3] + np.float32(number)
        x.d = rows
        y.forward()
    return rows


@pytest.fixture
def graph():
    """x, w, factor, y of a graph that runs with w * factor as a constant."""
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    y = scaled(x, w, factor)
    y.forward()
    assert step_count(y) == 2 and counted() == 0
    run(x, y)
    assert step_count(y) == 1 and counted() == 1
    return x, w, factor, y


def test_results_are_those_of_a_run_without(graph):
    x, _, _, y = graph
    for number in range(3):
        x.d = ROWS[number]
        y.forward()
        np.testing.assert_array_equal(y.d, computed(ROWS[number], WEIGHTS[0]))


def test_zeros_of_either_sign_and_nan_are_numbers_of_their_own():
    w = leaf(np.abs(WEIGHTS[0]) + 1)
    for number, expected in ((0.0, np.inf), (-0.0, -np.inf), (np.nan, np.nan), (0.0, np.inf)):
        x = leaf(np.ones_like(WEIGHTS[0]))
        y = x / (F.tanh(w) * number)
        for value in (1, 2, 3):
            x.d = value
            y.forward()
            np.testing.assert_array_equal(y.d, np.full(y.shape, expected))
        assert [step.name for step in y.plan.steps] == ["Div2"]  # by a constant


def test_a_graph_of_which_nothing_changes_tells_nothing():
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    y = scaled(x, w, factor)
    for _ in range(50):
        y.forward()
    assert step_count(y) == 2


def test_random_draws_make_every_run_another_one():
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    y = scaled(F.dropout(x, 0.5), w, factor)
    before = step_count(y)
    for _ in range(3):
        y.forward()
    assert step_count(y) == before - 1


@all_ways
def test_no_way_of_writing_leaves_a_stale_value(graph, write):
    x, w, _, y = graph
    write(w, WEIGHTS[1])
    for number in range(6):
        x.d = ROWS[number % 3]
        y.forward()
        np.testing.assert_array_equal(y.d, computed(ROWS[number % 3], WEIGHTS[1]))


@all_ways
def test_nor_does_one_between_runs_of_which_nothing_else_changes(graph, write):
    x, w, _, y = graph
    write(w, WEIGHTS[1])
    for _ in range(6):
        y.forward()
        np.testing.assert_array_equal(y.d, computed(x.data.data.copy(), WEIGHTS[1]))


def test_loaded_parameters_are_seen(graph, tmp_path):
    x, w, _, y = graph
    path = str(tmp_path / "w.h5")
    with nn.parameter_scope("another"):
        nn.set_parameter("w", leaf(WEIGHTS[1]))
        nn.save_parameters(path)
    with nn.parameter_scope("mine"):
        nn.set_parameter("w", w)
        nn.load_parameters(path)
    nn.clear_parameters()
    for _ in range(3):
        rows = run(x, y)
        np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[1]))


def test_any_of_the_arrays_counts(graph):
    x, _, factor, y = graph
    factor.d = FACTORS[1]
    for _ in range(3):
        rows = run(x, y)
        np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[0], FACTORS[1]))


def test_a_view_that_is_held_is_looked_through_at_each_run(graph):
    x, w, _, y = graph
    view = w.d
    for values in (*WEIGHTS, *WEIGHTS):
        view[...] = values
        rows = run(x, y)
        np.testing.assert_array_equal(y.d, computed(rows, values))
    assert step_count(y) == 2


def test_a_value_in_the_middle_that_is_held_is_computed_at_each_run():
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    middle = w * F.broadcast(factor, w.shape)
    y = F.affine(x, F.tanh(F.transpose(middle, (1, 0))))
    y.forward()
    first = step_count(y)
    run(x, y, 3)
    assert step_count(y) < first and counted() > 0  # of what nobody holds
    np.testing.assert_array_equal(middle.d, WEIGHTS[0] * FACTORS[0])
    middle.d = 7
    run(x, y)
    np.testing.assert_array_equal(middle.d, WEIGHTS[0] * FACTORS[0])
    w.d = WEIGHTS[1]
    run(x, y)
    np.testing.assert_array_equal(middle.d, WEIGHTS[1] * FACTORS[0])


def test_a_value_in_the_middle_that_is_asked_for_later_is_exact(graph):
    _, w, _, y = graph
    middle = y.parent.inputs[1]
    np.testing.assert_array_equal(middle.d, WEIGHTS[0] * FACTORS[0])
    assert step_count(y) == 2
    w.d = WEIGHTS[1]
    y.forward()
    np.testing.assert_array_equal(middle.d, WEIGHTS[1] * FACTORS[0])


def test_what_a_backward_reads_is_stored_by_each_run():
    x, w, factor = leaf(ROWS[0], need_grad=True), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    y = scaled(x, w, factor)
    for number in range(6):
        if number == 3:
            w.d = WEIGHTS[1]
        x.d = ROWS[number % 3]
        y.forward()
        x.grad.zero()
        y.backward()
        weight = WEIGHTS[number // 3] * FACTORS[0]
        np.testing.assert_allclose(x.g, np.ones((4, 160), "f") @ weight.T, rtol=1e-4, atol=1e-4)


def test_gradients_that_are_asked_for_later_are_right(graph):
    x, w, _, y = graph
    w.need_grad = True
    for number in range(6):
        x.d = ROWS[number % 3]
        w.d = WEIGHTS[number % 2]
        y.forward()
        w.grad.zero()
        y.backward()
        np.testing.assert_array_equal(y.d, computed(ROWS[number % 3], WEIGHTS[number % 2]))
        expected = ROWS[number % 3].sum(0)[:, None] * FACTORS[0]
        np.testing.assert_allclose(w.g, np.broadcast_to(expected, w.shape), rtol=1e-4, atol=1e-4)
    w.need_grad = False
    for _ in range(3):
        rows = run(x, y)
        np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[1]))


def test_persistent_values_are_stored_from_then_on(graph):
    x, _w, _, y = graph
    y.parent.inputs[1].persistent = True
    rows = run(x, y, 3)
    assert step_count(y) == 2
    np.testing.assert_array_equal(y.parent.inputs[1].d, WEIGHTS[0] * FACTORS[0])
    np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[0]))


def test_another_shape_is_another_plan(graph):
    x, _, _, y = graph
    x.reset_shape((2, 160), force=True)
    for number in range(4):
        rows = ROWS[number % 3, :2] + np.float32(number)
        x.d = rows
        y.forward()
        np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[0]))
    assert step_count(y) == 1


def test_graphs_of_several_shapes_share_one_value():
    w, factor = leaf(WEIGHTS[0]), leaf(FACTORS[0])
    graphs = []
    for size in (1, 2, 3):
        x = leaf(ROWS[0, :size])
        graphs.append((x, scaled(x, w, factor)))
    for number in range(2):
        for x, y in graphs:
            x.d = x.d + number
            y.forward()
    assert counted() == 1


def test_casts_of_weights_in_half_are_made_once():
    with nn.context_scope(nn.Context("cpu:half")):
        x, w = leaf(ROWS[0]), leaf(WEIGHTS[0], need_grad=True)
        y = F.affine(x, w)
        expected = F.affine(leaf(ROWS[1] + np.float32(1)), leaf(WEIGHTS[0]))
    y.forward()
    expected.forward()
    first = step_count(y)
    run(x, y, 2)
    assert step_count(y) == first - 1 and counted() >= 1
    np.testing.assert_array_equal(y.d, expected.d)
    w.d = 0
    run(x, y, 2)
    assert not y.d.any()


@pytest.mark.parametrize("is_compiled", [False, True])
def test_updates_of_a_training_beside_it_are_seen(graph, is_compiled):
    x, w, factor, y = graph
    w.need_grad = True
    loss = F.mean(scaled(leaf(ROWS[2]), w, factor))
    solver = S.Momentum(10.0)
    solver.set_parameters({"w": w})
    step = nn.compile_step(loss, solver) if is_compiled else None
    for _ in range(5):
        if step is None:
            loss.forward()
            w.grad.zero()
            loss.backward()
            solver.update()
        else:
            step()
        for _ in range(3):
            rows = run(x, y)
            np.testing.assert_allclose(y.d, computed(rows, w.data.data.copy()), rtol=1e-5, atol=1e-5)


def test_what_changes_at_each_run_is_never_made_and_hardly_looked_at():
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    y = scaled(x, w, factor)
    for number in range(200):
        w.d = WEIGHTS[number % 3]
        run(x, y)
        assert counted() == 0
    history = y.value.details.roots.forward.constants._history
    assert history._rest > 0 and history._idle == 15
    run(x, y, 40)
    assert step_count(y) == 1


def test_what_is_soon_written_again_is_made_ever_more_seldom(graph):
    x, w, _, y = graph
    made = 0
    for number in range(200):
        if number % 2:
            w.d = WEIGHTS[number % 3]
        run(x, y)
        made += step_count(y) == 1
    assert made < 10


def test_where_there_is_no_room_results_are_the_same_and_that_is_told_once(caplog, monkeypatch):
    monkeypatch.setattr(logger, "propagate", True)
    nn.set_constants_limit(0)
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    y = scaled(x, w, factor)
    with caplog.at_level(logging.WARNING, logger.name):
        rows = run(x, y, 150)
    assert step_count(y) == 2 and counted() == 0
    assert sum("set_constants_limit" in record.message for record in caplog.records) == 1
    np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[0]))


def test_of_values_that_do_not_all_fit_some_are_kept():
    weights = [leaf(values) for values in WEIGHTS]
    x, factor = leaf(ROWS[0]), leaf(FACTORS[0])
    y = x
    for w in weights:
        y = scaled(y, w, factor)
    nn.set_constants_limit(2 * WEIGHTS[0].nbytes)
    y.forward()
    rows = run(x, y, 4)
    assert counted() == 2
    for values in WEIGHTS:
        rows = computed(rows, values)
    np.testing.assert_array_equal(y.d, rows)


def test_a_constant_may_be_computed_by_steps_that_read_another_one():
    """What is spread reads tanh(w) at each run; its sums, which are kept too, are computed of w."""
    w, factor, other = leaf(WEIGHTS[0]), leaf(RNG.standard_normal((1, 1, 4), "f")), leaf(FACTORS[0])
    spread = F.reshape(F.tanh(w), (160, 160, 1)) * factor
    y = F.sum(F.sum(spread, axis=2) * other) + F.sum(spread * F.reshape(other, (160, 1, 1)))
    wanted = 2 * (np.tanh(WEIGHTS[0]) * factor.d.sum())
    for number in range(3):
        other.d = FACTORS[number % 2]
        y.forward()
        np.testing.assert_allclose(y.d, (wanted * FACTORS[number % 2]).sum(), rtol=1e-3)
    assert counted() == 2


@pytest.mark.parametrize("drop", [nn.clear_memory_cache, lambda: nn.set_constants_limit(0)], ids=["clear", "limit"])
def test_what_is_dropped_gives_its_memory_back(graph, drop):
    x, _, _, y = graph
    held = y.value.details.roots.forward.constants
    drop()
    assert counted() == 0 and held.binding is None
    rows = run(x, y)
    np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[0]))


def test_it_goes_with_the_graph(graph):
    assert counted() == 1
    *_, y = graph
    y.value.details.roots.forward = None
    gc.collect()
    assert counted() == 0


def test_a_trace_sees_what_runs(graph):
    x, _, _, y = graph
    with nn.trace() as trace:
        rows = run(x, y)
    assert [row.op for row in trace.rows()] == ["Affine"]
    np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[0]))


def test_several_roots_have_theirs():
    x, w, factor = leaf(ROWS[0]), leaf(WEIGHTS[0]), leaf(FACTORS[0])
    shared = F.transpose(w * F.broadcast(factor, w.shape), (1, 0))
    roots = [F.affine(x, shared), F.affine(F.tanh(x), shared)]
    del shared
    for number in range(3):
        x.d = ROWS[number]
        nn.forward_all(roots)
    assert counted() >= 1
    weight = (WEIGHTS[0] * FACTORS[0]).T
    np.testing.assert_allclose(roots[0].d, ROWS[2] @ weight, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(roots[1].d, np.tanh(ROWS[2]) @ weight, rtol=1e-4, atol=1e-4)


def test_what_is_written_while_threads_run_is_not_stale_afterwards(graph):
    _, w, factor, _ = graph
    graphs = [(each, scaled(each, w, factor)) for each in (leaf(ROWS[0]), leaf(ROWS[1]))]
    done = threading.Event()
    failed = []

    def infer(x, y):
        try:
            while not done.is_set():
                run(x, y)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=infer, args=each) for each in graphs]
    for thread in threads:
        thread.start()
    for number in range(60):
        w.data.data = WEIGHTS[number % 2]
    done.set()
    for thread in threads:
        thread.join()
    assert not failed
    for x, y in graphs:
        rows = run(x, y)
        np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[1]))


def test_an_op_that_writes_an_array_while_a_value_is_made_of_it_leaves_none_of_that(graph, monkeypatch):
    from atled.graph.run import one_call

    x, w, _, y = graph
    run(x, y, 3)
    ended = one_call.NativeCall._compute

    def compute(self, storages, floats):
        status = ended(self, storages, floats)  # half of it, as far as others can tell
        w.data.data  # noqa: B018  no view lives on
        for _ in range(4):
            run(x, y)
        storages[-1].array((w.data.size,), np.dtype(np.float32))[...] = WEIGHTS[2].ravel()
        return status

    monkeypatch.setattr(one_call.NativeCall, "_compute", compute)
    by_output_of_an_op(w, WEIGHTS[1])
    monkeypatch.undo()
    for _ in range(3):
        rows = run(x, y)
        np.testing.assert_array_equal(y.d, computed(rows, WEIGHTS[2]))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_of_two_signs_are_two_constants(zero):
    def inverse(number):
        """1 / (w * number * x), where w * number is a constant from the second run on."""
        x, w = leaf(np.ones((160, 160), "f")), weight
        y = F.r_div_scalar(F.mul2(F.mul_scalar(w, number), x), 1.0)
        for _ in range(4):
            x.d = 1
            y.forward()
        return y, y.d.copy()

    weight = leaf(np.ones((160, 160), "f"))
    kept, other = inverse(zero), inverse(-zero)
    assert counted() == 2
    np.testing.assert_array_equal(kept[1], np.float32(np.copysign(np.inf, zero)))
    np.testing.assert_array_equal(other[1], np.float32(np.copysign(np.inf, -zero)))
