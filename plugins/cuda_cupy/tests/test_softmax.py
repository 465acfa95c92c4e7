"""Softmax and losses of labels: every way of sharing a row, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cuda_cupy.kernels import softmax

CLASSES = {1: 5, 3: 7, 10: 9, 33: 4, 130: 3, 1000: 3, 1028: 2, 4100: 2, 8195: 2, 20003: 2}
STRIDED = [(2, 3, 5), (2, 40, 7), (1, 300, 3), (3, 5, 400)]
SHAPES = [((rows, classes), 1) for classes, rows in CLASSES.items()] + [(shape, 1) for shape in STRIDED]


def scores(shape, dtype="float32"):
    return np.random.default_rng(0).normal(0, 5, shape).astype(dtype)


def labels(shape, axis):
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    return np.random.default_rng(1).integers(0, shape[axis], one)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_every_way_of_sharing_a_row(compute, shape, axis):
    x, target = scores(shape), labels(shape, axis)
    y, p = compute(softmax, "prepare_softmax", "SoftmaxCrossEntropy", (x, target), axis=axis)
    loss, exact = op_spec("SoftmaxCrossEntropy").reference(x.astype("float64"), target, axis=axis)
    np.testing.assert_allclose(p, exact, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(y, loss, rtol=1e-5, atol=1e-6)
    assert compute.flag == 0


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("shape", [(3, 10), (3, 1024), (2, 9000), (2, 20000), (2, 9, 5)])
def test_every_dtype(compute, shape, dtype):
    x = scores(shape, dtype)
    (y,) = compute(softmax, "prepare_softmax", "Softmax", (x,), axis=1)
    exact = op_spec("Softmax").reference(x.astype("float64"), axis=1)
    np.testing.assert_allclose(y, exact, rtol=2e-3 if dtype == "float16" else 1e-12, atol=6e-8)


@pytest.mark.parametrize("classes", [9, 1000, 20000])
def test_rows_with_infinities_and_nan(compute, classes):
    x = scores((5, classes))
    x[0, 3] = -np.inf
    x[1] = -np.inf
    x[2, 4] = np.inf
    x[3, 5] = np.nan
    x[4] = -np.inf
    x[4, 7] = 2.0
    (y,) = compute(softmax, "prepare_softmax", "Softmax", (x,))
    with np.errstate(invalid="ignore"):
        exact = op_spec("Softmax").reference(x.astype("float64"), axis=1)
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-9)


def test_arrays_that_begin_between_vectors(compute):
    x = scores((3, 1024))
    (y,) = compute(softmax, "prepare_softmax", "Softmax", (x,), shift=4)
    np.testing.assert_allclose(y, op_spec("Softmax").reference(x.astype("float64"), axis=1), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("shape", "axis"), [((5, 10), 1), ((2, 1000), 1), ((1, 50000), 1), ((2, 30, 7), 1)])
def test_gradient_of_the_loss(compute, shape, axis):
    p, target = np.random.default_rng(2).uniform(0, 1, shape).astype("float32"), labels(shape, axis)
    gy = np.random.default_rng(3).standard_normal(target.shape).astype("float32")
    (gx,) = compute(softmax, "prepare_loss_grad", "SoftmaxCrossEntropyGrad", (gy, p, target), axis=axis)
    exact = op_spec("SoftmaxCrossEntropyGrad").reference(gy, p, target, axis=axis)
    np.testing.assert_allclose(gx, exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "prepare"),
    [
        ("SoftmaxCrossEntropy", "prepare_softmax"),
        ("SoftmaxCrossEntropyGrad", "prepare_loss_grad"),
        ("CategoricalCrossEntropy", "prepare_categorical"),
        ("CategoricalCrossEntropyGrad", "prepare_categorical"),
    ],
)
@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_a_label_out_of_range_fails(compute, op, prepare, label):
    x, target, gy = np.full((2, 4), 0.25, "float32"), np.array([[1], [label]]), np.ones((2, 1), "float32")
    compute(softmax, prepare, op, (*([gy] if op.endswith("Grad") else []), x, target))
    assert compute.flag == 7
