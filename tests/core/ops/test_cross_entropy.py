"""Cross entropies: clipping, extreme scores, wrong labels."""

import numpy as np
import pytest

LIMIT = -np.log(np.finfo(np.float32).tiny)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_loss_of_a_hopeless_label_is_clipped(reference, dtype):
    y, p = reference("SoftmaxCrossEntropy", np.array([[1e4, 0.0]], dtype), np.array([[1]]))
    np.testing.assert_allclose(y, [[LIMIT]], rtol=1e-6)
    assert p.tolist() == [[1.0, 0.0]]


def test_softmax_loss_keeps_its_digits_where_the_probability_is_almost_one(reference):
    y, _ = reference("SoftmaxCrossEntropy", np.array([[0.0, -50.0]]), np.array([[0]]))
    assert 0 <= y[0, 0] < 1e-20


def test_softmax_loss_is_that_of_the_formula(reference):
    x = np.random.default_rng(0).standard_normal((3, 5, 2))
    target = np.array([[[0, 4]], [[2, 2]], [[1, 3]]])
    y, p = reference("SoftmaxCrossEntropy", x, target, axis=1)
    np.testing.assert_allclose(p, np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(y, -np.log(np.take_along_axis(p, target, axis=1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_categorical_loss_of_probability_zero_is_clipped(reference, dtype):
    y = reference("CategoricalCrossEntropy", np.array([[0.0, 1.0]], dtype), np.array([[0]]))
    np.testing.assert_allclose(y, [[LIMIT]], rtol=1e-6)


@pytest.mark.parametrize("op", ["SoftmaxCrossEntropy", "CategoricalCrossEntropy", "TopNError", "ConfusionMatrix"])
@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_out_of_range_is_named(reference, op, label):
    with pytest.raises(IndexError, match=rf"target\[1, 0\] is {label}, out of range[\s\S]*use 0 to 3"):
        reference(op, np.full((2, 4), 0.25), np.array([[0], [label]]))
