"""Ops that move elements: against NumPy."""

import numpy as np
import pytest

X = np.arange(24.0).reshape(2, 3, 4)


def test_pad_widths_belong_to_the_trailing_axes(reference):
    y = reference("Pad", X, pad_width=(1, 0, 2, 3), constant_value=7.0)
    np.testing.assert_array_equal(y, np.pad(X, [(0, 0), (1, 0), (2, 3)], constant_values=7))


def test_reflected_padding_does_not_repeat_the_border(reference):
    assert reference("Pad", np.arange(4.0), pad_width=(3, 2), mode="reflect").tolist() == [3, 2, 1, 0, 1, 2, 3, 2, 1]


@pytest.mark.parametrize(
    ("axis", "part", "expected"),
    [
        (-1, np.arange(4.0), np.broadcast_to(np.arange(4.0), X.shape)),
        (1, np.arange(3.0), np.broadcast_to(np.arange(3.0)[:, None], X.shape)),
        (0, np.ones((2, 3)), np.ones(X.shape)),
    ],
)
def test_broadcast_to_starts_at_axis(reference, axis, part, expected):
    np.testing.assert_array_equal(reference("BroadcastTo", X, part, axis=axis), expected)


def test_split_undoes_stack(reference):
    parts = reference("Split", X, axis=1)
    assert len(parts) == 3
    np.testing.assert_array_equal(reference("Stack", *parts, axis=1), X)


def test_diagonal_part_undoes_diagonal(reference):
    np.testing.assert_array_equal(reference("MatrixDiagPart", reference("MatrixDiag", X)), X)


def test_beside_a_diagonal_are_zeros_whatever_is_on_it(reference):
    y = reference("MatrixDiag", np.array([np.nan, np.inf, 1.0]))
    np.testing.assert_array_equal(y, [[np.nan, 0, 0], [0, np.inf, 0], [0, 0, 1]])


@pytest.mark.parametrize(("shape", "result"), [((-1, 4), (6, 4)), ((2, -1), (2, 12)), ((24,), (24,))])
def test_reshape_fills_in_minus_one(reference, shape, result):
    assert reference("Reshape", X, shape=shape).shape == result


@pytest.mark.parametrize("op", ["Identity", "Unlink"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, np.bool_])
def test_the_dtype_passes_through(reference, op, dtype):
    x = np.array([0, 1, 1]).astype(dtype)
    np.testing.assert_array_equal(reference(op, x), x, strict=True)
