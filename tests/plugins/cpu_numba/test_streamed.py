"""Formulas that write past the caches compute what the others do, and leave no byte beyond their arrays changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_cpu_numba import elementwise

CPU = nn.Context("cpu:float", fallback="raise")


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """All arrays are taken to be large; per kernel whether it was written so."""
    from atled.graph.compile.plans import PLANS

    asked: list[bool] = []
    kernel = elementwise._kernel

    def noted(*arguments: object, ranges: bool = False, streamed: bool = False) -> object:
        asked.append(streamed)
        return kernel(*arguments, ranges=ranges, streamed=streamed)

    monkeypatch.setattr(elementwise, "_STREAMED_BYTES", 0)
    monkeypatch.setattr(elementwise, "_kernel", noted)
    PLANS.clear()
    yield asked
    PLANS.clear()


@pytest.mark.parametrize("size", [1, 15, 16, 17, 511, 512, 513, 5000])
@pytest.mark.parametrize("context", ["cpu:float", "cpu:half", "cpu:double"])
def test_chains_and_their_gradients_are_the_same(streamed: list[bool], size: int, context: str) -> None:
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal(size) for _ in range(3)]
    results = []
    for name in (context, "reference:double"):
        with nn.context_scope(nn.Context(name)):
            a, b, c = (nn.Variable.from_numpy_array(array.astype(np.float32), need_grad=True) for array in arrays)
            y = F.tanh(a * b + c) * F.sigmoid(c)
            y.forward()
            for v in (a, b, c):
                v.grad.zero()
            y.backward()
            results.append([np.asarray(value, np.float64) for value in (y.d, a.g, b.g, c.g)])
    assert any(streamed)
    tolerance = 5e-3 if context == "cpu:half" else 2e-6
    for ours, exact in zip(*results, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=tolerance, atol=tolerance)


def test_what_is_written_in_place_is_right(streamed: list[bool]) -> None:
    with nn.context_scope(CPU):
        x = nn.NdArray.from_numpy_array(np.arange(1000, dtype=np.float32))
        x += 1
        np.testing.assert_array_equal(x.data, np.arange(1, 1001))
    assert any(streamed)


def test_whole_numbers_and_conditions_are_written_too(streamed: list[bool]) -> None:
    with nn.context_scope(CPU):
        x = nn.NdArray.from_numpy_array(np.linspace(-1, 1, 777).astype(np.float32))
        np.testing.assert_array_equal(F.greater_scalar(x, 0.5).data, x.data > 0.5)
    assert any(streamed)


def test_an_array_that_begins_within_a_line_is_written_right(streamed: list[bool]) -> None:
    import ctypes

    from atled.ops.formula import Program, name
    from atled.ops.formula_layout import plan_layout

    program = Program(("x",), (), (("y", name("x")),))
    shape, dtype = (300,), np.dtype(np.float32)
    plan = plan_layout(program, [shape, shape], [dtype, dtype], "float32")
    kernel = elementwise._kernel(program, plan.layout, streamed=True)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(kernel.address())
    source = np.arange(300, dtype=dtype)
    for offset in range(0, 20, 3):
        target = np.full(400, -1, dtype)
        block = np.array(plan.words, np.int64)
        block[list(plan.address_words)] = (source.ctypes.data, target[offset:].ctypes.data)
        for part in range(3):
            assert run(block.ctypes.data, part, 3) == 0
        np.testing.assert_array_equal(target[offset : offset + 300], source)
        assert (target[:offset] == -1).all() and (target[offset + 300 :] == -1).all()
