"""Small arrays are used again once they are free, and never while somebody holds them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import atled.functions as F
from atled import auto_forward
from atled.arrays import spares
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.spares import NEVER, Spares, places_without_spares, reuses
from atled.arrays.storage import HostStorage
from atled.calling.function_text import FUNCTIONS
from atled.calling.function_trial import proven_counts
from atled.doctor.examination import examine
from atled.ops.spec import SPECS
from atled.variable import Variable

FLOAT32 = np.dtype(np.float32)
KINDS = pytest.mark.parametrize("kind", [NdArray, ArrayCell])
HOLDS = pytest.mark.parametrize("hold", [spares._whole, spares._cell, spares._storage])
# One input and two, floats, an optional input, whole numbers, several outputs.
OPS = ("ReLU", "ELU", "Add2", "Affine", "Softmax", "Convolution", "Sum", "TopKData")


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], int]:
    """Counts of references that say of everything that nobody else has it; what is proven meanwhile is forgotten."""
    monkeypatch.setattr(spares, "_refused", [])
    monkeypatch.setattr(spares, "_counts", {})
    return lambda thing: 2


@KINDS
def test_what_is_free_is_used_again(kind: Any):
    made = Spares(kind, 4, FLOAT32)
    assert reuses(made, None, made.get)
    assert made.free_count() == 1


@KINDS
@HOLDS
def test_what_somebody_holds_is_not_used_again(kind: Any, hold: Callable[[Any], object]):
    made = Spares(kind, 4, FLOAT32)
    assert not reuses(made, hold, made.get)


def _export(taken: NdArray | ArrayCell) -> np.ndarray:
    storage = (taken.cell if isinstance(taken, NdArray) else taken).storage
    assert isinstance(storage, HostStorage)
    return storage.export((4,), FLOAT32)


@KINDS
def test_what_views_showed_is_used_again_once_they_are_gone(kind: Any):
    made = Spares(kind, 4, FLOAT32)
    identities = set()
    for n in range(6):
        taken = made.get()
        identities.add(id(taken))
        view = _export(taken)
        part = memoryview(view)[1:]
        view[:] = n
        del taken, view
        assert list(part) == [n] * 3
        del part
    assert len(identities) == 1


@KINDS
@pytest.mark.parametrize("of", [lambda view: view, lambda view: view[1:].T, lambda view: memoryview(view)[1:]])
def test_what_a_view_shows_is_not_used_again(kind: Any, of: Callable[[np.ndarray], Any]):
    made = Spares(kind, 4, FLOAT32)
    views = []
    for n in range(5):
        taken = made.get()
        _export(taken)  # gone at once, before that which stays
        view = _export(taken)
        view[:] = n
        views.append(of(view))
        del taken, view
    assert [set(view) for view in views] == [{n} for n in range(5)]
    assert len({_address(view) for view in views}) == 5


def _address(view: Any) -> int:
    return int(np.asarray(view).ctypes.data)


def test_results_that_are_read_keep_their_values_as_long_as_they_are_held():
    x = NdArray.from_numpy_array(np.arange(4, dtype=np.float32))
    v = Variable.from_numpy_array(np.arange(4, dtype=np.float32))
    held: list[tuple[np.ndarray, int]] = []
    draw = random.Random(1)
    with auto_forward():
        for n in range(400):
            made = F.add_scalar(x, n).data if n % 2 else F.add_scalar(v, n).d
            held.append((made[1:] if n % 3 else made[::-1][:3][::-1], n))
            if draw.random() < 0.6:
                held.pop(draw.randrange(len(held)))
            for view, of in held:
                np.testing.assert_array_equal(view, np.arange(1, 4) + of)


@pytest.mark.parametrize("kind", ["NdArray", "Variable"])
def test_what_is_made_in_memory_that_was_read_is_computed_with(kind: str):
    x = NdArray.from_numpy_array(np.arange(4, dtype=np.float32))
    w = Variable.from_numpy_array(np.arange(4, dtype=np.float32), need_grad=True)
    with auto_forward():
        for n in range(6):
            if kind == "NdArray":
                made = F.add_scalar(x, n)
                view = made.data
                view[0] = 9  # seen by what is computed next
                again = F.mul_scalar(made, 2).data
                assert again.tolist() == [18, *(2 * (np.arange(1, 4) + n))]
            else:
                w.grad.zero()
                h = F.mul_scalar(w, n)
                assert h.d.tolist() == (np.arange(4) * n).tolist()
                y = F.sum(h * h)
                y.backward()
                assert w.g.tolist() == (2 * n * n * np.arange(4)).tolist()
                del h, y


@KINDS
def test_what_somebody_holds_does_not_count_as_free(kind: Any):
    made = Spares(kind, 4, FLOAT32)
    held = [made.new() for _ in range(3)]
    assert made.free_count() == 0
    held.pop()
    assert made.free_count() == 1


@pytest.mark.parametrize("op", OPS)
def test_functions_tell_what_is_free(op: str):
    FUNCTIONS[op].__globals__["_complete"]()  # as the first call at once does
    counts = proven_counts(FUNCTIONS[op], SPECS[op])
    assert -1 not in counts.values()
    made = FUNCTIONS[op].__globals__
    assert {name: made[name] for name in counts} == counts


@KINDS
def test_a_ring_that_cannot_tell_what_is_held_uses_nothing_again(
    kind: Any, claims: Callable[[Any], int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_references", claims)
    made = Spares(kind, 4, FLOAT32)
    assert made._counts == NEVER
    assert not reuses(made, None, made.get)
    assert places_without_spares() == (f"spares of {kind.__name__}",)
    assert any(kind.__name__ in hint for hint in examine(with_self_tests=False)["hints"])


def test_a_function_that_cannot_tell_what_is_held_uses_nothing_again(
    claims: Callable[[Any], int], monkeypatch: pytest.MonkeyPatch
):
    function = FUNCTIONS["ELU"]
    function.__globals__["_complete"]()  # as the first call at once does
    monkeypatch.setitem(function.__globals__, "_references", claims)
    assert set(proven_counts(function, SPECS["ELU"]).values()) == {-1}
    assert places_without_spares() == ("elu of arrays", "elu of Variables")


def test_nothing_is_used_again_where_counts_tell_nothing(claims: Callable[[Any], int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        spares.sys, "_jit", type("Enabled", (), {"is_enabled": staticmethod(lambda: True)}), raising=False
    )
    assert spares._candidates() == ()


def test_rings_are_counted_while_other_threads_make_some():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            made = list(
                threads.map(
                    lambda first: [spares.spares_of(NdArray, first + i, FLOAT32) for i in range(3000)],
                    (10**6, 10**7, 10**8),
                )
            )
    finally:
        sys.setswitchinterval(interval)
    assert {id(each) for found in made for each in found} <= {id(each) for each in spares.all_spares()}


@KINDS
def test_a_ring_gets_as_long_as_what_is_in_use_at_once(kind: Any):
    made = Spares(kind, 4, FLOAT32)
    before: list[Any] = []
    counts = []
    for _ in range(6):
        held = [made.get() for _ in range(700)]
        assert len({id(item) for item in (*before, *held)}) == len(before) + 700
        before = held  # those of before are in use until now
        counts.append(made.count)
    assert counts == [700, *[1400] * 5]


@KINDS
def test_what_came_round_is_found_wherever_it_stands(kind: Any):
    made = Spares(kind, 4, FLOAT32)
    held = [made.get() for _ in range(8)]
    there = made._in_ring()
    for number in (0, 5, 6, 5, 7, 0, 3):
        assert made._number_of(there[number]) == number
    made.clear()
    assert made._number_of(held[3]) == -1


@KINDS
def test_what_leaves_a_ring_is_in_use_also_for_who_took_it_just_before(kind: Any):
    """Such a thread would count one reference less: as many as of something free, while somebody holds it."""
    made = Spares(kind, 4, FLOAT32)
    held = [made.get() for _ in range(made._limit + 256)]
    there = set(map(id, made._in_ring()))
    left = [item for item in held if id(item) not in there]
    made.clear()
    for items in (left, held):
        assert items and not any((item if kind is ArrayCell else item.cell).is_alone for item in items)
