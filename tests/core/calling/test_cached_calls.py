"""Calls that are known: found under the right conditions only, with results that are nobody else's."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell, code_of, look_of
from atled.arrays.place import HOST
from atled.arrays.spares import Spares, spares_of
from atled.calling import apply as apply_module
from atled.calling.call_tables import forget_calls, in_force
from atled.graph.record.value import RecordedCall
from atled.graph.run import one_call
from atled.op_spec import Row, define, undefine
from atled_contexts import reset_default_context

pytestmark = pytest.mark.usefixtures("backend")


def array(*values: float) -> NdArray:
    return NdArray.from_numpy_array(np.array(values, np.float32))


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    forget_calls()


def test_results_that_somebody_holds_are_never_used_again():
    a = array(1, 2)
    held = [F.add_scalar(a, number) for number in range(1000)]
    for number, y in enumerate(held):
        assert y.data.tolist() == [1 + number, 2 + number]


def test_results_without_inputs_are_not_used_again_while_they_are_held():
    with nn.auto_forward():
        held = [F.constant(number, (3,)) for number in range(1000)]
        F.constant(-1, (3,))
    for number, y in enumerate(held):
        assert y.d.tolist() == [number] * 3


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("recorded", [False, True])
def test_results_of_several_inputs_or_of_casts_are_not_used_again_while_they_are_held(backend: str, recorded: bool):
    def made(*values: float):
        given = array(*values)
        return nn.Variable.from_numpy_array(given.data) if recorded else given

    with nn.context_scope(nn.Context([f"{backend}:float"])), nn.auto_forward(True):
        table, held = made(*range(1000)), []
        for number in range(1000):
            one, other = made(number), made(number + 0.5)
            joined = F.concatenate(one, other, axis=0)
            stacked = F.stack(other, one, axis=0)
            held.append((joined, stacked, F.embed(one, table)))  # the index is float32
    for number, results in enumerate(held):
        joined, stacked, chosen = ((y.d if recorded else y.data).tolist() for y in results)
        assert (joined, stacked, chosen) == ([number, number + 0.5], [[number + 0.5], [number]], [number])


@pytest.mark.parametrize("how", ["view", "reshaped", "variable", "numpy", "dlpack"])
def test_memory_that_is_shown_elsewhere_is_never_used_again(how: str):
    a = array(1, 2)
    shown = []
    for number in range(8):
        y = F.add_scalar(a, number)
        if how == "view":
            shown.append(y.data)
        elif how == "reshaped":
            shown.append(F.reshape(y, (2, 1)))
        elif how == "variable":
            shown.append(nn.Variable((2,)))
            shown[-1].data = y
        elif how == "numpy":
            shown.append(np.asarray(y))
        else:
            shown.append(np.from_dlpack(y))
        del y
    for _ in range(600):
        F.add_scalar(a, -1000)
    values = [np.asarray(item.d if how == "variable" else getattr(item, "data", item)) for item in shown]
    if how != "reshaped":
        values = [np.array(item.d if how == "variable" else item) for item in shown]
    assert [value.ravel().tolist() for value in values] == [[1 + number, 2 + number] for number in range(8)]


def test_a_result_that_was_changed_leaves_no_trace_on_the_next():
    a = array(1, 2)
    for change in (
        lambda y: y.cast(np.float16),
        lambda y: y.zero(),
        lambda y: y.fill(7),
        lambda y: y.cast(np.int32),
        lambda y: setattr(y, "data", np.zeros(2)),
    ):
        for _ in range(4):
            y = F.add_scalar(a, 1)
            assert y.dtype == np.float32
            assert y.data.tolist() == [2, 3]
            change(y)
            del y
            z = F.add_scalar(a, 1)
            change(z)
            del z


def test_a_known_call_is_made_once_and_found_for_equal_arrays(backend: str):
    for _ in range(3):
        F.add2(array(1, 2), array(3, 4))
        F.add2(array(1), array(3))
    assert sum(key[0] == "Add2" for key in in_force().arrays) == 2


@pytest.mark.parametrize("wrong", [lambda a: F.add2(a, array(1, 2, 3)), lambda a: F.add_scalar(a, "x")])
def test_a_wrong_call_is_refused_although_a_right_one_is_known(wrong):
    a = array(1, 2)
    for _ in range(3):
        F.add2(a, a)
        F.add_scalar(a, 1)
        with pytest.raises((TypeError, ValueError)):
            wrong(a)


def test_the_context_in_force_decides_at_each_call():
    a = array(1, 2)
    for name in ("reference", "cpu", "reference", "cpu"):
        try:
            context = nn.Context(f"{name}:float")
        except ValueError:
            pytest.skip(f"{name} is not installed")
        for _ in range(3):
            with nn.context_scope(context), nn.trace() as trace:
                F.add2(a, a)
            assert [row.backend for row in trace.rows()] == [name]
            with nn.trace() as trace:
                F.add2(a, a, using=name)
            assert [row.backend for row in trace.rows()] == [name]


def test_type_configs_have_calls_of_their_own():
    a = array(1, 2)
    single = nn.get_current_context()
    double = nn.Context([entry.replace("float", "double") for entry in single.backend])
    for _ in range(3):
        assert F.add2(a, a).dtype == np.float32
        with nn.context_scope(double):
            assert F.add2(a, a).dtype == np.float64


def test_absent_inputs_and_attributes_belong_to_the_key():
    x, w, b = (NdArray.from_numpy_array(np.full(shape, 2, np.float32)) for shape in [(2, 2), (2, 2), (2,)])
    for _ in range(3):
        assert F.affine(x, w).data.tolist() == [[8, 8], [8, 8]]
        assert F.affine(x, w, b).data.tolist() == [[10, 10], [10, 10]]
        assert F.sum(x, axis=0).shape == (2,)
        assert F.sum(x, axis=[0, 1]).shape == ()
        assert F.sum(x, axis=0, keepdims=True).shape == (1, 2)


def test_under_auto_forward_a_known_call_records_what_a_new_one_does():
    x = nn.Variable.from_numpy_array(np.array([1, 2], np.float32), need_grad=True)
    with nn.auto_forward():
        made = [F.pow_scalar(F.mul_scalar(x, 3), 2) for _ in range(3)]
    for y in made:
        assert y.d.tolist() == [9, 36]
        assert [y.parent.name, y.parent.inputs[0].parent.name] == ["PowScalar", "MulScalar"]
        assert y.parent is not None and y.parent == y.parent and y.parent.outputs == [y]
        assert y.parent.inputs[0].parent.arguments == {"val": 3.0}
        assert y.need_grad
        assert y.parent.inputs[0].parent.inputs == [x]
    x.d = 2
    made[2].forward()
    assert made[2].d.tolist() == [36, 36]


def leaf(*shape: int, need_grad: bool = True) -> nn.Variable:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values, need_grad=need_grad)


def statistics(channels: int) -> list[nn.Variable]:
    return [nn.Variable.from_numpy_array(np.full((1, channels, 1, 1), n, np.float32)) for n in (0, 1, 0, 1)]


CALLS = {
    "elementwise": (F.tanh,),
    "float attribute": (lambda x: F.mul_scalar(x, 2),),
    "workspace": (F.affine, leaf(72, 3), leaf(3)),
    "convolution": (lambda x, w: F.convolution(x, w, pad=(1, 1)), leaf(3, 2, 3, 3)),
    "saved output": (lambda x: F.max_pooling(x, (2, 2)),),
    "changed inputs": (F.batch_normalization, *statistics(2)),
    "visible and saved outputs": (lambda x, *s: F.batch_normalization(x, *s, output_stat=True), *statistics(2)),
    "loss": (lambda x, t: F.softmax_cross_entropy(x, F.greater_scalar(t, 9), axis=1), leaf(2, 1, 6, 6)),
    "view": (lambda x: F.reshape(x, (2, 72)),),
    "random": (lambda x: F.dropout(x, 0.5),),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_known_call_makes_no_function_before_somebody_asks(name, monkeypatch):
    function, *given = CALLS[name]
    given.insert(0, leaf(2, 2, 6, 6))
    made = []
    check = RecordedCall.__init__

    def noted(self, spec, *arguments):
        made.append(spec.name)
        check(self, spec, *arguments)

    monkeypatch.setattr(RecordedCall, "__init__", noted)
    with nn.auto_forward():
        first = function(*given)
        assert made
        made.clear()
        second = function(*given)
        assert not made
        with nn.trace():
            function(*given)
        assert made, "what is watched goes the long way"
    for a, b in zip(*(y if isinstance(y, tuple) else (y,) for y in (first, second)), strict=True):
        assert a.shape == b.shape and a.need_grad == b.need_grad and a.parent.arguments == b.parent.arguments
        if name != "random":
            np.testing.assert_array_equal(a.d, b.d)


def test_results_of_known_calls_have_gradients_as_those_of_the_long_way():
    w, v, t = leaf(3, 2, 3, 3), leaf(27, 4), nn.Variable.from_numpy_array(np.ones((2, 1)))

    def step(auto):
        x, s = leaf(2, 2, 6, 6), statistics(2)
        s[0].need_grad = s[1].need_grad = True
        given = [x, w, v, *s[:2]]
        for variable in given:
            variable.grad.zero()
        with nn.auto_forward(auto):
            h = F.max_pooling(F.convolution(F.batch_normalization(x, *s), w, pad=(1, 1)), (2, 2))
            h = F.dropout(F.affine(h, v), 0.25, seed=7)
            y = F.mean(F.softmax_cross_entropy(h, t))
        y.forward() if not auto else None
        y.backward()
        return [variable.g.copy() for variable in given] + [statistic.d.copy() for statistic in s]

    expected = step(auto=False)
    for _ in range(4):
        for a, b in zip(expected, step(auto=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


def test_known_random_calls_draw_as_new_ones_do():
    x = nn.Variable.from_numpy_array(np.ones((4, 64), np.float32), need_grad=True)
    y = F.dropout(x, 0.5, seed=3)
    expected = []
    for _ in range(2):
        y.forward()
        expected.append(y.d.copy())
    assert (expected[0] != expected[1]).any()
    with nn.auto_forward():
        for _ in range(3):
            again = F.dropout(x, 0.5, seed=3)
            np.testing.assert_array_equal(again.d, expected[0])
            x.grad.zero()
            again.backward()
            np.testing.assert_array_equal(x.g, expected[0])  # of ones: what was kept, scaled
            again.forward()
            np.testing.assert_array_equal(again.d, expected[1])
        drawn = [F.dropout(x, 0.5).d.copy() for _ in range(4)]
    assert len({values.tobytes() for values in drawn}) == 4


def test_values_that_an_op_refuses_are_refused_although_others_are_known():
    x = leaf(2, 3)
    for given in (x, x.data):
        with nn.auto_forward():
            for _ in range(2):
                F.dropout(given, 0.5)
                with pytest.raises(ValueError, match="Dropout"):
                    F.dropout(given, 1.5)


def test_floats_that_follow_from_attributes_are_those_of_each_call():
    x = nn.Variable.from_numpy_array(np.array([-9, -0.3, 0.3, 9], np.float32), need_grad=True)
    settings = [(True, 4, 1, False), (True, 4, 0.5, True), (False, 4, 0.5, True), (True, 3, 0.5, True)]
    results = [[-7, 0, 0, 7], [-3.5, -0.5, 0.5, 3.5], [0, 0, 0.5, 7.5], [-1.5, -0.5, 0.5, 1.5]]
    for _ in range(3):
        for (sign, n, delta, fine), expected in zip(settings, results, strict=True):
            given = {"sign": sign, "n": n, "delta": delta, "ste_fine_grained": fine}
            assert F.fixed_point_quantize(x.data, **given).data.tolist() == expected
            with nn.auto_forward():
                y = F.fixed_point_quantize(x, **given)
            assert y.d.tolist() == expected
            x.grad.zero()
            y.backward()
            gone = [fine, fine and not sign, False, fine]  # beyond the smallest value, 0 without a sign, or the largest
            assert x.g.tolist() == [0.0 if each else 1.0 for each in gone]
            with pytest.raises(ValueError, match="not above 0"):
                F.fixed_point_quantize(x.data, **{**given, "delta": -delta})


def test_what_is_set_on_one_result_is_not_set_on_another():
    x = leaf(3)
    with nn.auto_forward():
        F.tanh(x)
        a, b, c = (F.tanh(x) for _ in range(3))
        a.need_grad, b.persistent = False, True
        a.grad.fill(5)
        assert [y.need_grad for y in (a, b, c)] == [False, True, True]
        assert [y.persistent for y in (a, b, c)] == [False, True, False]
        assert c.g.tolist() == [0, 0, 0]
        for _ in range(3):
            h = F.tanh(x)
            middle = [F.exp(h), F.sin(h)]
            y = F.sum(F.add2(*middle))
            parent, middle = y.parent, None  # no Variable of the middle is left: their gradients are not stored
            y.backward()
            first, second = parent.inputs[0].parent.inputs
            first.need_grad = False
            assert second.need_grad and first.g.tolist() == second.g.tolist() == [1, 1, 1]


def test_without_auto_forward_nothing_is_computed():
    x = nn.Variable.from_numpy_array(np.array([1, 2], np.float32))
    with nn.auto_forward():
        F.exp(x), F.exp(x)
    y = F.exp(x)
    assert y.d.tolist() == [0, 0]
    with nn.auto_forward(), nn.auto_forward(False):
        assert F.exp(x).d.tolist() == [0, 0]


def test_threads_get_results_of_their_own():
    failures = []

    def work(start: int) -> None:
        a = array(start, -start)
        kept = []
        for number in range(3000):
            y = F.add_scalar(a, number)
            if number % 7 == 0:
                kept.append((number, y))
            if F.add_scalar(y, 1).data[0] != start + number + 1:
                failures.append(number)
        failures.extend(n for n, y in kept if y.data.tolist() != [start + n, n - start])

    threads = [threading.Thread(target=nn.bind(work), args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_spares_give_what_nobody_has_and_keep_within_their_limit():
    spares = Spares(NdArray, 4, np.dtype(np.float32))
    first = spares.get()
    second = spares.get()
    assert second.cell is not first.cell
    address = first.cell.storage.address
    del first
    third = spares.get()
    assert third.cell.storage.address == address
    held = [spares.get() for _ in range(3000)]
    assert len({array.cell.storage.address for array in held}) == 3000
    assert spares.count == 2048
    del held
    assert len({spares.get().cell.storage.address for _ in range(3000)}) <= 2048
    spares.clear()
    assert spares.count == 0


def test_large_arrays_are_no_spares():
    spares = spares_of(NdArray, 1 << 20, np.dtype(np.float32))
    assert spares.get().cell is not spares.get().cell
    assert spares.count == 0


def test_what_a_call_changes_is_brought_to_the_dtype_of_the_call():
    single = nn.get_current_context()
    double = nn.Context([entry.replace("float", "double") for entry in single.backend], fallback="raise")
    x = np.random.default_rng(5).standard_normal((4, 3))
    for _ in range(3):
        mean, variance = array(0, 0, 0), array(1, 1, 1)
        statistics = [NdArray.over(mean.cell, (1, 3)), NdArray.over(variance.cell, (1, 3))]
        scale = [NdArray.over(array(number, number, number).cell, (1, 3)) for number in (0, 1)]
        with nn.context_scope(double):
            F.batch_normalization(NdArray.from_numpy_array(x), *scale, *statistics, decay_rate=0.5)
        np.testing.assert_allclose(mean.data, 0.5 * x.mean(0), rtol=1e-6)
        np.testing.assert_allclose(variance.data, 0.5 + 0.5 * x.var(0, ddof=1), rtol=1e-6)


def test_whatever_is_in_force_is_seen_by_the_next_call():
    x = leaf(3)

    def computed() -> bool:
        return bool(F.exp(x).d.any())

    with nn.auto_forward(False):
        assert not computed()
        with nn.auto_forward():
            assert computed() and computed()
            with nn.context_scope(nn.get_current_context()):
                assert computed()
                nn.set_auto_forward(False)
                assert not computed()
            assert not computed(), "set for the rest of the block of auto_forward, not of the scope"
        assert not computed()
    with nn.auto_forward():
        for _ in range(2):
            assert F.exp(x).parent.context == nn.get_current_context()
            with nn.trace() as trace:
                F.exp(x)
            assert [row.op for row in trace.rows()] == ["Exp"]
            with nn.verify(1.0) as checks:
                F.exp(x)
            assert checks is not None


def test_observed_calls_are_not_cached():
    with nn.trace():
        for _ in range(2):
            F.exp(array(1, 2))
        assert not in_force().arrays
    assert not in_force().arrays


def test_a_call_is_kept_in_the_table_of_its_own_context_only(monkeypatch):
    """As where another thread sets the default Context while the call reads what is in force."""
    context = nn.get_current_context().frozen
    with nn.context_scope(nn.Context("reference:double")):
        arrays = in_force().arrays
        torn = SimpleNamespace(arrays=arrays, context=context, auto_forward=False)
        with monkeypatch.context() as patch:
            patch.setattr(apply_module, "in_force", lambda: torn)
            assert F.exp(array(1, 2)).data.dtype == np.float32
        assert arrays == {}
        assert F.exp(array(1, 2)).data.dtype == np.float64


def test_the_defaults_of_the_process_are_seen_by_the_next_call():
    context = nn.get_current_context()

    def outside_of_all_blocks() -> None:
        x = leaf(3)
        nn.set_auto_forward(True)
        nn.set_default_context(nn.Context("reference:double"))
        try:
            for _ in range(2):
                assert F.exp(x).data.dtype == np.float64
            nn.set_default_context(context)
            assert F.exp(x).data.dtype == np.float32
            nn.set_auto_forward(False)
            assert not F.exp(x).d.any()
        finally:
            nn.set_auto_forward(False)
            reset_default_context()

    failures = []

    def run() -> None:
        try:
            outside_of_all_blocks()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failures, failures


@pytest.fixture
def own_op():
    """A function that nobody has called."""
    yield define(Row("OnceRecorded", "once_recorded", "x * 2", {"x": "2 * gy"}, doc="Twice."))
    undefine("OnceRecorded")


def test_a_function_is_given_what_computes_at_once_when_that_is_first_asked_for(own_op) -> None:
    op = own_op
    recorded = op(nn.Variable((2, 3)))
    brief = op.__code__
    assert "_references" not in brief.co_names and inspect.getsource(op).startswith("def once_recorded(x, ")
    signature = inspect.signature(op)
    array = nn.NdArray.from_numpy_array(np.ones((2, 3), np.float32))
    assert op(array).data.tolist() == [[2, 2, 2]] * 2
    assert op.__code__ is not brief and "_references" in op.__code__.co_names
    assert inspect.signature(op) == signature and "_references" in inspect.getsource(op)
    assert op(nn.Variable((2, 3))).shape == recorded.shape


@pytest.mark.parametrize("is_late", [False, True])
def test_a_call_whose_input_another_thread_casts_meanwhile_is_not_found_by_the_former_key(
    monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """The change comes when the call has been looked for, or when the codes of its inputs are read."""
    forget_calls()
    caches = one_call._CALLS
    monkeypatch.setattr(one_call, "_CALLS", type(caches)("calls of a test", 1024))
    settle = one_call.settle_inputs
    given: nn.NdArray

    def settled(cells: Sequence[ArrayCell | None], context: nn.Context) -> tuple[int, ...]:
        if not is_late:
            given.cast(np.float64)
        codes = settle(cells, context)
        if is_late:
            given.cast(np.float64)
        return codes

    values = np.array([[1.0, 2.0, 3.0]])
    for call in (lambda x: F.exp(x), lambda x: x.__iadd__(x)):
        given = nn.NdArray.from_numpy_array(values.astype(np.float32))
        with monkeypatch.context() as patch:
            patch.setattr(one_call, "settle_inputs", settled)
            call(given)
        for dtype in (np.float32, np.float64):
            for _ in range(3):
                x = nn.NdArray.from_numpy_array(values.astype(dtype))
                y = call(x)
                np.testing.assert_allclose(y.data, np.exp(values) if y is not x else 2 * values, rtol=1e-6)


def test_codes_stand_for_one_look_each_whichever_threads_ask() -> None:
    dtypes = [np.dtype(f"V{size}") for size in range(1, 400)]
    found: list[list[int]] = []
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait()
        found.append([code_of(HOST, dtype) for dtype in dtypes])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == found[2] == found[3]
    assert len(set(found[0])) == len(dtypes)
    assert [look_of(code) for code in found[0]] == [(HOST, dtype) for dtype in dtypes]
