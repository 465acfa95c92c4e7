"""The k largest elements: which, in what order, and what gradient they get."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F

X = np.array([[3, -5, 1, 3.5, 2], [0.5, -0.5, 0.25, -9, 4]])


def leaf(values):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=True)


def test_values_come_in_descending_order(reference):
    y, index = reference("TopKData", X, k=2)
    assert y.tolist() == [[3.5, 3], [4, 0.5]]
    assert index.tolist() == [[3, 0], [9, 5]]


def test_magnitudes_choose_but_values_keep_their_sign(reference):
    y, _ = reference("TopKData", X, k=3, abs=True)
    assert y.tolist() == [[-5, 3.5, 3], [-9, 4, 0.5]]


def test_without_reduce_the_others_are_0(reference):
    y, _ = reference("TopKData", X, k=2, abs=True, reduce=False)
    assert y.tolist() == [[0, -5, 0, 3.5, 0], [0, 0, 0, -9, 4]]


def test_of_equal_elements_the_first_is_chosen(reference):
    _, index = reference("TopKData", np.array([[1.0, 2, 2, -2]]), k=2)
    assert index.tolist() == [[1, 2]]
    _, index = reference("TopKData", np.array([[1.0, -2, 2, -2]]), k=2, abs=True)
    assert index.tolist() == [[1, 2]]


@pytest.mark.parametrize(("base_axis", "shape"), [(0, (2,)), (1, (2, 2)), (2, (2, 3, 2)), (-2, (2, 2))])
def test_a_sample_is_everything_from_base_axis_on(reference, base_axis, shape):
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    axis = base_axis % 3
    y, _ = reference("TopKData", x, k=2, base_axis=base_axis)
    assert_array_equal(y, np.sort(x.reshape(*x.shape[:axis], -1))[..., :-3:-1])
    assert y.shape == shape


@pytest.mark.usefixtures("backend")
class TestGradients:
    """What backward sends to x."""

    def test_with_reduce_it_goes_to_the_chosen_elements(self):
        x = leaf(X)
        y = F.top_k_data(x, 2)
        y.forward()
        y.backward(np.array([[1, 2], [3, 4]]))
        assert x.g.tolist() == [[2, 0, 0, 1, 0], [4, 0, 0, 0, 3]]

    def test_without_reduce_it_goes_to_all(self):
        x = leaf(X)
        y = F.top_k_data(x, 2, reduce=False)
        y.forward()
        y.backward(np.arange(10).reshape(2, 5))
        assert_array_equal(x.g, np.arange(10).reshape(2, 5))

    def test_top_k_grad_keeps_the_largest_gradients(self):
        x = leaf(X)
        for attributes, expected in (
            ({"k": 2}, [[0, 0, 3, 4, 0], [2, 1.5, 0, 0, 0]]),
            ({"k": 2, "abs": True}, [[0, -5, 0, 4, 0], [2, 0, 0, 0, -4]]),
            ({"k": 3, "base_axis": 0}, [[0, 0, 3, 4, 0], [2, 0, 0, 0, 0]]),
        ):
            y = F.top_k_grad(x, **attributes)
            y.forward()
            assert_array_equal(y.d, X.astype(np.float32))
            x.grad.zero()
            y.backward(np.array([[1, -5, 3, 4, 1.25], [2, 1.5, 0.5, 1, -4]]))
            assert x.g.tolist() == expected
