"""Results that a reader of the function's name could expect otherwise; the values are those of NNabla."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32))


SQUARE = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
ODD = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
SCORES = [[1, 2, 2], [3, 1, 0], [5, 5, 5]]
LABELS = [[1], [0], [2]]

FACTS = {
    "sign is alpha at 0": (lambda: F.sign(leaf([-2, 0, 3]), 0.25), [-1, 0.25, 1]),
    "sign is 0 at 0 by default": (lambda: F.sign(leaf([-2, 0, 3])), [-1, 0, 1]),
    "round goes away from zero": (lambda: F.round(leaf([-1.5, -0.5, 0.5, 1.5, 2.5])), [-2, -1, 1, 2, 3]),
    "binary_tanh is -1 at 0": (lambda: F.binary_tanh(leaf([-1, 0, 1])), [-1, -1, 1]),
    "binary_sigmoid is 0 at 0": (lambda: F.binary_sigmoid(leaf([-1, 0, 1])), [0, 0, 1]),
    "logical_xor is an exclusive or": (lambda: F.logical_xor(leaf([0, 0, 2, 2]), leaf([0, 3, 0, 3])), [0, 1, 1, 0]),
    "logical_xor_scalar too": (lambda: F.logical_xor_scalar(leaf([0, 2]), True), [1, 0]),
    "comparisons are 0 or 1": (lambda: F.greater(leaf([1, 2]), leaf([2, 1])), [0, 1]),
    "r_sub_scalar subtracts from the number": (lambda: F.r_sub_scalar(leaf([1]), 5), [4]),
    "leaky_relu has slope 0.1": (lambda: F.leaky_relu(leaf([-1, 0, 2])), [-0.1, 0, 2]),
    "elu is negative below 0": (lambda: F.elu(leaf([-1, 0, 1]), 2), [-1.2642411, 0, 1]),
    "selu has its own scale": (lambda: F.selu(leaf([-1, 0, 1])), [-1.1113307, 0, 1.050701]),
    "swish": (lambda: F.swish(leaf([-1, 0, 1])), [-0.2689414, 0, 0.7310586]),
    "epsilon_insensitive_loss": (lambda: F.epsilon_insensitive_loss(leaf([0, 1, 3]), leaf([0, 0, 0]), 1), [0, 0, 2]),
    "binary_cross_entropy clips": (lambda: F.binary_cross_entropy(leaf([0, 1]), leaf([1, 0])), [87.33655, 87.33655]),
    "categorical_cross_entropy clips": (lambda: F.categorical_cross_entropy(leaf([[0, 1]]), leaf([[0]])), [[87.33655]]),
    "softmax_cross_entropy keeps the axis": (
        lambda: F.softmax_cross_entropy(leaf([[0, 0], [0, 0]]), leaf([[0], [1]])),
        [[0.6931472], [0.6931472]],
    ),
    "top_n_error counts ties against": (lambda: F.top_n_error(leaf(SCORES), leaf(LABELS)), [[1], [0], [1]]),
    "top_n_error of two": (lambda: F.top_n_error(leaf(SCORES), leaf(LABELS), n=2), [[0], [0], [1]]),
    "binary_error": (lambda: F.binary_error(leaf([[0.5, 0.4, 0.6]]), leaf([[1, 1, 0]])), [[0, 1, 1]]),
    "confusion_matrix counts the first maximum": (
        lambda: F.confusion_matrix(leaf(SCORES), leaf(LABELS)),
        [[1, 0, 0], [0, 1, 0], [1, 0, 0]],
    ),
    "embed truncates": (lambda: F.embed(leaf([1.9, 0]), leaf([[1, 2], [3, 4]])), [[3, 4], [1, 2]]),
    "one_hot of pairs": (lambda: F.one_hot(leaf([[1, 0]]), (2, 3)), [[[0, 0, 0], [1, 0, 0]]]),
    "broadcast_to aligns to the last axes": (
        lambda: F.broadcast_to(leaf(np.zeros((2, 3))), leaf([1, 2, 3])),
        [[1, 2, 3], [1, 2, 3]],
    ),
    "broadcast_to from an axis": (
        lambda: F.broadcast_to(leaf(np.zeros((2, 3))), leaf([1, 2]), 0),
        [[1, 1, 1], [2, 2, 2]],
    ),
    "pad is for the last axes": (lambda: F.pad(leaf([[1, 2]]), (1, 0), "constant", 5), [[5, 1, 2]]),
    "slice counts from the end": (
        lambda: F.slice(leaf(np.arange(12).reshape(3, 4)), (0, -3), (2, -1), (1, 1)),
        [[1, 2], [5, 6]],
    ),
    "flip is for the last axis": (lambda: F.flip(leaf([[0, 1], [2, 3]])), [[1, 0], [3, 2]]),
    "concatenate is for the last axis": (lambda: F.concatenate(leaf([[1], [2]]), leaf([[3], [4]])), [[1, 3], [2, 4]]),
    "stack is for the first axis": (lambda: F.stack(leaf([1, 2]), leaf([3, 4])), [[1, 2], [3, 4]]),
    "a full sum has no axes": (lambda: F.sum(leaf([[1, 2], [3, 4]])), 10),
    "log is not clipped": (lambda: F.log(leaf([0])), [-np.inf]),
    "pooling drops the border": (lambda: F.max_pooling(leaf(ODD), (2, 2)), [[[[7, 9], [17, 19]]]]),
    "pooling keeps the border if asked": (
        lambda: F.max_pooling(leaf(ODD), (2, 2), ignore_border=False),
        [[[[7, 9, 10], [17, 19, 20], [22, 24, 25]]]],
    ),
    "max_pooling does not see the padding": (
        lambda: F.max_pooling(leaf(-SQUARE), (3, 3), (2, 2), True, (1, 1)),
        [[[[-1, -2], [-5, -6]]]],
    ),
    "average_pooling counts the padding": (
        lambda: F.average_pooling(leaf(SQUARE), (3, 3), (2, 2), True, (1, 1)),
        [[[[14 / 9, 30 / 9], [57 / 9, 11]]]],
    ),
    "average_pooling without the padding": (
        lambda: F.average_pooling(leaf(SQUARE), (3, 3), (2, 2), True, (1, 1), including_pad=False),
        [[[[3.5, 5], [9.5, 11]]]],
    ),
    "convolution pads, strides and adds the bias": (
        lambda: F.convolution(leaf(SQUARE - 1), leaf(np.ones((1, 1, 3, 3))), leaf([1]), 1, (1, 1), (2, 2)),
        [[[[11, 25], [52, 91]]]],
    ),
    "batch_matmul transposes": (
        lambda: F.batch_matmul(leaf([[[0, 1], [2, 3]]]), leaf([[[0, 1], [2, 3]]]), True, False),
        [[[4, 6], [6, 10]]],
    ),
}  # fmt: skip  # a table


@pytest.mark.parametrize(("call", "expected"), FACTS.values(), ids=FACTS)
def test_fact(call, expected):
    y = call()
    y.forward()
    assert y.shape == np.shape(expected)
    assert_allclose(y.d, expected, rtol=1e-6)


def test_confusion_matrix_counts_in_int32():
    y = F.confusion_matrix(leaf(SCORES), leaf(LABELS))
    y.forward()
    assert y.d.dtype == np.int32


def test_reduce_is_sum_or_mean_of_everything():
    x = nn.Variable.from_numpy_array(np.arange(6, dtype=np.float32).reshape(2, 3), need_grad=True)
    for made, expected in ((F.reduce(x), 15), (F.reduce(x, "mean"), 2.5)):
        made.forward()
        assert made.shape == () and made.d == expected
    with pytest.raises(ValueError, match="known: sum, mean"):
        F.reduce(x, op="prod")
