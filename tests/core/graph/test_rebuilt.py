"""Graphs rebuilt at every step under auto_forward give what recorded ones give, by plans that are found again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.cell import ArrayCell
from atled.calling.call_tables import forget_calls
from atled.graph import backward, rebuilt
from atled.graph.run.by_address import CallByAddress, ProgramByAddress
from atled.graph.run.on_device import PlanOnDevice
from atled.variable import Variable
from drawn_graphs import drawn_graph, drawn_leaves, leaf


@pytest.fixture(params=["host", "device"])
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    """In host memory, and on a device."""
    if request.param == "host":
        yield request.param
        return
    pytest.importorskip("atled_sim")
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")):
        yield request.param


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, where: str) -> list[int]:
    """Per run of a plan that was found again, the count of values; nothing is remembered at first."""
    rebuilt.REBUILT.clear()
    forget_calls()
    seen: list[int] = []
    run = rebuilt.RebuiltPlan.run

    def counted(self: rebuilt.RebuiltPlan, found: rebuilt.Found, seed: ArrayCell) -> None:
        seen.append(len(found.walk.values))
        run(self, found, seed)

    monkeypatch.setattr(rebuilt.RebuiltPlan, "run", counted)
    return seen


SEVERAL: list[Callable[[Variable], Variable]] = [
    lambda x: F.stack(*F.split(x, axis=1)[::-1], axis=1),
    lambda x: F.stack(F.add2(*F.split(x, axis=0)[:2]), axis=0) * x,
    lambda x: F.mul2(*F.split(F.stack(x, F.tanh(x), axis=0), axis=0)),
]
"""Functions with calls that have several outputs."""


def gradients(seed: int, step: int, *, auto: bool, several: bool = False) -> list[np.ndarray]:
    """Leaf gradients after two backwards, then the gradients of everything in the middle that is needed for them."""
    leaves = drawn_leaves(100 * seed + step, (True, False, True, None))
    with nn.auto_forward(auto):
        found = []
        for _ in range(2):  # the second one accumulates
            root, held = drawn_graph(seed, leaves, SEVERAL * 4 if several else ())
            if not auto:
                root.forward()
            root.backward()
            found += [leaf.g.copy() for leaf in leaves if leaf.need_grad]
        found.append(root.d.copy())
        found += [variable.g.copy() for variable in held if variable.need_grad and variable is not root]
        names: list[Variable] = []
        root.visit(lambda function: names.extend(function.inputs))
        found += [x.g.copy() for x in names if x.parent is not None and x.need_grad and x != root]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_rebuilt_graph_gives_the_gradients_of_a_recorded_one(where: str, seed: int) -> None:
    for step in range(3):
        expected = gradients(seed, step, auto=False)
        for found, wanted in zip(gradients(seed, step, auto=True), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_the_short_way_gives_the_bits_of_the_general_one(
    where: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [gradients(seed, step % 2, auto=True) for step in range(6)]
    monkeypatch.setattr(backward, "find", lambda root, seed: None)
    general = [gradients(seed, step % 2, auto=True) for step in range(2)]
    for step, found in enumerate(short):
        assert [x.tobytes() for x in found] == [x.tobytes() for x in general[step % 2]]


@pytest.mark.parametrize("seed", range(30))
def test_calls_with_several_outputs_give_the_bits_of_the_general_way(
    where: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [gradients(seed, step % 2, auto=True, several=True) for step in range(6)]
    for found, wanted in zip(short[5], gradients(seed, 1, auto=False, several=True), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(backward, "find", lambda root, seed: None)
    general = [gradients(seed, step % 2, auto=True, several=True) for step in range(2)]
    for step, found in enumerate(short):
        assert [x.tobytes() for x in found] == [x.tobytes() for x in general[step % 2]]


OF_OUTPUTS: dict[str, tuple[Callable[[list[Variable]], Variable], list[int]]] = {
    "all": (lambda parts: F.sink(*parts), [1, 1, 1]),
    "first": (lambda parts: F.tanh(parts[0] * 0), [0, 0, 0]),
    "middle": (lambda parts: parts[1] * 3, [0, 3, 0]),
    "other": (lambda parts: parts[2] * 3, [0, 0, 3]),
    "difference": (lambda parts: parts[0] - parts[2], [1, 0, -1]),
    "the other difference": (lambda parts: parts[2] - parts[0], [-1, 0, 1]),
    "one twice": (lambda parts: parts[1] + parts[1], [0, 2, 0]),
    "two": (lambda parts: parts[1] + parts[0], [1, 1, 0]),
}


def test_which_outputs_of_a_call_are_read_is_told_apart(runs: list[int]) -> None:
    x = Variable.from_numpy_array(np.ones((2, 3), np.float32), need_grad=True)
    with nn.auto_forward():
        for _ in range(5):
            for of, expected in OF_OUTPUTS.values():
                x.grad.zero()
                parts = F.split(x, axis=1)
                of(parts).backward()
                np.testing.assert_array_equal(x.g, [expected] * 2)
    assert len(runs) >= 3 * len(OF_OUTPUTS)


def test_outputs_of_a_call_that_are_gone_want_no_gradient(runs: list[int]) -> None:
    x = Variable.from_numpy_array(np.ones((2, 3), np.float32), need_grad=True)
    with nn.auto_forward():
        for _ in range(5):
            x.grad.zero()
            parts = list(F.split(x, axis=1))
            del parts[1]
            (parts[0] * 2 + parts[1]).backward()
            np.testing.assert_array_equal(x.g, [[2, 0, 1]] * 2)
    assert not runs


def test_flags_of_outputs_are_seen(runs: list[int]) -> None:
    x = Variable.from_numpy_array(np.ones((2, 3), np.float32), need_grad=True)
    with nn.auto_forward():
        for step in range(12):
            x.grad.zero()
            parts = F.split(x, axis=1)
            if step % 3:
                parts[step % 3].need_grad = False
            F.sink(*parts).backward()
            np.testing.assert_array_equal(x.g, [[1, step % 3 != 1, step % 3 != 2]] * 2)
    assert runs


def test_gradients_of_outputs_that_are_held_are_stored(runs: list[int]) -> None:
    x = Variable.from_numpy_array(np.ones((2, 3), np.float32), need_grad=True)
    with nn.auto_forward():
        for step in range(5):
            parts = F.split(x, axis=1)
            (F.tanh(parts[0]) * step - parts[1]).backward(clear_buffer=True)
            assert parts[1].g.tolist() == [-1, -1]
            np.testing.assert_allclose(parts[0].g, step * (1 - np.tanh(1) ** 2), rtol=1e-3)
            assert parts[2].g.tolist() == [0, 0]
    assert runs


@pytest.mark.parametrize("given", ["new", "outputs", "one for two", "of a leaf"])
def test_outputs_in_given_arrays_are_as_in_the_general_way(runs: list[int], given: str) -> None:
    x = Variable.from_numpy_array(np.arange(6, dtype=np.float32).reshape(3, 2), need_grad=True)
    arrays = [nn.NdArray((2,)) for _ in range(3)]
    y = Variable.from_numpy_array(np.full(2, 9, np.float32), need_grad=True)
    if given == "of a leaf":
        y.data = arrays[2]
    third = [4, 5] if given == "of a leaf" else [9, 9]
    both = [[2, 3], [2, 3]] if given == "one for two" else [[2, 3], [0, 1]]
    with nn.auto_forward():
        for _ in range(5):
            x.grad.zero()
            y.grad.zero()
            parts = F.split(x, axis=0, outputs=None if given == "new" else arrays)
            if given == "one for two":
                parts[0].data = parts[1].data
            (parts[0] * parts[1] + parts[2] * y).backward()
            assert x.g.tolist() == [*both, third]
            assert y.g.tolist() == [4, 5]


def test_an_output_of_another_shape_is_refused_as_ever(runs: list[int]) -> None:
    x = Variable.from_numpy_array(np.ones((2, 6), np.float32), need_grad=True)
    with nn.auto_forward():
        for step in range(4):
            parts = F.split(x, axis=0)
            y = F.sink(*parts)
            if step == 3:
                parts[0].reset_shape((2, 3), force=True)
                with pytest.raises(RuntimeError, match="reset_shape"):
                    y.backward()
            else:
                y.backward()


def test_the_plan_of_an_equal_graph_is_found_again(runs: list[int], where: str) -> None:
    x = leaf(2, 3)
    with nn.auto_forward():
        for step in range(6):
            x.grad.zero()
            F.tanh(F.mul2(x, leaf(step / 4, 1, need_grad=None))).backward()
            np.testing.assert_allclose(x.g, np.array([step / 4, 1]) * (1 - np.tanh([step / 2, 3]) ** 2), rtol=1e-3)
    # The first call of each op, and the first backward, take the general way, and one more once x came to a device.
    assert len(runs) == (4 if where == "host" else 3)


def test_float_attributes_are_those_of_each_graph(runs: list[int]) -> None:
    x = leaf(1, 2)
    with nn.auto_forward():
        for factor in range(5):
            x.grad.zero()
            F.mul_scalar(F.pow_scalar(x, 2.0), factor).backward()
            np.testing.assert_allclose(x.g, 2 * x.d * factor)
    assert len(runs) == 3


def test_a_square_is_no_product_of_two(runs: list[int]) -> None:
    x, y = leaf(3), leaf(5)
    with nn.auto_forward():
        for a, b, expected in [(x, y, 5), (x, x, 6)] * 4:
            x.grad.zero()
            F.mul2(a, b).backward()
            assert x.g == expected
    assert runs


def test_gradients_accumulate_until_zeroed_and_views_keep_showing_them(runs: list[int]) -> None:
    x = leaf(1, 2)
    x.grad.zero()
    view = x.g
    with nn.auto_forward():
        for count in range(1, 7):
            F.mul2(x, x).backward()
            np.testing.assert_array_equal(view, 2 * count * x.d)
        x.grad.zero()
        F.mul2(x, x).backward(3)
    np.testing.assert_array_equal(view, 6 * x.d)
    assert len(runs) >= 3


def test_two_graphs_of_one_structure_have_gradients_of_their_own(runs: list[int]) -> None:
    roots = []
    with nn.auto_forward():
        for factor in range(1, 6):
            root = F.tanh(F.mul2(F.add2(leaf(factor), leaf(0, need_grad=None)), leaf(1, need_grad=None)))
            root.backward()
            roots.append(root)
    for factor, root in enumerate(roots, 1):
        product = root.parent.inputs[0]
        gradient = 1 - np.tanh(factor) ** 2
        np.testing.assert_allclose([product.g[0], product.parent.inputs[0].g[0]], gradient, rtol=1e-3)
    assert len(runs) == 3


def test_a_gradient_in_the_middle_outlives_its_graph(runs: list[int]) -> None:
    with nn.auto_forward():
        for _ in range(4):
            root = F.tanh(F.mul2(leaf(0.5), leaf(1, need_grad=None)))
            root.backward()
        gradient = root.parent.inputs[0].grad
        del root
        for _ in range(4):
            F.tanh(F.mul2(leaf(3), leaf(1, need_grad=None))).backward()
    np.testing.assert_allclose(gradient.data, 1 - np.tanh(0.5) ** 2, rtol=1e-5)
    assert len(runs) == 2 + 4


def test_a_graph_is_dropped_without_the_garbage_collector(runs: list[int]) -> None:
    gc.disable()
    try:
        with nn.auto_forward():
            for _ in range(4):
                root = F.tanh(F.mul2(leaf(0.5), leaf(1, need_grad=None)))
                root.backward()
                value = weakref.ref(root.value)
                del root
                assert value() is None or not runs
    finally:
        gc.enable()
    assert runs


DETACHED: dict[str, Callable[[Variable], tuple[Variable, Callable[[Variable], Variable]]]] = {
    "behind": lambda y: (y.get_unlinked_variable(need_grad=False), lambda target: F.mul2(y, target)),
    "before": lambda y: (y.get_unlinked_variable(need_grad=False), lambda target: F.mul2(target, y)),
    "twice": lambda y: (y.unlinked(), lambda target: F.mul2(F.mul2(target, y.unlinked(False)), y)),
    "of the next": lambda y: (F.tanh(y).unlinked(False), lambda target: F.mul2(F.tanh(y), target)),
    "alone": lambda y: (y.get_unlinked_variable(need_grad=True), lambda target: F.mul2(target, target)),
    "with a gradient": lambda y: (y.unlinked(True), lambda target: F.mul2(y, target)),
    "as its need_grad says": lambda y: (y.get_unlinked_variable(), lambda target: F.mul2(target, target)),
    "a view": lambda y: (F.reshape(y, (3, 2)).unlinked(False), lambda target: F.reshape(y, (3, 2)) * target),
}
"""What shares its arrays with a result, and what is computed of the two."""


@pytest.mark.parametrize("kind", DETACHED)
def test_what_shares_its_arrays_with_a_result_is_told_from_it(
    runs: list[int], where: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_steps() -> list[np.ndarray]:
        x, found = leaf(0.1, -0.2, 0.3, 1, 2, 0), []
        with nn.auto_forward():
            for step in range(5):
                x.grad.zero()
                y = F.sin(x * (1.0 + step))
                target, computed = DETACHED[kind](y)
                F.sum(computed(target)).backward()
                found += [x.g.copy(), y.g.copy(), target.g.copy(), target.d.copy()]
        return found

    found = after_steps()
    # Except where one array is the gradient of two values of the graph, or is two of its leaves.
    assert len(runs) >= (0 if kind in ("with a gradient", "twice") else 2)
    monkeypatch.setattr(backward, "find", lambda root, seed: None)
    for mine, general in zip(found, after_steps(), strict=True):
        np.testing.assert_array_equal(mine, general)


def test_no_gradient_passes_what_shares_its_array_without_one(runs: list[int]) -> None:
    x = leaf(1, 2, 3)
    with nn.auto_forward():
        for _ in range(4):
            x.grad.zero()
            y = x * 2.0
            F.sum(y * y.get_unlinked_variable(need_grad=False)).backward()
            np.testing.assert_array_equal(x.g, 4 * x.d)
            x.grad.zero()
            y = x * 2.0
            F.sum(y * y).backward()
            np.testing.assert_array_equal(x.g, 8 * x.d)
    assert len(runs) >= 4


def test_to_ask_whether_a_gradient_is_needed_leaves_a_graph_as_it_was(runs: list[int]) -> None:
    x = leaf(1, 2, 3)
    with nn.auto_forward():
        for _ in range(6):
            y = F.tanh(x * 2.0)
            assert y.need_grad and not F.mul2(y.unlinked(False), y.unlinked(False)).need_grad
            F.sum(y).backward()
    assert len(runs) >= 2


def test_flags_that_change_between_graphs_are_seen(runs: list[int]) -> None:
    x, y = leaf(2), leaf(3)
    with nn.auto_forward():
        for step in range(12):
            y.need_grad = step % 3 == 0
            for one in (x, y):
                one.grad.fill(-1)
                one.grad.zero()
            product = F.mul2(x, y)
            if step % 2:
                product.need_grad = False
            F.add2(product, x).backward()
            assert (x.g, y.g) == (1 if step % 2 else 4, 2 if step % 6 == 0 else 0)
    assert runs


def test_a_leaf_of_another_shape_or_dtype_is_another_graph(runs: list[int]) -> None:
    with nn.auto_forward():
        for _ in range(4):
            for values in (np.ones(2, np.float32), np.ones((2, 2), np.float32), np.ones(2, np.float64)):
                x = Variable.from_numpy_array(values, need_grad=True)
                F.exp(x).backward()
                np.testing.assert_allclose(x.g, np.exp(values), rtol=1e-5)
    assert runs


def test_a_trace_sees_the_steps(runs: list[int], where: str) -> None:
    x = leaf(2)
    with nn.auto_forward():
        for _ in range(4):
            F.exp(x).backward()
        count = len(runs)
        with nn.trace() as trace:
            F.exp(x).backward()
    assert len(runs) == count
    assert "Exp" in [row.op for row in trace.rows()]
    count = sum(row.calls for row in trace.rows() if row.op != "Transfer")
    assert count == (2 if where == "host" else 3)  # the device fuses nothing


def test_a_failed_run_leaves_the_gradient_unwritten(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf(2)
    with nn.auto_forward():
        for _ in range(4):
            x.grad.zero()
            F.exp(x).backward()

        def fail(*_: object) -> None:
            raise RuntimeError("as asked for")

        for way in (CallByAddress, ProgramByAddress, PlanOnDevice):
            monkeypatch.setattr(way, "run", fail)
        x.grad.zero()
        with pytest.raises(RuntimeError, match="as asked for"):
            F.exp(x).backward()
    assert not x.grad.cell.is_written


def test_a_filled_gradient_is_read_in_the_dtype_of_its_sum(runs: list[int]) -> None:
    with nn.context_scope(nn.Context("cpu:double")), nn.auto_forward():
        for _ in range(4):
            x = Variable.from_numpy_array(np.array([1.0, 2.0]), need_grad=True)
            x.grad.fill(0.25)
            F.sin(x).backward()
            np.testing.assert_allclose(x.g, 0.25 + np.cos([1, 2]), rtol=1e-12)
    assert len(runs) < 4


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("puts", [lambda x, h: setattr(x, "grad", h.data), lambda x, h: setattr(h, "data", x.grad)])
def test_a_gradient_in_the_array_of_a_result_that_backward_reads_is_written_last(
    runs: list[int], where: str, puts: Callable[[Variable, Variable], None], is_first: bool
) -> None:
    x, y, z = (Variable.from_numpy_array(np.float32([[1, 2], [3, k]]), need_grad=True) for k in (1, 2, 3))
    ones = np.ones((2, 2), np.float32)
    with nn.auto_forward():
        for step in range(6):
            y.grad.zero()
            z.grad.zero()  # that of x is added to, as what is put there will be
            h = F.tanh(y)
            sums = F.sum(F.affine(x, x)), F.sum(F.affine(h, z))
            total = sums[is_first] + sums[not is_first]
            if step == 5:
                puts(x, h)
            read = h.d.copy()
            total.backward()
            np.testing.assert_allclose(z.g, read.T @ ones, rtol=1e-5)
            np.testing.assert_allclose(y.g, ones @ z.d.T * (1 - read**2), rtol=1e-5, atol=1e-6)
    assert len(runs) == (3 if where == "host" else 2)  # the last step takes the general way
    np.testing.assert_allclose(x.g, ones @ x.d.T + x.d.T @ ones + read, rtol=1e-5)


def test_a_graph_whose_leaf_is_on_a_device_may_be_computed_on_the_host() -> None:
    pytest.importorskip("atled_sim")
    sim = nn.get_extension_context("sim")
    x, y = leaf(1, 2), leaf(3, 4)
    with nn.auto_forward():
        for step in range(8):
            (x if step % 2 else y).data.cast(np.float32, ctx=sim)
            if step == 5:
                y.grad.cast(np.float32, ctx=sim)
            for one in (x, y):
                one.grad.zero()
            F.mul2(F.tanh(x), y).backward()
            np.testing.assert_allclose(x.g, (1 - np.tanh([1, 2]) ** 2) * [3, 4], rtol=1e-5)
            np.testing.assert_allclose(y.g, np.tanh([1, 2]), rtol=1e-5)


def test_a_recurrent_layer_gives_the_gradients_of_a_recorded_one(runs: list[int], where: str) -> None:
    def trained(step: int, *, auto: bool) -> list[np.ndarray]:
        draw = np.random.default_rng(step)
        shapes = (3, 2, 4), (1, 1, 2, 5), (1, 1, 2, 5), (1, 4, 5, 9)
        leaves = [Variable.from_numpy_array(draw.standard_normal(shape).astype(np.float32)) for shape in shapes]
        for each in leaves:
            each.need_grad = True
        with nn.auto_forward(auto):
            y, h, c = F.lstm(*leaves, training=True)
            root = F.mean(F.tanh(y)) + F.sum(h * c)
            if not auto:
                root.forward()
            root.backward()
        return [each.g.copy() for each in leaves]

    for step in range(5):
        for found, wanted in zip(trained(step, auto=True), trained(step, auto=False), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert runs


GIVEN = np.array([[1, -2], [np.inf, 0.5]], np.float32)


@pytest.fixture
def at_once() -> Iterator[None]:
    with nn.auto_forward():
        yield


def test_a_gradient_that_is_given_is_read_and_left_as_it_is(at_once: None, monkeypatch: pytest.MonkeyPatch):
    rebuilt.REBUILT.clear()
    copied: list[object] = []
    monkeypatch.setattr(backward, "seed_of", lambda *given, of=backward.seed_of: copied.append(1) or of(*given))
    x = nn.Variable.from_numpy_array(np.array([[3, 4], [5, 6]], np.float32), need_grad=True)
    given = nn.NdArray.from_numpy_array(GIVEN)
    for step in range(5):
        y = x * 2.0
        x.grad.zero()
        given.data[0, 1] = step  # which the next backward reads
        y.backward(given)
        expected = GIVEN.copy()
        expected[0, 1] = step
        np.testing.assert_array_equal(given.data, expected)
        given.data[...] = 99
        np.testing.assert_array_equal(x.g, 2 * expected)
        given.data[...] = GIVEN
    assert len(copied) == 2  # before there were plans, for a gradient without memory and one with


@pytest.mark.parametrize("which", ["x.grad", "x.data", "y.data", "y.grad", "w.grad", "double"])
def test_a_gradient_that_is_an_array_of_the_graph_is_what_it_was_before(at_once: None, which: str):
    values = np.array([[3, 4], [5, 6]], np.float32)
    for step in range(5):
        x, w = (nn.Variable.from_numpy_array(values + n, need_grad=True) for n in range(2))
        x.grad.data[...], w.grad.data[...] = 7, 9
        y = x * w
        y.grad.data[...] = step
        arrays = {"x.grad": x.grad, "x.data": x.data, "y.data": y.data, "y.grad": y.grad, "w.grad": w.grad}
        if which == "double":
            given = nn.NdArray.from_numpy_array(np.array([[1, 2], [3, 4]], np.float64))
        else:
            given = arrays[which]
        seed = given.data.astype(np.float32)
        y.backward(given)
        np.testing.assert_array_equal(x.g, 7 + seed * (values + 1))
        np.testing.assert_array_equal(w.g, 9 + seed * values)


def test_gradients_in_the_middle_are_those_of_the_run_whatever_is_written_into_the_given_one(at_once: None):
    given = nn.NdArray.from_numpy_array(np.ones((2, 2), np.float32))
    for _ in range(5):
        x = nn.Variable.from_numpy_array(np.ones((2, 2), np.float32), need_grad=True)
        h = x * 2.0
        function = h.parent
        y = F.tanh(h * 3.0) * 5.0
        del h
        given.data[...] = 1
        y.backward(given)
        given.data[...] = 100
        (h,) = function.outputs
        expected = 15 * (1 - np.tanh(6.0) ** 2)
        np.testing.assert_allclose(h.g, np.full((2, 2), expected), rtol=1e-2)
        np.testing.assert_allclose(x.g, np.full((2, 2), 2 * expected), rtol=1e-2)
