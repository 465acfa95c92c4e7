"""Calls that are known: found under the right conditions only, with results that are nobody else's."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array import NdArray
from atled.at_once import RECENT, forget_calls
from atled.spares import Spares, spares_of

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
    assert sum(key[0] == "Add2" for key in RECENT.state.known) == 2


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
    spares = Spares(4, np.dtype(np.float32))
    first = spares.get()
    spares.put(first)
    second = spares.get()
    assert second.cell is not first.cell
    address = first.cell.storage.address
    del first
    third = spares.get()
    assert third.cell.storage.address == address
    for _ in range(1000):
        spares.put(spares.get())
        spares.put(NdArray((4,)))
    assert spares.count <= 256
    spares.clear()
    assert spares.count == 0


def test_large_arrays_are_no_spares():
    assert spares_of(1 << 20, np.dtype(np.float32)).get() is not None
    spares = spares_of(1 << 20, np.dtype(np.float32))
    spares.put(spares.get())
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
