"""Recorded graphs that are built anew at every step run by the plan of an earlier one, as they would otherwise."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.random
import atled.solvers as S
from atled.arrays.cell import ArrayCell
from atled.arrays.memory import clear_memory_cache
from atled.graph import backward, forward, rebuilt, rebuilt_forward
from atled.graph.run.by_address import CallByAddress, ProgramByAddress
from atled.variable import Variable
from drawn_graphs import SHAPE, drawn_graph, drawn_leaves, leaf

_FURTHER = [
    lambda x: F.reshape(F.reshape(x, (2, 6)), SHAPE),
    lambda x: F.dropout(x, 0.25),
    lambda x: x * F.rand(shape=x.shape),
]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Per run of a plan that was found again the count of values; nothing is known at first."""
    clear_memory_cache()
    monkeypatch.setattr(atled.random, "_SEEDS", atled.random._Seeds())
    forward.forward(F.identity(leaf(1)).value)  # the names of `forward` are in their places behind it
    seen: list[int] = []
    prepared = rebuilt_forward.RebuiltForward.prepared

    def counted(self: rebuilt_forward.RebuiltForward, walked: rebuilt_forward.Walk) -> object:
        seen.append(len(walked.values))
        return prepared(self, walked)

    monkeypatch.setattr(rebuilt_forward.RebuiltForward, "prepared", counted)
    with nn.context_scope(nn.Context(["cpu:float"])):
        yield seen


def observed(seed: int, step: int) -> list[np.ndarray]:
    """What can be seen of a graph: gradients, statistics, results that were held, then those that were not."""
    nn.seed(step)
    flags = (True, False, True, None) if seed % 3 else (False, False, None, None)
    leaves = drawn_leaves(100 * seed + step, flags)
    statistics = [Variable.from_numpy_array(np.full((1, 4), number, np.float32)) for number in (0, 1)]
    root, held = drawn_graph(seed, leaves, _FURTHER, statistics)
    root.forward()
    found = [root.d.copy(), *(statistic.d.copy() for statistic in statistics)]
    if root.need_grad or seed % 2:
        root.backward() if any(leaf.need_grad for leaf in leaves) else None
        found += [leaf.g.copy() for leaf in leaves if leaf.need_grad]
    found += [variable.d.copy() for variable in held]
    names: list[Variable] = []
    root.visit(lambda function: names.extend(function.inputs))
    results = [x for x in names if x.parent is not None]
    found += map(values_of, results)
    root.forward()  # the second one is planned for this graph alone
    return [*found, root.d.copy(), *(statistic.d.copy() for statistic in statistics)]


def values_of(x: Variable) -> np.ndarray:
    """Those of a result; nothing where they were not stored and an array before them was looked at, or written."""
    try:
        return x.d.copy()
    except RuntimeError as error:
        assert "computed and not stored" in str(error)
        return np.empty(0)


@pytest.mark.parametrize("seed", range(60))
def test_the_short_way_gives_the_bits_of_the_general_one(
    runs: list[int], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [observed(seed, step % 2) for step in range(5)]
    assert runs
    monkeypatch.setattr(forward, "_run_known", lambda root: False)
    monkeypatch.setattr(backward, "find", lambda root, seed: None)
    general = [observed(seed, step) for step in range(2)]
    for step, found in enumerate(short):
        assert [x.tobytes() for x in found] == [x.tobytes() for x in general[step % 2]]


def test_the_plan_of_an_equal_graph_is_found_again_and_its_backward_too(
    runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    backwards = []
    run = rebuilt.RebuiltPlan.run
    monkeypatch.setattr(rebuilt.RebuiltPlan, "run", lambda *given: (backwards.append(given), run(*given)))
    x = leaf(2, 3)
    for step in range(6):
        x.grad.zero()
        y = F.tanh(F.mul2(x, leaf(step / 4, 1, need_grad=None)))
        y.forward()
        y.backward()
        np.testing.assert_allclose(x.g, np.array([step / 4, 1]) * (1 - np.tanh([step / 2, 3]) ** 2), rtol=1e-3)
    assert len(runs) == 5  # all but the first
    assert len(backwards) == 4


def test_float_attributes_are_those_of_each_graph(runs: list[int]) -> None:
    x = leaf(1, 2)
    for factor in (1.5, 2.5, 1.5, -0.0):
        y = F.mul_scalar(F.pow_scalar(x, 2.0), factor)
        y.forward()
        np.testing.assert_array_equal(y.d, np.float32(factor) * x.d**2)
    assert len(runs) == 3


def test_a_square_is_no_product_of_two(runs: list[int]) -> None:
    x, y = leaf(3), leaf(5)
    for a, b, expected in [(x, y, 15), (x, x, 9)] * 3:
        z = F.mul2(a, b)
        z.forward()
        assert z.d == expected
    assert len(runs) == 4


def test_what_others_hold_is_stored_and_the_rest_can_be_had(runs: list[int]) -> None:
    x = leaf(0.5, 1)
    for is_held in (False, True, False, True, False):
        middle = F.sin(x)
        y = F.exp(middle * 2.0)
        cell = middle.value.cell
        if not is_held:
            del middle
        y.forward()
        assert cell.is_unstored != is_held
        double, sine = y.parent.inputs[0], y.parent.inputs[0].parent.inputs[0]
        np.testing.assert_allclose(double.d, 2 * np.sin([0.5, 1]), rtol=1e-6)
        np.testing.assert_allclose(sine.d, np.sin([0.5, 1]), rtol=1e-6)
    assert len(runs) == 3


def test_what_was_not_stored_is_refused_once_a_leaf_was_written(runs: list[int]) -> None:
    x = leaf(0.5, 1)
    for _ in range(3):
        y = F.exp(F.sin(x))
        y.forward()
        x.d = x.d * 0.5
        with pytest.raises(RuntimeError, match="computed and not stored"):
            _ = y.parent.inputs[0].d
    assert len(runs) == 2


def test_a_graph_that_was_computed_is_computed_again(runs: list[int]) -> None:
    x = leaf(1, 2)
    for _ in range(3):
        middle = F.tanh(x)
        y = middle * 3.0
        y.forward()
        for number in (3, 4):
            x.d = number
            y.forward()
            np.testing.assert_allclose(y.d, 3 * np.tanh([number] * 2), rtol=1e-6)
        middle.forward()
        z = middle + 1.0
        z.forward()
        np.testing.assert_allclose(z.d, np.tanh([4, 4]) + 1, rtol=1e-6)
    assert len(runs) == 2  # the first one of the second and the third graph


def test_leaves_of_other_dtypes_and_shapes_and_those_that_share_an_array_are_other_graphs(runs: list[int]) -> None:
    def total(a: Variable, b: Variable) -> np.ndarray:
        y = F.add2(a, b)
        y.forward()
        return y.d.copy()

    for _ in range(3):
        a, b = leaf(1, 2), leaf(3, 4)
        np.testing.assert_array_equal(total(a, b), [4, 6])
        c = Variable.from_numpy_array(np.array([5.0, 6.0]))
        np.testing.assert_array_equal(total(a, c), [6, 8])
        np.testing.assert_array_equal(total(a, Variable.from_numpy_array(np.array([7, 8]))), [8, 10])
        b.data = a.data
        np.testing.assert_array_equal(total(a, b), [2, 4])
        a.reset_shape((2, 1))
        with pytest.raises(ValueError, match="axes"):
            total(a, b)


def test_a_shape_that_changes_between_recording_and_forward_counts(runs: list[int]) -> None:
    for size in (2, 3, 2, 3, 4):
        x = leaf(1, 2)
        y = F.tanh(x)
        x.reset_shape((size,), force=True)
        x.d = 1
        y.forward()
        assert y.shape == (size,)
        np.testing.assert_allclose(y.d, np.tanh(np.ones(size)), rtol=1e-6)


def test_a_view_shows_the_array_that_was_put_in_the_place_of_its_source(runs: list[int]) -> None:
    for number in range(4):
        x = Variable((4,))
        view = F.reshape(x, (2, 2))
        y = view + 1.0
        if number % 2:
            x.data = nn.NdArray.from_numpy_array(np.full(4, number, np.float32))
        else:
            x.d = number
        y.forward()
        np.testing.assert_array_equal(view.d, np.full((2, 2), number))
        np.testing.assert_array_equal(y.d, view.d + 1)
    assert len(runs) == 1


def test_leaves_are_read_as_they_are(runs: list[int]) -> None:
    for _ in range(3):
        x, z = Variable((2,), need_grad=True), leaf(1, 2)
        z.data.zero()
        y = x + z + leaf(1, 1)
        y.forward()
        np.testing.assert_array_equal(y.d, [1, 1])
        z.data.fill(3)
        y = x + z
        y.forward()
        np.testing.assert_array_equal(y.d, [3, 3])


def test_running_statistics_go_on_and_count_as_written(runs: list[int]) -> None:
    mean, variance = leaf(0), leaf(1)
    mean.reset_shape((1, 1)), variance.reset_shape((1, 1))
    scale = [Variable.from_numpy_array(np.full((1, 1), number, np.float32)) for number in (0, 1)]
    x = Variable.from_numpy_array(np.array([[1], [3]], np.float32))
    expected = 0.0
    before = mean.data.cell.last_write
    for _ in range(4):
        y = F.batch_normalization(x, *scale, mean, variance, axes=[1], decay_rate=0.5)
        y.forward()
        expected = 0.5 * expected + 0.5 * 2
        assert mean.d.item() == expected
        assert mean.data.cell.last_write > before
    assert len(runs) == 3


def test_constants_and_packs_are_made_at_the_second_run_of_each_graph(runs: list[int]) -> None:
    for _ in range(3):
        x, w = (Variable.from_numpy_array(np.ones(shape, np.float32)) for shape in ((8, 128), (128, 128)))
        scores = F.affine(x, F.tanh(w))  # no Variable of tanh(w)
        scores.forward()
        x.d = 3
        scores.forward()
        assert len(scores.plan.steps) == 1
        images, filters = (
            Variable.from_numpy_array(np.ones(shape, np.float32)) for shape in ((1, 16, 12, 12), (16, 16, 3, 3))
        )
        y = F.convolution(images, filters, pad=(1, 1))
        y.forward()
        packs = nn.memory_statistics()["caches"]["constants"]
        y.forward()
        assert nn.memory_statistics()["caches"]["constants"] == packs + bool(y.plan.packs)
    assert len(runs) == 4


def packs_kept() -> int:
    count: int = nn.memory_statistics()["caches"]["constants"]
    return count


def scores_of(x: np.ndarray, *weights: Variable) -> np.ndarray:
    """Of a graph that is built for it."""
    h = Variable.from_numpy_array(x)
    for w in weights:
        h = F.tanh(F.affine(h, w))
    h.forward()
    return np.array(h.d)


def test_graphs_on_weights_that_stay_read_their_packs(runs: list[int]) -> None:
    rng = np.random.default_rng(0)
    first, second = (Variable.from_numpy_array(rng.standard_normal((300, 300), "f"), need_grad=True) for _ in range(2))
    batches = rng.standard_normal((12, 8, 300), "f")
    weights = (first, second)
    expected = [scores_of(batch, *weights) for batch in batches]  # the last ones from packs
    assert packs_kept() == 2
    for batch, one in zip(batches, expected, strict=True):
        nn.clear_memory_cache()
        np.testing.assert_array_equal(scores_of(batch, *weights), one)  # without
    for batch in batches[:4]:
        scores_of(batch, *weights)
    first.d = second.d  # what was kept of it holds no more
    changed = [scores_of(batch, *weights) for batch in batches[:5]]
    nn.clear_memory_cache()
    for batch, one in zip(batches, changed, strict=False):
        np.testing.assert_array_equal(one, scores_of(batch, second, second))
    assert len(runs) > 20


def test_graphs_on_other_weights_each_time_pack_none(runs: list[int]) -> None:
    rng = np.random.default_rng(0)
    x, values = rng.standard_normal((8, 300), "f"), rng.standard_normal((2, 300, 300), "f")
    expected = [scores_of(x, Variable.from_numpy_array(each)) for each in values]
    for _ in range(3):
        for each, one in zip(values, expected, strict=True):
            np.testing.assert_array_equal(scores_of(x, Variable.from_numpy_array(each)), one)
    assert packs_kept() == 0
    assert len(runs) == 7


def test_packs_go_with_the_weights_of_graphs_that_are_gone(runs: list[int]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 300), "f")
    for _ in range(3):
        w = Variable.from_numpy_array(rng.standard_normal((300, 300), "f"))
        for _ in range(4):
            scores_of(x, w)
        assert packs_kept() == 1
        del w
        gc.collect()
        assert packs_kept() == 0


def test_a_graph_whose_weights_are_written_amid_the_runs_of_others_reads_them(runs: list[int]) -> None:
    rng = np.random.default_rng(0)
    w = Variable.from_numpy_array(0.05 * rng.standard_normal((300, 300), "f"), need_grad=True)
    x = rng.standard_normal((8, 300), "f")
    solver = S.Sgd(0.01)
    solver.set_parameters({"w": w})
    for _ in range(30):
        for _ in range(3):
            found = scores_of(x, w)
            np.testing.assert_allclose(found, np.tanh(x.astype("d") @ w.d), rtol=1e-4, atol=1e-5)
        loss = F.mean(F.affine(Variable.from_numpy_array(x), w) ** 2)
        loss.forward()
        w.grad.zero()
        loss.backward()
        solver.update()


def test_traces_see_each_call(runs: list[int]) -> None:
    x = leaf(1, 2)
    for _ in range(3):
        y = F.tanh(F.exp(x))
        with nn.trace() as trace:
            y.forward()
        assert [row.op for row in trace.rows()] == ["Exp+Tanh"]
    assert not runs


def test_another_context_is_another_graph(runs: list[int]) -> None:
    for name in ("cpu:float", "cpu:double", "reference:float") * 2:
        with nn.context_scope(nn.Context([name], fallback="quiet")):
            y = F.tanh(leaf(1, 2))
        y.forward()
        assert y.d.dtype == (np.float64 if name == "cpu:double" else np.float32)
    assert len(runs) == 2  # what the reference computes runs the general way


def test_nothing_is_kept_of_a_graph(runs: list[int]) -> None:
    x = leaf(1, 2)
    gone = []
    gc.disable()
    try:
        for _ in range(3):
            y = F.exp(F.tanh(x))
            y.forward()
            y.backward()
            gone.append(weakref.ref(y.value.inputs[0]) if y.value.inputs else None)
            del y
            assert gone[-1] is None or gone[-1]() is None
    finally:
        gc.enable()
    assert gone[-1] is not None


def test_threads_build_and_run_graphs_of_one_structure(runs: list[int]) -> None:
    wrong = []

    def work(number: int) -> None:
        with nn.context_scope(nn.Context(["cpu:float"])):
            x = leaf(number, number + 1)
            for step in range(50):
                y = F.add2(F.mul2(x, x), leaf(step, 0))
                y.forward()
                if not np.array_equal(y.d, [number * number + step, (number + 1) ** 2]):
                    wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(runs) >= 190


def test_an_aborted_run_leaves_a_graph_that_runs_again(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf(1, 2)
    for step in range(4):
        y = F.tanh(F.exp(x))
        if step == 2:
            with monkeypatch.context() as patch:
                for kind in (CallByAddress, ProgramByAddress):
                    patch.setattr(kind, "run", _interrupted)
                with pytest.raises(KeyboardInterrupt):
                    y.forward()
        y.forward()
        np.testing.assert_allclose(y.d, np.tanh(np.exp(x.d)), rtol=1e-6)


def test_an_aborted_run_draws_again_what_it_drew(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = Variable.from_numpy_array(np.ones((4, 16), np.float32))
    drawn = []
    for step in range(4):
        y = F.tanh(F.dropout(x, 0.5, seed=3)) * 2.0
        if step == 2:
            with monkeypatch.context() as patch:
                for kind in (CallByAddress, ProgramByAddress):
                    patch.setattr(kind, "run", _interrupted)
                with pytest.raises(KeyboardInterrupt):
                    y.forward()
        y.forward()
        drawn.append(y.d.tobytes())
    assert len(set(drawn)) == 1
    assert len(runs) == 2  # the first call that draws is not recorded from a pattern


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_a_backward_is_going_to_read_stays_stored_when_another_root_is_computed(runs: list[int]) -> None:
    x = leaf(1, 2)
    for _ in range(4):
        x.d = [1, 2]
        x.grad.zero()
        h = F.exp(F.tanh(x))
        one, other = h * 2.0, h + 1.0
        del h
        one.forward()
        other.forward()
        x.d = 5
        one.backward()
        t = np.tanh([1, 2])
        np.testing.assert_allclose(x.g, 2 * np.exp(t) * (1 - t * t), rtol=1e-5)
    assert runs


def test_a_step_walks_over_its_graph_once(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    walks = []
    for module in (rebuilt, rebuilt_forward):
        walk = module.walk
        monkeypatch.setattr(module, "walk", lambda *given, walk=walk: (walks.append(given), walk(*given))[1])
    x = leaf(1, 2)
    for _ in range(6):
        walks.clear()
        x.grad.zero()
        y = F.exp(F.sin(x))
        y.forward()
        y.backward()
        np.testing.assert_allclose(x.g, np.exp(np.sin(x.d)) * np.cos(x.d), rtol=1e-5)
        assert len(walks) == 1
    assert len(runs) == 5


def unstored_of(x: Variable) -> Variable:
    """A result that a forward, one by the plan of an earlier graph, computed and did not store; its graph."""
    for _ in range(3):
        y = F.exp(F.sin(x) * 2.0)
        y.forward()
    return y


def test_what_was_not_stored_has_no_cell_until_it_is_asked_for(runs: list[int]) -> None:
    y = unstored_of(leaf(0.5, 1))
    values = [y.value.inputs[0], y.value.inputs[0].inputs[0]]
    assert [value._cell for value in values] == [None, None]
    assert [value.cell.is_unstored for value in values] == [True, True]
    np.testing.assert_allclose(Variable.on(values[1]).d, np.sin([0.5, 1]), rtol=1e-6)


def test_an_array_of_what_was_not_stored_outlives_its_graph(runs: list[int]) -> None:
    y = unstored_of(leaf(0.5, 1))
    array = y.parent.inputs[0].data
    del y
    gc.collect()
    np.testing.assert_allclose(array.data, 2 * np.sin([0.5, 1]), rtol=1e-6)


def test_several_threads_find_one_cell_of_what_was_not_stored(runs: list[int]) -> None:
    for _ in range(20):
        y = unstored_of(leaf(0.5, 1))
        double = y.value.inputs[0]
        found: list[ArrayCell] = []
        threads = [threading.Thread(target=lambda: found.append(double.cell)) for _ in range(4)]  # noqa: B023 joined
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [cell is double.cell for cell in found] == [True] * 4


def test_another_graph_computes_again_what_was_not_stored(runs: list[int]) -> None:
    y = unstored_of(leaf(0.5, 1))
    z = Variable.on(y.value.inputs[0]) + 1.0
    z.forward()
    np.testing.assert_allclose(z.d, 1 + 2 * np.sin([0.5, 1]), rtol=1e-6)


def test_what_was_not_stored_can_take_another_shape(runs: list[int]) -> None:
    for size, shape in ((2, (2, 1)), (3, (3,))):
        double = Variable.on(unstored_of(leaf(0.5, 1)).value.inputs[0])
        double.reset_shape(shape, force=True)
        assert double.d.shape == shape
        if size == 2:
            np.testing.assert_allclose(double.d.ravel(), 2 * np.sin([0.5, 1]), rtol=1e-6)


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_gradients_of_what_neither_forward_nor_backward_stored_can_be_had(runs: list[int], is_looked_at: bool) -> None:
    x = leaf(0.5, 1)
    for step in range(6):
        x.grad.zero()
        y = F.exp(F.sin(x) * 2.0) + 1.0
        y.forward()
        double = y.value.inputs[0].inputs[0] if step == 5 else None
        if double is not None and is_looked_at:
            np.testing.assert_allclose(Variable.on(double).d, 2 * np.sin([0.5, 1]), rtol=1e-6)
        y.backward()
        if double is not None:
            np.testing.assert_allclose(Variable.on(double).g, np.exp(2 * np.sin([0.5, 1])), rtol=1e-6)
        np.testing.assert_allclose(x.g, np.exp(2 * np.sin(x.d)) * 2 * np.cos(x.d), rtol=1e-5)
