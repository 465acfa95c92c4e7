"""Measures: ties and thresholds."""

import numpy as np
import pytest


@pytest.mark.parametrize(("n", "expected"), [(1, [1, 0, 1]), (2, [0, 0, 1]), (3, [0, 0, 0])])
def test_ties_count_against_the_label(reference, n, expected):
    scores = np.array([[2.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    output = reference("TopNError", scores, np.array([[0], [0], [2]]), n=n)
    assert output.ravel().tolist() == expected


def test_binary_error_counts_one_half_as_true(reference):
    output = reference("BinaryError", np.array([0.5, 0.5, 0.49]), np.array([1.0, 0.0, 0.5]))
    assert output.tolist() == [0.0, 1.0, 1.0]


def test_confusion_matrix_takes_the_first_maximum(reference):
    scores = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 2.0, 1.0]])
    output = reference("ConfusionMatrix", scores, np.array([[1], [1], [2]]))
    assert output.tolist() == [[0, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert output.dtype == np.int32
