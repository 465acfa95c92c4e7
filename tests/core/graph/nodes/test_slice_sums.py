"""The gradient of an array that is cut into parts is one array of theirs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import atled as nn
import atled.functions as F


def gradient_of(pieces: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """That of `sum of (number + 1) x part**2` by the library and by NumPy, and the ops of the backward."""
    array = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    x = nn.Variable.from_numpy_array(array, need_grad=True)
    expected = np.zeros_like(array)
    total = nn.Variable.from_numpy_array(np.zeros((), np.float32))
    for number, (start, stop) in enumerate(pieces):
        total = total + (number + 1) * F.sum(F.slice(x, start=start, stop=stop) ** 2)
        place = tuple(slice(*bounds) for bounds in zip(start, stop, strict=True))
        expected[place] += 2 * (number + 1) * array[place]
    total.forward()
    x.grad.zero()
    with nn.trace() as trace:
        total.backward()
    return x.g.copy(), expected, [row.op for row in trace.rows()]


PARTS = [((0, 0), (4, 2)), ((0, 2), (4, 5)), ((0, 5), (4, 6))]
OTHERS = {
    "a gap": [PARTS[0], PARTS[2]],
    "an overlap": [*PARTS[:2], ((0, 4), (4, 6))],
    "a part twice": [*PARTS, PARTS[1]],
    "two axes": [((0, 0), (4, 3)), ((0, 3), (2, 6)), ((2, 3), (4, 6))],
    "axes that differ": [((0, 0), (4, 2)), ((0, 0), (2, 6))],
}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_parts_that_make_up_the_array_are_put_side_by_side(order: tuple[int, ...]) -> None:
    found, expected, ops = gradient_of([PARTS[number] for number in order])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert any("Concatenate" in op for op in ops)
    assert not any("SliceGrad" in op for op in ops)


def test_parts_of_another_axis() -> None:
    found, expected, ops = gradient_of([((0, 0), (1, 6)), ((1, 0), (4, 6))])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert any("Concatenate" in op for op in ops)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_parts_are_added(kind: str) -> None:
    found, expected, ops = gradient_of(OTHERS[kind])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert any("SliceGrad" in op for op in ops)
