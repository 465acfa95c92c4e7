"""Inline caches of calls with auxiliary outputs: recorded calls keep these for their gradients, others drop them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.spares import clear_spares
from atled.calling import inline_cache
from atled.calling.call_tables import forget_calls
from atled_contexts.surroundings import here

pytest.importorskip("atled_cpu_numba")

VALUES = np.array([[3, -1, np.inf], [0, 7, 7], [-5, -np.inf, -2]], np.float32)


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
    return nn.Variable.from_numpy_array(array, need_grad=array.dtype.kind == "f")


def read(result: Any) -> np.ndarray:
    return result.data if isinstance(result, nn.NdArray) else result.d


def inlined(kind: str, function: Callable[..., Any], *given: Any) -> Any:
    """What the function of the inline cache of a function gives; None if it does not know the call."""
    name, table = ("_inline", here().arrays) if kind == "arrays" else ("_inline_variables", here().values)
    made = function.__globals__[name]
    return None if made is None else made(table, *given)


def often(function: Callable[..., Any], *given: Any, **attributes: Any) -> None:
    """Have a function make a call until its inline cache has it, and there are spares."""
    made = [function(*given, **attributes) for _ in range(6)]
    del made


def test_a_call_with_an_auxiliary_output_gives_the_first_alone(kind: str):
    x = made_of(kind, VALUES)
    axes = (1,)
    for function, expected in ((F.max, [np.inf, 7, -2]), (F.min, [-1, 0, -np.inf])):
        often(function, x, axis=axes)
        made = inlined(kind, function, x, axes, False)
        assert type(made) is type(x) and made.shape == (3,)
        np.testing.assert_array_equal(read(made), expected)


@pytest.mark.parametrize("type_config, dtype", [("half", np.float16), ("double", np.float64), ("float", np.float32)])
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 7), (2, 3, 5)])
def test_maxima_are_those_of_numpy_with_nan_and_ties(kind: str, type_config: str, dtype: Any, shape: tuple[int, ...]):
    rng = np.random.default_rng(1)
    with nn.context_scope(nn.get_extension_context("cpu", type_config=type_config)):
        for values in (rng.integers(-3, 4, shape), np.where(rng.random(shape) < 0.3, np.nan, 1)):
            x = made_of(kind, values, dtype)
            for _ in range(6):
                np.testing.assert_array_equal(read(F.max(x)), np.max(np.array(values, dtype)))
                np.testing.assert_array_equal(read(F.max(x, axis=0)), np.max(np.array(values, dtype), 0))


def test_a_recorded_call_keeps_what_its_gradient_needs(variables: None):
    x, axes = made_of("variables", [[1, 4, 2], [6, 5, 3]]), (1,)
    often(F.max, x, axis=axes)
    made = inlined("variables", F.max, x, axes, False)
    floats, (of_result, places), random_state = made.value.extra
    assert floats is None and of_result is None and random_state is None
    np.testing.assert_array_equal(nn.NdArray.over(places, (2,)).data, [1, 0])
    x.grad.zero()
    made.backward(nn.NdArray.from_numpy_array(np.array([10, 20], np.float32)))
    np.testing.assert_array_equal(x.g, [[0, 10, 0], [20, 0, 0]])
    assert made.value.parent.auxiliary == [None, places]


def test_what_is_kept_is_not_given_to_later_calls(variables: None):
    rng = np.random.default_rng(0)
    given = [made_of("variables", rng.permutation(24).reshape(4, 6)) for _ in range(20)]
    for _ in range(3):
        made = [F.max(x, axis=1) for x in given]
        for x, y in zip(given, made, strict=True):
            np.testing.assert_array_equal(y.d, x.d.max(1))
            x.grad.zero()
            y.backward()
            np.testing.assert_array_equal(x.g, x.d == x.d.max(1, keepdims=True))
        del made, y


def test_pooling_and_its_gradient_are_right_again_and_again(variables: None):
    x = made_of("variables", np.random.default_rng(2).permutation(2 * 4 * 6).reshape(1, 2, 4, 6))
    windows = x.d.reshape(1, 2, 2, 2, 3, 2).max((3, 5))
    for _ in range(6):
        y = F.max_pooling(x, kernel=(2, 2))
        x.grad.zero()
        y.backward()
        np.testing.assert_array_equal(y.d, windows)
        np.testing.assert_array_equal(x.g, np.isin(x.d, windows))


def test_cross_entropy_of_whole_labels_is_made_natively(kind: str):
    x, labels = made_of(kind, [[1, 2, 0.5], [0, -1, 3]]), made_of(kind, [[1], [0]], np.int64)
    axis = 1
    often(F.softmax_cross_entropy, x, labels, axis=axis)
    made = inlined(kind, F.softmax_cross_entropy, x, labels, axis)
    scores = read(x).astype(np.float64)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(read(made), -np.log([[p[0, 1]], [p[1, 0]]]), rtol=1e-6)
    if kind == "variables":
        x.grad.zero()
        made.backward()
        np.testing.assert_allclose(x.g, p - [[0, 1, 0], [1, 0, 0]], rtol=1e-5)


def test_a_call_that_fails_keeps_nothing(kind: str):
    x, labels = made_of(kind, [[1, 2, 0.5], [0, -1, 3]]), made_of(kind, [[1], [0]], np.int64)
    axis = 1
    often(F.softmax_cross_entropy, x, labels, axis=axis)
    wrong = made_of(kind, [[1], [3]], np.int64)
    assert inlined(kind, F.softmax_cross_entropy, x, wrong, axis) is None
    held = [x, wrong] if kind == "arrays" else [x.value, wrong.value]
    counts = [sys.getrefcount(each) for each in held]
    for _ in range(10):
        assert inlined(kind, F.softmax_cross_entropy, x, wrong, axis) is None
        with pytest.raises((IndexError, ValueError)):
            F.softmax_cross_entropy(x, wrong, axis=axis)
    gc.collect()  # frames of the errors
    assert [sys.getrefcount(each) for each in held] == counts


def test_nothing_refers_to_results_that_are_gone(kind: str):
    x, axes = made_of(kind, VALUES), (1,)
    often(F.max, x, axis=axes)
    made = [inlined(kind, F.max, x, axes, False) for _ in range(100)]
    held = [x, x.cell, x.cell.storage] if kind == "arrays" else [x, x.value, x.data.cell]
    counts = [sys.getrefcount(each) for each in held]
    if kind == "variables":
        kept = [each.value.extra[1][1] for each in made]
        assert len(set(map(id, kept))) == 100
        del kept
    made.clear()
    used = [sys.getrefcount(each) for each in held]
    for _ in range(100):
        inlined(kind, F.max, x, axes, False)
    assert [sys.getrefcount(each) for each in held] == used
    assert all(after <= before for after, before in zip(used, counts, strict=True))


def test_a_device_keeps_auxiliary_outputs_too(kind: str, monkeypatch: pytest.MonkeyPatch):
    sim = pytest.importorskip("atled_sim")
    monkeypatch.setattr(inline_cache, "_PATIENCE", 0)
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")):
        x, axes = made_of(kind, VALUES) * 1.0, (1,)
        often(F.max, x, axis=axes)
        made = inlined(kind, F.max, x, axes, False)
        assert "SimArray" in repr((made if kind == "arrays" else made.data).cell.place)
        np.testing.assert_array_equal(read(made), [np.inf, 7, -2])
        if kind == "variables":
            np.testing.assert_array_equal(nn.NdArray.over(made.value.extra[1][1], (3,)).data, [2, 1, 2])
        often(F.max, x, axis=axes)  # spares that were not read on the host
        held = [x, x.cell.storage] if kind == "arrays" else [x, x.value]
        counts = [sys.getrefcount(each) for each in held]
        with sim.faults.fail("launch"), pytest.raises(sim.SimFault):
            inlined(kind, F.max, x, axes, False)
        gc.collect()  # frames of the error
        assert [sys.getrefcount(each) for each in held] == counts
