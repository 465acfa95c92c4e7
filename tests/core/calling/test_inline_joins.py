"""Inline caches of functions of any number of inputs, of tuples of results, and of views."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.cell import ArrayCell
from atled.arrays.spares import all_spares, clear_spares
from atled.calling import inline_cache
from atled.calling.call_tables import forget_calls
from atled_contexts.surroundings import here

pytest.importorskip("atled_cpu_numba")

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(params=["arrays", "variables"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with nn.context_scope(nn.get_extension_context("cpu")), nn.auto_forward(request.param == "variables"):
        clear_spares()
        forget_calls()
        yield request.param


@pytest.fixture
def variables() -> Iterator[None]:
    with nn.context_scope(nn.get_extension_context("cpu")), nn.auto_forward():
        clear_spares()
        forget_calls()
        yield


def made_of(kind: str, values: Any, dtype: Any = np.float32) -> Any:
    array = np.array(values, dtype)
    if kind == "arrays":
        return nn.NdArray.from_numpy_array(array)
    return nn.Variable.from_numpy_array(array, need_grad=True)


def read(result: Any) -> np.ndarray:
    return result.data if isinstance(result, nn.NdArray) else result.d


def inlined(kind: str, function: Callable[..., Any], *given: Any) -> Any:
    """What the function of the inline cache of a function gives; None if it does not know the call."""
    name, table = ("_inline", here().arrays) if kind == "arrays" else ("_inline_variables", here().values)
    made = function.__globals__[name]  # type: ignore[attr-defined]  # of a function made by `def`
    return None if made is None else made(table, *given)


def often(function: Callable[..., Any], *given: Any, **attributes: Any) -> None:
    """Have a function make a call until its inline cache has it, and there are spares."""
    made = [function(*given, **attributes) for _ in range(6)]
    del made


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_number_of_arrays_are_joined_natively(kind: str, count: int, axis: int):
    arrays = [VALUES + 100 * number for number in range(count)]
    given = [made_of(kind, each) for each in arrays]
    often(F.concatenate, *given, axis=axis)
    often(F.stack, *given, axis=axis)
    np.testing.assert_array_equal(read(inlined(kind, F.concatenate, *given, axis)), np.concatenate(arrays, axis))
    np.testing.assert_array_equal(read(inlined(kind, F.stack, *given, axis)), np.stack(arrays, axis))
    assert inlined(kind, F.stack, *given, given[0], axis) is None


@pytest.mark.parametrize("type_config, dtype", [("half", np.float16), ("double", np.float64), ("float", np.float32)])
def test_values_are_joined_and_split_bit_by_bit(kind: str, type_config: str, dtype: Any):
    values = np.array([[0, -1, np.nan], [np.inf, -0.0, 1e-7]], dtype)
    with nn.context_scope(nn.get_extension_context("cpu", type_config=type_config)):
        x = made_of(kind, values, dtype)
        for _ in range(6):
            joined, parts = F.concatenate(x, x, x, axis=0), F.split(x, axis=1)
            assert read(joined).tobytes() == np.concatenate([values] * 3).tobytes()
            assert [read(part).tobytes() for part in parts] == [values[:, i].tobytes() for i in range(3)]


def test_arrays_of_different_sizes_are_told_apart(kind: str):
    first, second = made_of(kind, np.ones((2, 3))), made_of(kind, np.zeros((2, 5)))
    often(F.concatenate, first, second, axis=1)
    often(F.concatenate, first, first, axis=1)
    assert inlined(kind, F.concatenate, first, second, 1).shape == (2, 8)
    assert inlined(kind, F.concatenate, first, first, 1).shape == (2, 6)
    assert inlined(kind, F.concatenate, second, first, 1) is None
    assert inlined(kind, F.concatenate, first, second, 0) is None
    assert inlined(kind, F.concatenate, first, made_of(kind, np.zeros((2, 5)), np.float64), 1) is None


def test_more_inputs_than_the_native_function_takes_are_right(kind: str):
    given = [made_of(kind, [number]) for number in range(300)]
    for _ in range(6):
        np.testing.assert_array_equal(read(F.concatenate(*given)), np.arange(300))
    assert inlined(kind, F.concatenate, *given, None) is None


@pytest.mark.parametrize("which", ["number", "missing", "array", "variable", "unready", "nothing"])
def test_what_is_no_array_of_the_kind_is_left_to_the_text(kind: str, which: str):
    x = made_of(kind, [1, 2])
    often(F.concatenate, x, x, axis=0)
    if which == "nothing":
        with pytest.raises(TypeError):
            inlined(kind, F.concatenate, 0)
        return
    others: dict[str, Any] = {
        "number": 1.0,
        "missing": None,
        "array": "text" if kind == "arrays" else made_of("arrays", [1, 2]),
        "variable": "text" if kind == "variables" else made_of("variables", [1, 2]),
        "unready": type(x).__new__(type(x)),
    }
    assert inlined(kind, F.concatenate, x, others[which], 0) is None
    assert inlined(kind, F.concatenate, x, x, 0) is not None
    if which in ("number", "missing"):
        with pytest.raises(TypeError):
            F.concatenate(x, others[which], axis=0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_tuple_of_results_is_made_natively(kind: str, axis: int):
    x = made_of(kind, VALUES)
    often(F.split, x, axis=axis)
    parts = inlined(kind, F.split, x, axis)
    assert type(parts) is tuple and len(parts) == VALUES.shape[axis]
    for number, part in enumerate(parts):
        assert type(part) is type(x)
        np.testing.assert_array_equal(read(part), VALUES.take(number, axis))


def test_a_tuple_of_one_result_is_a_tuple(kind: str):
    x = made_of(kind, [[1, 2, 3]])
    often(F.split, x, axis=0)
    (part,) = inlined(kind, F.split, x, 0)
    np.testing.assert_array_equal(read(part), [1, 2, 3])


def test_results_of_a_tuple_that_are_held_or_shown_are_not_used_again(kind: str):
    x, other = made_of(kind, VALUES), made_of(kind, -VALUES)
    held = [F.split(x, axis=1)[number % 3] for number in range(30)]
    shown = [read(F.split(x, axis=1)[number % 3]) for number in range(30)]
    data = [F.split(x, axis=1)[0] for _ in range(30)]
    cells = [each.cell if kind == "arrays" else each.value._cell for each in data]
    del data
    for _ in range(200):
        F.split(other, axis=1)
    shown_cells = [nn.NdArray.over(cell, (2, 4)).data for cell in cells]
    for number in range(30):
        np.testing.assert_array_equal(read(held[number]), VALUES[:, number % 3])
        np.testing.assert_array_equal(shown[number], VALUES[:, number % 3])
        np.testing.assert_array_equal(shown_cells[number], VALUES[:, 0])


def test_a_view_is_made_natively_and_shares_what_is_written(kind: str):
    x = made_of(kind, VALUES)
    shape = (4, 6)
    often(F.reshape, x, shape)
    view = inlined(kind, F.reshape, x, shape, True)
    assert view is not x and type(view) is type(x) and view.shape == (4, 6)
    read(view)[0, 1] = 77
    assert read(x)[0, 0, 1] == 77
    assert inlined(kind, F.reshape, x, shape, False) is None


def test_a_view_of_what_is_pending_is_left_to_the_text(kind: str):
    x, shape = made_of(kind, VALUES), (24,)
    often(F.reshape, x, shape)
    (x if kind == "arrays" else x.data).zero()
    assert inlined(kind, F.reshape, x, shape, True) is None
    np.testing.assert_array_equal(read(F.reshape(x, shape)), np.zeros(24))


def test_a_view_keeps_its_memory(kind: str):
    shape = (4, 2)
    for _ in range(6):
        x = made_of(kind, np.arange(8)) * 1.0
        view = F.reshape(x, shape)
        del x
        for _ in range(40):
            made_of(kind, np.ones(8)) * 3.0
        np.testing.assert_array_equal(read(view), np.arange(8).reshape(4, 2))


def test_rows_and_columns_are_those_of_numpy(kind: str):
    x = made_of(kind, VALUES)
    keys: list[Any] = [1, -1, (slice(None), 2), (..., 0), (slice(None), slice(1, 3)), (0, 1, 2), None, (1, None, 2), ()]
    for _ in range(6):
        for key in keys:
            result = x[key]
            np.testing.assert_array_equal(read(result), VALUES[key])
            assert result.shape == VALUES[key].shape
    row = x[1]
    read(row)[...] = 9
    np.testing.assert_array_equal(read(x), VALUES)
    for wrong in (True, (slice(None), True), (slice(None), 1.0), (slice(1.0), 1)):  # which equal what was found
        with pytest.raises(TypeError):
            x[wrong]
    with pytest.raises(IndexError):
        x[:, 3]


def test_gradients_go_through_tuples_views_and_joins(variables: None):
    x = made_of("variables", VALUES)
    shape = (2, 12)
    for _ in range(6):
        first, second, third = F.split(x, axis=1)
        joined = F.concatenate(F.stack(first, third, axis=1) * 2.0, F.reshape(second, (2, 1, 4)) * 5.0, axis=1)
        y = F.sum(F.reshape(joined, shape) * joined.reshape(shape))
        x.grad.zero()
        y.backward()
    np.testing.assert_array_equal(x.g, 2 * VALUES * np.array([4, 25, 4], np.float32)[:, None])


def test_a_tuple_is_recorded_as_the_text_records_it(variables: None):
    x = made_of("variables", VALUES)
    by_text = F.split(x, axis=1)
    often(F.split, x, axis=1)
    natively = inlined("variables", F.split, x, 1)
    for results in (by_text, natively):
        function = results[0].value.parent
        assert [each.value.parent for each in results] == [function] * 3
        assert [each.value.position for each in results] == [0, 1, 2]
        assert [reference() for reference in function.outputs] == [each.value for each in results]
        assert function.inputs == (x.value,) and function.auxiliary == [None] * 3
        assert function.spec.name == "Split" and function.attributes == {"axis": 1} and function.random_state is None
        assert all(each.need_grad and each.value.handle() is each and not each.value.is_leaf for each in results)
    assert natively[0].value.parent is not by_text[0].value.parent
    natively[0].persistent = True
    assert not natively[1].persistent and not inlined("variables", F.split, x, 1)[0].persistent
    natively[1].data = nn.NdArray.from_numpy_array(np.zeros((2, 4), np.float32))
    np.testing.assert_array_equal(natively[0].d, VALUES[:, 0])


def test_results_of_a_tuple_live_as_long_as_what_is_computed_from_them(variables: None):
    x = made_of("variables", VALUES)
    often(F.split, x, axis=1)
    parts = F.split(x, axis=1)
    kept, dropped = (weakref.ref(parts[number].value) for number in (0, 1))
    y = F.sum(parts[0])
    del parts
    assert dropped() is None and kept() is not None
    x.grad.zero()
    y.backward()
    np.testing.assert_array_equal(x.g[:, 0], np.ones((2, 4)))
    np.testing.assert_array_equal(x.g[:, 1:], np.zeros((2, 2, 4)))
    del y
    assert kept() is None


def in_rings() -> tuple[int, int]:
    """How many arrays of the parts of `VALUES`, or bare cells, the rings have, and how many of them are free."""
    rings = [ring for ring in all_spares() if ring.size == 8 and ring.dtype == np.float32]
    return sum(ring.count for ring in rings), sum(ring.free_count() for ring in rings)


@pytest.mark.parametrize("held", range(7))
def test_the_spares_that_lack_for_a_tuple_are_made_natively_and_no_others(kind: str, held: int):
    x = made_of(kind, VALUES)
    often(F.split, x, axis=1)
    clear_spares()
    made = [inlined(kind, F.split, x, 1) for _ in range(2)]
    assert in_rings() == (6, 0)
    parts = [part for results in made for part in results]
    del made
    for number, part in enumerate(parts):
        read(part)[...] = number
    views = [read(part) for part in parts[:held]]
    del parts, part
    results = inlined(kind, F.split, x, 1)
    count = 6 + max(held - 3, 0)
    assert in_rings() == (count, count - 3)
    for number, result in enumerate(results):
        np.testing.assert_array_equal(read(result), VALUES[:, number])
    assert [set(view.ravel()) for view in views] == [{number} for number in range(held)]


def test_spares_are_given_back_where_an_interrupt_comes_as_one_is_made(kind: str, monkeypatch: pytest.MonkeyPatch):
    x = made_of(kind, VALUES)
    often(F.split, x, axis=1)
    clear_spares()
    parts = inlined(kind, F.split, x, 1)
    held = parts[0]
    del parts
    assert in_rings() == (3, 2)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = sys.getrefcount(x)
    with monkeypatch.context() as patch:
        patch.setattr(ArrayCell, "output", interrupted)
        with pytest.raises(KeyboardInterrupt):
            inlined(kind, F.split, x, 1)
    assert in_rings() == (3, 2) and sys.getrefcount(x) == before
    again = inlined(kind, F.split, x, 1)
    assert in_rings() == (4, 0)
    assert again[0] is not held
    np.testing.assert_array_equal(read(held), VALUES[:, 0])


def test_no_reference_is_lost_or_kept(kind: str):
    x, other, shape = made_of(kind, VALUES), made_of(kind, VALUES.T), (6, 4)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (F.concatenate, (x, x, x, 1)),
        (F.stack, (x, x, 0)),
        (F.split, (x, 1)),
        (F.split, (other, 0)),
        (F.reshape, (x, shape, True)),
    ]

    def run() -> None:
        for function, given in calls:
            inputs, rest = [each for each in given if each is x or each is other], given[-1:]
            if function is F.reshape:
                function(x, shape)
            else:
                function(*inputs, axis=rest[0])
            inlined(kind, function, *given)
            inlined(kind, function, other, *given[1:])

    for _ in range(30):
        run()
    assert all(inlined(kind, function, *given) is not None for function, given in calls)
    caches = [function.__globals__["_cache" if kind == "arrays" else "_variable_cache"] for function, _ in calls]
    watched = [entry for cache in caches for entry in cache._entries]
    watched += [x, other, x.shape, other.shape, shape, nn.NdArray, nn.Variable, here().arrays]
    cells = [x.cell, other.cell] if kind == "arrays" else [x.value, other.value, x.value._cell, other.value._cell]
    watched += cells
    for entry in [entry for cache in caches for entry in cache._entries]:
        watched += entry._held[1]  # shapes of inputs and results
        watched += [entry._held[7], entry._held[8], entry._held[8].attributes]
        watched += [held for result in entry._held[3] for held in result._held]
    gc.collect()
    counts, of_none = [sys.getrefcount(each) for each in watched], sys.getrefcount(None)
    for _ in range(500):
        run()
    gc.collect()
    assert [sys.getrefcount(each) for each in watched] == counts
    assert abs(sys.getrefcount(None) - of_none) < 100


def test_garbage_may_be_collected_at_any_call(kind: str):
    x, shape = made_of(kind, VALUES), (24,)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        held = [[*F.split(x, axis=1), F.stack(x, x), F.reshape(x, shape)] for _ in range(100)]
    finally:
        gc.set_threshold(*threshold)
    for parts in held:
        for number in range(3):
            np.testing.assert_array_equal(read(parts[number]), VALUES[:, number])
        np.testing.assert_array_equal(read(parts[3]), [VALUES] * 2)
        np.testing.assert_array_equal(read(parts[4]), VALUES.ravel())


def test_several_threads_have_results_of_their_own(kind: str):
    wrong: list[int] = []

    def work(number: int) -> None:
        with nn.context_scope(nn.get_extension_context("cpu")), nn.auto_forward(kind == "variables"):
            x = made_of(kind, VALUES + number)
            for _ in range(300):
                parts = F.split(x, axis=1)
                joined = F.stack(*parts, axis=1)
                if not np.array_equal(read(joined), VALUES + number):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_calls_that_are_observed_are_told(kind: str):
    x = made_of(kind, VALUES)
    often(F.split, x, axis=1)
    often(F.stack, x, x, axis=0)
    with nn.trace() as trace:
        F.split(x, axis=1), F.stack(x, x, axis=0)
    assert sorted(row.op for row in trace.rows()) == ["Split", "Stack"]


@pytest.mark.parametrize("rows, is_brief", [(42, True), (43, False)])
def test_joins_of_few_rows_are_made_natively(kind: str, rows: int, is_brief: bool):
    x = made_of(kind, np.ones((rows, 3, 2)))
    often(F.split, x, axis=1)
    assert (inlined(kind, F.split, x, 1) is not None) == is_brief
    assert all((read(part) == 1).all() and part.shape == (rows, 2) for part in F.split(x, axis=1))


@pytest.mark.parametrize("size", [1 << 13, 1 << 14])
def test_large_joins_are_right(kind: str, size: int):
    x = made_of(kind, np.arange(size))
    for _ in range(6):
        np.testing.assert_array_equal(read(F.stack(x, x, axis=1)), np.stack([np.arange(size)] * 2, 1))
        np.testing.assert_array_equal(read(F.split(F.reshape(x, (2, -1)), axis=0)[1]), np.arange(size // 2, size))


def test_a_device_joins_splits_and_shares_out_of_the_cache(kind: str, monkeypatch: pytest.MonkeyPatch):
    sim = pytest.importorskip("atled_sim")
    monkeypatch.setattr(inline_cache, "_PATIENCE", 0)
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")):
        x = made_of(kind, VALUES) * 1.0
        shape = (4, 6)
        for _ in range(2):
            often(F.stack, x, x, axis=0)
            often(F.split, x, axis=1)
            often(F.reshape, x, shape)
        joined, view = inlined(kind, F.stack, x, x, 0), inlined(kind, F.reshape, x, shape, True)
        parts = inlined(kind, F.split, x, 1)
        for result in (joined, view, *parts):
            assert "SimArray" in repr((result if kind == "arrays" else result.data).cell.place)
        np.testing.assert_array_equal(read(joined), [VALUES] * 2)
        np.testing.assert_array_equal(read(view), VALUES.reshape(4, 6))
        for number, part in enumerate(parts):
            np.testing.assert_array_equal(read(part), VALUES[:, number])
        often(F.stack, x, x, axis=0)  # spares that were not read on the host
        often(F.split, x, axis=1)
        held = [x, x.cell.storage] if kind == "arrays" else [x, x.value]
        counts = [sys.getrefcount(each) for each in held]
        for function, given in ((F.stack, (x, x, 0)), (F.split, (x, 1))):
            with sim.faults.fail("launch"), pytest.raises(sim.SimFault):
                inlined(kind, function, *given)
        del given
        gc.collect()  # frames of the errors
        assert [sys.getrefcount(each) for each in held] == counts


def test_views_of_arrays_of_a_device_load_no_executor_at_once(kind: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("atled_sim")
    monkeypatch.setattr(inline_cache, "_PATIENCE", 1 << 60)
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")):
        x = made_of(kind, VALUES) * 1.0
        shape = (4, 6)
        often(F.reshape, x, shape)
        assert inlined(kind, F.reshape, x, shape, True) is None
        np.testing.assert_array_equal(read(F.reshape(x, shape)), VALUES.reshape(4, 6))


def test_a_layout_of_objects_that_is_not_slots_alone_is_not_copied():
    class Derived(inline_cache.Details):
        __slots__ = ("more",)

    class Whole:
        __slots__ = ("__weakref__", "first", "second")

    assert inline_cache._is_all_slots(inline_cache.Details) and inline_cache._is_all_slots(Whole)
    assert not inline_cache._is_all_slots(Derived)
