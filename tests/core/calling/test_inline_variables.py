"""Inline caches of calls on Variables: made natively they are recorded as the text records them, and hold no more."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.spares import all_spares, clear_spares
from atled.calling import inline_cache
from atled.calling.call_tables import forget_calls
from atled_contexts.surroundings import here

pytest.importorskip("atled_cpu_numba")


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with nn.context_scope(nn.get_extension_context("cpu")), nn.auto_forward():
        clear_spares()
        forget_calls()
        yield


def variable(*values: float, need_grad: bool | None = True, dtype: Any = np.float32) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.array(values, dtype), need_grad=need_grad)


def inlined(function: Callable[..., Any], *given: Any) -> Any:
    """What the function of the inline cache of a function gives; None if it does not know the call."""
    made = function.__globals__["_inline_variables"]
    return None if made is None else made(here().values, *given)


def without_attributes(function: Any) -> list[bool]:
    return [False] * int(function.__globals__["_variable_cache"]._words[2])


def test_a_call_that_was_found_once_is_made_natively():
    x, y = variable(1, 2, np.nan, 3), variable(1, np.inf, 2, -4)
    for _ in range(2):
        F.mul2(x, y)
    made = inlined(F.mul2, x, y, *without_attributes(F.mul2))
    assert type(made) is nn.Variable and made.shape == (4,) and made.need_grad
    np.testing.assert_array_equal(made.d, [1, np.inf, np.nan, -12])
    assert made.value.handle() is made
    assert made.parent is not None and made.parent.inputs == [x, y]


def test_gradients_go_through_calls_that_were_made_natively():
    x, y = variable(1, 2, 3), variable(-1, 0, 2)
    for _ in range(6):
        z = F.sum(F.tanh(x * y) + x * 0.5)
        x.grad.zero(), y.grad.zero()
        z.backward()
    factor = 1 - np.tanh([-1, 0, 6]) ** 2
    np.testing.assert_allclose(x.g, factor * [-1, 0, 2] + 0.5, rtol=1e-5)
    np.testing.assert_allclose(y.g, factor * [1, 2, 3], rtol=1e-5, atol=1e-6)


def test_floats_of_each_call_are_recorded():
    x = variable(1, 2)
    made = [F.mul_scalar(x, 3.0) for _ in range(4)]
    del made  # spares for all that are held below
    attributes = without_attributes(F.mul_scalar)
    made = [inlined(F.mul_scalar, x, *attributes, factor) for factor in (5.0, -1.0)]
    for each, factor in zip(made, (5.0, -1.0), strict=True):
        np.testing.assert_array_equal(each.d, [factor, 2 * factor])
        assert each.value.extra == ({"val": factor}, None, None)
        x.grad.zero()
        each.backward()
        np.testing.assert_array_equal(x.g, [factor, factor])
    assert inlined(F.mul_scalar, x, *attributes, 5) is None  # the text makes it
    np.testing.assert_array_equal(F.mul_scalar(x, 5).d, [5, 10])


def test_an_absent_input_is_recorded_as_absent():
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, shape).astype("f") for shape in ((3, 4), (4, 2), (2,))]
    x, w, b = (nn.Variable.from_numpy_array(array, need_grad=True) for array in arrays)
    for _ in range(2):
        F.affine(x, w), F.affine(x, w, b)
    without, with_bias = inlined(F.affine, x, w, None, 1), inlined(F.affine, x, w, b, 1)
    np.testing.assert_array_equal(without.d, x.d @ w.d)
    np.testing.assert_array_equal(with_bias.d, x.d @ w.d + b.d)
    assert without.value.inputs == (x.value, w.value, None)
    assert with_bias.value.inputs == (x.value, w.value, b.value)
    without.backward()
    np.testing.assert_array_equal(w.g, x.d.sum(0)[:, None] * np.ones((1, 2)))


def test_a_program_that_goes_to_another_device_has_its_calls_made_there(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("atled_sim")
    monkeypatch.setattr(inline_cache, "_PATIENCE", 0)
    for extension, name in (("cpu", "host"), ("sim", "SimArray:0"), ("cpu", "host"), ("sim", "SimArray:0")):
        x, y = variable(1, 2), variable(3, 5)
        with nn.context_scope(nn.get_extension_context(extension, fallback="raise")):
            made = [F.mul2(x, y) for _ in range(5)]
            del made
            result = inlined(F.mul2, x, y, *without_attributes(F.mul2))
            assert str(result.data.cell.place) == name
            np.testing.assert_array_equal(result.d, [3, 10])


@pytest.mark.parametrize("which", ["shape", "dtype", "array", "number", "missing", "unready"])
def test_what_differs_is_another_call(which: str):
    x, y = variable(1, 2), variable(3, 4)
    for _ in range(2):
        F.mul2(x, y)
    others: dict[str, Any] = {
        "shape": variable(3),
        "dtype": variable(3, 4, dtype=np.float64),
        "array": y.data,
        "number": 1.0,
        "missing": None,
        "unready": nn.Variable.__new__(nn.Variable),
    }
    attributes = without_attributes(F.mul2)
    assert inlined(F.mul2, x, others[which], *attributes) is None
    assert inlined(F.mul2, others[which], x, *attributes) is None
    assert inlined(F.mul2, x, y, *attributes) is not None


def test_values_that_are_not_computed_are_left_to_the_text():
    x, y = variable(1, 2), variable(3, 4)
    for _ in range(2):
        F.mul2(x, y)
    with nn.auto_forward(False):
        recorded = F.add2(x, y)
    assert inlined(F.mul2, recorded, y, *without_attributes(F.mul2)) is None
    x.data.zero()
    assert inlined(F.mul2, x, y, *without_attributes(F.mul2)) is None
    np.testing.assert_array_equal(F.mul2(x, y).d, [0, 0])


def test_a_variable_of_a_derived_class_is_left_to_the_text():
    class Named(nn.Variable):
        pass

    x = variable(1, 2)
    for _ in range(2):
        F.mul2(x, x)
    assert inlined(F.mul2, Named((2,)), x, *without_attributes(F.mul2)) is None


def test_results_that_are_held_or_shown_are_not_used_again():
    x, y = variable(1, 2), variable(3, 4)
    held = [F.add2(x, y) for _ in range(40)]
    values = [F.add2(x, y).value for _ in range(40)]
    shown = [F.add2(x, y).d for _ in range(40)]
    arrays = [F.add2(x, y).data for _ in range(40)]
    for _ in range(300):
        F.add2(y, y)
    shown += [each.d for each in held] + [each.data.data for each in values] + [each.data for each in arrays]
    assert all((each == [4, 6]).all() for each in shown)


@pytest.mark.parametrize("of_arrays", [False, True])
def test_a_result_is_used_again_once_its_views_are_gone(of_arrays: bool):
    x = variable(1, 2)
    given = x.data if of_arrays else x
    function = F.mul2.__globals__
    for _ in range(3):
        F.mul2(given, given)
    made = function["_inline" if of_arrays else "_inline_variables"]
    calls, attributes = here().arrays, without_attributes(F.mul2)

    def shown() -> np.ndarray:
        result = made(calls, given, given, *attributes)
        return result.data if of_arrays else result.d

    addresses = {shown().__array_interface__["data"][0] for _ in range(10)}
    assert len(addresses) == 1
    view = shown()[1:]
    others = {shown().__array_interface__["data"][0] for _ in range(10)}  # the one that is there is shown
    assert len(others) == 1 and others.isdisjoint(addresses) and view == 4
    cycle: list[Any] = [view]
    cycle.append(cycle)
    del view, cycle
    gc.collect()
    assert shown().tolist() == [1, 4]


def test_values_are_shown_without_details_of_their_own():
    x = variable(1, 2)
    for _ in range(2):  # the second one is made as the first one was
        y = x * 2.0
    shown = y.d
    assert y.value.details.is_shared and shown.tolist() == [2, 4]
    shown[0] = 7
    assert y.d.tolist() == [7, 4] and y.data.data.tolist() == [7, 4] and F.sum(y).d == 11
    y.data = nn.NdArray.from_numpy_array(np.array([3, 3], np.float32))
    assert y.d.tolist() == [3, 3] and y.d.shape == (2,)


def test_a_result_lives_as_long_as_what_is_computed_from_it():
    x = variable(1, 2)
    for _ in range(3):
        y = F.mul2(x, x)
        z = F.mul2(y, y)
    value = weakref.ref(y.value)
    del y
    for _ in range(50):
        F.mul2(x, x)
    assert value() is not None
    x.grad.zero()
    z.backward()
    np.testing.assert_array_equal(x.g, [4, 32])
    del z
    assert value() is None


def test_calls_of_the_text_and_native_ones_share_what_is_free():
    x = nn.Variable.from_numpy_array(np.ones((4, 64), np.float32))
    for _ in range(50):
        F.softmax(x * 0.25) * x  # of one size, the softmax by the text
    (cells,) = [each for each in all_spares() if each.size == 256 and each.count and each._kind is not nn.NdArray]
    assert cells.count <= 4


def test_no_reference_is_lost_or_kept():
    x, y, column = variable(1, 2), variable(3, 4), nn.Variable.from_numpy_array(np.ones((2, 1), np.float32))
    for _ in range(100):
        F.mul2(x, y), F.mul2(column, column), F.mul_scalar(x, 2.5)
    entry, *_ = F.mul2.__globals__["_variable_cache"]._entries
    factor = 2.5 * float(np.ones(()))
    pattern = F.mul2(x, y).value.pattern
    watched = [entry, pattern, x, y, x.value, y.value, x.value._cell, x.shape, column.shape, here().values, factor]
    watched += [nn.Variable, type(F.mul2(x, y).value), F.mul2(x, y).value.details]

    def counted() -> list[int]:
        return [sys.getrefcount(each) for each in watched]

    gc.collect()
    counts, of_none = counted(), sys.getrefcount(None)
    for _ in range(1000):
        F.mul2(x, y)  # takes its results from the ring of the one below, which has another shape
        F.mul2(column, column)
        F.mul_scalar(x, factor)
        inlined(F.mul2, x, column, *without_attributes(F.mul2))
    gc.collect()
    assert counted() == counts
    assert abs(sys.getrefcount(None) - of_none) < 100


def test_garbage_may_be_collected_at_any_call():
    x, y = variable(1, 2), variable(3, 4)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        held = [F.mul_scalar(F.mul2(x, y), 2.0) for _ in range(300)]
    finally:
        gc.set_threshold(*threshold)
    assert all((each.d == [6, 16]).all() for each in held)


def test_wrong_calls_of_the_native_function_are_refused():
    x = variable(1, 2)
    for _ in range(2):
        F.mul2(x, x)
    for given in ((), (x,), (x, x, *without_attributes(F.mul2), 1)):
        with pytest.raises(TypeError):
            inlined(F.mul2, *given)


def test_a_call_that_only_records_or_is_observed_is_the_text_s():
    x = variable(1, 2)
    for _ in range(3):
        F.mul2(x, x)
    with nn.auto_forward(False):
        assert F.mul2(x, x).value._cell is None
    with nn.trace() as trace:
        F.mul2(x, x)
    assert [row.op for row in trace.rows()] == ["Mul2"]


def test_arrays_and_variables_have_caches_of_their_own():
    x = variable(1, 2)
    for _ in range(3):
        F.mul2(x, x), F.mul2(x.data, x.data)
    assert type(F.mul2(x, x)) is nn.Variable and type(F.mul2(x.data, x.data)) is nn.NdArray
    names = F.mul2.__globals__
    assert names["_inline"] is not names["_inline_variables"]
    attributes = without_attributes(F.mul2)
    assert type(names["_inline"](here().arrays, x.data, x.data, *attributes)) is nn.NdArray
    assert names["_inline_variables"](here().values, x.data, x.data, *attributes) is None


def test_a_device_is_launched_out_of_the_cache(monkeypatch: pytest.MonkeyPatch):
    sim = pytest.importorskip("atled_sim")
    monkeypatch.setattr(inline_cache, "_PATIENCE", 0)
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")):
        x, y = variable(1, 2, np.nan), variable(3, np.inf, 1)
        made = [F.mul2(x, y) for _ in range(5)]
        del made
        result = inlined(F.mul2, x, y, *without_attributes(F.mul2))
        assert "SimArray" in repr(result.data.cell.place)
        np.testing.assert_array_equal(result.d, [3, np.inf, np.nan])
        values = [sys.getrefcount(each) for each in (x.value, y.value)]
        with sim.faults.fail("launch"), pytest.raises(sim.SimFault):
            inlined(F.mul2, x, y, *without_attributes(F.mul2))
        gc.collect()  # frames of the error
        assert [sys.getrefcount(each) for each in (x.value, y.value)] == values
