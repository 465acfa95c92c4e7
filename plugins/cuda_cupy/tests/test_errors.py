"""Measures of predictions, for rows of every length."""

from __future__ import annotations

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cuda_cupy.kernels import errors

SHAPES = [((40, 5), 1), ((4, 700), 1), ((2, 9000), 1), ((3, 6, 10), 1)]


def case(shape, axis):
    rng = np.random.default_rng(0)
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    return rng.integers(0, 4, shape).astype("float32"), rng.integers(0, shape[axis], one)


@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_top_n_error(compute, shape, axis, n):
    x, target = case(shape, axis)
    (y,) = compute(errors, "prepare_by_label", "TopNError", (x, target), axis=axis, n=n)
    np.testing.assert_array_equal(y, op_spec("TopNError").reference(x, target, axis=axis, n=n))


@pytest.mark.parametrize(("shape", "axis"), [SHAPES[0], SHAPES[1], SHAPES[3]])
def test_confusion_matrix(compute, shape, axis):
    x, target = case(shape, axis)
    x.reshape(-1)[[3, 8]] = np.nan
    (y,) = compute(errors, "prepare_by_label", "ConfusionMatrix", (x, target), axis=axis)
    np.testing.assert_array_equal(y, op_spec("ConfusionMatrix").reference(x, target, axis=axis))


@pytest.mark.parametrize("op", ["TopNError", "ConfusionMatrix"])
def test_a_label_out_of_range_fails(compute, op):
    compute(errors, "prepare_by_label", op, (np.ones((2, 3), "float32"), np.array([[0], [3]])))
    assert compute.flag == 7
