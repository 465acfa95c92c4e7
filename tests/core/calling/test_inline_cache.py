"""Inline caches: calls that are made again natively are those of the text, and hold nothing that they should not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays import spares
from atled.calling import inline_cache
from atled.calling.call_tables import forget_calls
from atled_contexts.surroundings import here

pytest.importorskip("atled_cpu_numba")


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with nn.context_scope(nn.get_extension_context("cpu")):
        forget_calls()
        yield


def array(*values: float, dtype: Any = np.float32) -> nn.NdArray:
    return nn.NdArray.from_numpy_array(np.array(values, dtype))


def inlined(function: Callable[..., Any], *given: Any) -> Any:
    """What the function of the inline cache of a function gives; None if it does not know the call."""
    made = function.__globals__["_inline"]  # type: ignore[attr-defined]  # of a function made by `def`
    return made(here().arrays, *given)


def test_a_call_that_was_found_once_is_made_natively():
    a, b = array(1, 2, np.nan, 3), array(1, np.inf, 2, -4)
    for _ in range(2):
        F.add2(a, b)
    result = inlined(F.add2, a, b, False)
    np.testing.assert_array_equal(result.data, [2, np.inf, np.nan, -1])
    assert result.shape == (4,) and result.dtype == np.float32


def test_other_arrays_of_the_shapes_are_the_same_call():
    for _ in range(2):
        F.add2(array(1, 2), array(3, 4))
    np.testing.assert_array_equal(inlined(F.add2, array(5, 6), array(7, 8), False).data, [12, 14])


@pytest.mark.parametrize(
    "given",
    [
        (array(1, 2), array(3), False),
        (array(1), array(2), False),
        (nn.NdArray.from_numpy_array(np.ones((1, 2), np.float32)), array(3, 4), False),
        (array(1, 2), array(3, 4, dtype=np.float64), False),
        (array(1, 2), array(3, 4), True),
    ],
    ids=["shape", "size", "axes", "dtype", "attribute"],
)
def test_what_differs_in_the_key_is_another_call(given: tuple[Any, ...]):
    for _ in range(2):
        F.add2(array(1, 2), array(3, 4))
    assert inlined(F.add2, *given) is None


def test_pending_values_are_no_values():
    a, b = array(1, 2), array(3, 4)
    for _ in range(2):
        F.add2(a, b)
    a.zero()
    assert inlined(F.add2, a, b, False) is None
    np.testing.assert_array_equal(F.add2(a, b).data, [3, 4])


def test_a_context_and_a_forgotten_call_are_seen():
    a, b = array(1, 2), array(3, 4)
    for _ in range(2):
        F.add2(a, b)
    with nn.context_scope(nn.get_extension_context("cpu", type_config="half")):
        F.add2(a, b)
        assert inlined(F.add2, a, b, False) is None
    assert inlined(F.add2, a, b, False) is not None
    forget_calls()
    F.add2(a, b)
    assert inlined(F.add2, a, b, False) is None


def test_floats_are_those_of_each_call():
    x = array(1, 2)
    made = [F.mul_scalar(x, 3.0) for _ in range(4)]
    del made  # spares for all that are shown below
    attributes = [False] * (F.mul_scalar.__globals__["_cache"]._words[2])
    np.testing.assert_array_equal(inlined(F.mul_scalar, x, *attributes, 5.0).data, [5, 10])
    np.testing.assert_array_equal(inlined(F.mul_scalar, x, *attributes, -1.0).data, [-1, -2])
    assert inlined(F.mul_scalar, x, *attributes, 5) is None  # the text makes it
    np.testing.assert_array_equal(F.mul_scalar(x, 5).data, [5, 10])


def test_a_result_that_is_held_or_shown_is_not_used_again():
    a, b = array(1, 2), array(3, 4)
    held = [F.add2(a, b) for _ in range(50)]
    cells = [F.add2(a, b).cell for _ in range(50)]
    shown = [F.add2(a, b).data for _ in range(50)]
    for _ in range(300):
        F.add2(b, b)
    assert all((result.data == [4, 6]).all() for result in held)
    assert all((nn.NdArray.over(cell, (2,)).data == [4, 6]).all() for cell in cells)
    assert all((values == [4, 6]).all() for values in shown)


def test_more_shapes_than_there_is_room_for_are_right():
    for _ in range(3):
        for size in range(1, 60):
            x = nn.NdArray.from_numpy_array(np.arange(size, dtype=np.float32))
            np.testing.assert_array_equal(F.add2(x, x).data, 2 * np.arange(size))


def test_arrays_without_elements_are_right():
    x = nn.NdArray.from_numpy_array(np.ones((0, 3), np.float32))
    for _ in range(4):
        assert F.add2(x, x).shape == (0, 3)


def test_no_reference_is_lost_or_kept():
    a, b, c = array(1, 2), array(3, 4), nn.NdArray.from_numpy_array(np.ones((2, 1), np.float32))
    for _ in range(100):
        F.add2(a, b), F.add2(c, c)
    (entry, *_) = F.add2.__globals__["_cache"]._entries
    watched = [entry, a, b, a.cell, b.cell, a.shape, b.shape, c.shape, here().arrays]

    def counted() -> list[int]:
        return [sys.getrefcount(each) for each in watched]

    counts, of_none = counted(), sys.getrefcount(None)
    for _ in range(1000):
        F.add2(a, b)  # takes its results from the ring of the one below, which has another shape
        F.add2(c, c)
        inlined(F.add2, a, c, False)
    assert counted() == counts
    assert abs(sys.getrefcount(None) - of_none) < 100


def test_wrong_calls_of_the_native_function_are_refused():
    a, b = array(1, 2), array(3, 4)
    for _ in range(2):
        F.add2(a, b)
    for given in ((), (a,), (a, b), (a, b, False, 1)):
        with pytest.raises(TypeError):
            inlined(F.add2, *given)


def test_an_array_that_was_never_made_is_no_input():
    a = array(1, 2)
    for _ in range(2):
        F.add2(a, a)
    empty: Any = nn.NdArray.__new__(nn.NdArray)
    assert inlined(F.add2, empty, a, False) is None
    assert inlined(F.add2, a, empty, False) is None


def test_what_compares_shapes_may_raise():
    a, b = array(1, 2), array(3, 4)
    for _ in range(2):
        F.add2(a, b)

    class Odd:
        def __eq__(self, other: object) -> bool:
            forget_calls()  # the entry goes while it is looked at
            raise ZeroDivisionError

        __hash__ = None  # type: ignore[assignment]  # as lists have

    b.shape = Odd()  # type: ignore[assignment]  # the point of the test
    with pytest.raises(ZeroDivisionError):
        inlined(F.add2, a, b, False)


def test_a_function_that_uses_what_is_held_is_not_trusted(monkeypatch: pytest.MonkeyPatch):
    made: list[Any] = []

    def reckless(address: int) -> Callable[..., Any]:
        def function(table: Any, *given: Any) -> Any:
            return made[-1]._held[2]._kept[0]

        return function

    class Entry(inline_cache._Entry):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    a = array(1, 2)
    F.add2(a, a)
    call = here().arrays["Add2", (2,), (2,), a.cell.code, a.cell.code, False]  # type: ignore[index]  # there is one now
    monkeypatch.setattr(inline_cache, "_Entry", Entry)
    monkeypatch.setattr(spares, "_refused", [])
    assert inline_cache._is_proven(call.native.inline_call, call, (a, a), (False,))
    assert spares.places_without_spares() == ()
    assert not inline_cache._is_proven(reckless, call, (a, a), (False,))
    assert spares.places_without_spares() == ("inline caches",)


def test_a_slot_is_found_where_it_is():
    class Slotted:
        __slots__ = ("first", "second")

    class Derived(Slotted):
        __slots__ = ("third",)

    offsets = [inline_cache.slot_offset(Derived, name) for name in ("first", "second", "third")]
    assert sorted(offsets)[0] >= 16 and len(set(offsets)) == 3
    assert inline_cache.slot_offset(Slotted, "first") == offsets[0]
