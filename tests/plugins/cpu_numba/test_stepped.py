"""A formula that runs step by step computes what its kernel computes, called once for each step."""

from __future__ import annotations

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Call, Native, call_form, op_spec
from atled_cpu_numba import elementwise, pool
from atled_cpu_numba.stepped import MOST_ELEMENTS


def native_of(op: str, *shapes: tuple[int, ...], dtype: type = np.float32) -> Native:
    spec = op_spec(op)
    inputs = tuple(ArrayDesc(shape, dtype) for shape in shapes)
    prepared = elementwise.prepare(Call(spec, inputs, tuple(spec.infer_outputs(inputs, {})), {}))
    assert prepared.native is not None
    return prepared.native


def run(native: Native, *arrays: np.ndarray, **floats: float) -> None:
    names = list(native.attributes)
    form = call_form(native.address, 1, native.block, native.arguments, [native.attributes[name] for name in names])
    addresses = [array.ctypes.data for array in arrays]
    assert pool.run_call(form.ctypes.data, *addresses, *(floats[name] for name in names)) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 4, 37])
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_go_by_and_a_state_stays(size: int, sign: int, dtype: type) -> None:
    """`s = s - x[k]`, which is kept in its place; the first s is only read."""
    rows: np.ndarray = np.random.default_rng(0).normal(size=(5, size)).astype(dtype)
    first: np.ndarray = np.ones(size, dtype)
    last: np.ndarray = np.zeros(size, dtype)
    native = native_of("Sub2", (size,), (size,), dtype=dtype)
    assert native.steps is not None
    run(native.steps(5, [0, sign * rows[0].nbytes, 0], {0: 0}), first, rows, last)
    expected = first.copy()
    for row in rows[::sign]:
        expected = expected - row
    np.testing.assert_array_equal(last, expected)
    assert (first == 1).all()


def test_outputs_have_rows_and_floats_are_read_when_it_runs() -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((4, 3), np.float32)
    native = native_of("MulScalar", (3,))
    assert native.steps is not None
    stepped = native.steps(4, [12, -12], {})
    for factor in (2.0, -0.5):
        run(stepped, x, y, val=factor)
        np.testing.assert_array_equal(y, factor * x[::-1])


def test_no_step_leaves_the_first_state() -> None:
    first, last = np.full(3, 7, np.float32), np.zeros(3, np.float32)
    native = native_of("Sub2", (3,), (3,))
    assert native.steps is not None
    run(native.steps(0, [0, 12, 0], {0: 0}), first, first, last)
    np.testing.assert_array_equal(last, first)


def test_many_elements_and_outer_axes_are_launched_one_by_one() -> None:
    assert native_of("Sub2", (MOST_ELEMENTS + 1,), (MOST_ELEMENTS + 1,)).steps is None
    assert native_of("Sub2", (2, 3), (2, 1)).steps is None
    assert native_of("Sub2", (2, 3), (2, 3)).steps is not None
