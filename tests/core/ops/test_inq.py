"""Incremental quantization: which weights are fixed at which forward, to what, and that they stay."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")

W = np.array([[0.1, 0.9], [-0.5, 0.3], [0.02, -1.3], [0.7, -0.0625]])


def leaf(values, need_grad=True):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def layer(w=W, indicator=None, **attributes):
    """y of an affine layer on the identity, its weight, its indicator."""
    weight = leaf(w)
    fixed = leaf(np.zeros(weight.shape) if indicator is None else indicator, False)
    return F.inq_affine(leaf(np.eye(len(weight.d))), weight, fixed, None, **attributes), weight, fixed


def test_halves_are_fixed_at_the_listed_forwards_and_the_rest_at_the_last():
    y, w, fixed = layer(inq_iterations=(1, 3, 4))
    expected = [
        ([0, 0, 0, 0, 0, 0, 0, 0], [0.1, 0.9, -0.5, 0.3, 0.02, -1.3, 0.7, -0.0625]),
        ([0, 1, 1, 0, 0, 1, 1, 0], [0.111, 1, -0.5, 0.331, 0.023, -1, 1, -0.06775]),
        ([0, 1, 1, 0, 0, 1, 1, 0], [0.1231, 1, -0.5, 0.3651, 0.0263, -1, 1, -0.073525]),
        ([1, 1, 1, 1, 0, 1, 1, 0], [0.125, 1, -0.5, 0.5, 0.02993, -1, 1, -0.0798775]),
        ([1, 1, 1, 1, 1, 1, 1, 1], [0.125, 1, -0.5, 0.5, 0, -1, 1, -0.125]),
        ([1, 1, 1, 1, 1, 1, 1, 1], [0.125, 1, -0.5, 0.5, 0, -1, 1, -0.125]),
    ]
    for indicator, weights in expected:
        y.forward()
        assert fixed.d.ravel().tolist() == indicator
        assert_allclose(w.d.ravel(), weights, rtol=1e-5)
        assert_array_equal(y.d, w.d)
        w.d = w.d * 1.1 + 0.001  # what a solver might do: fixed weights come back


def test_without_iterations_nothing_is_fixed():
    y, w, fixed = layer()
    for _ in range(3):
        y.forward()
    assert_array_equal(w.d, np.float32(W))
    assert not fixed.d.any()


@pytest.mark.parametrize(("bits", "powers"), [(2, {0, 1}), (3, {0, 0.5, 1}), (4, {0, 0.125, 0.25, 0.5, 1})])
def test_bits_say_how_many_powers_there_are(bits, powers):
    w = np.linspace(0.001, 1.4, 200).reshape(100, 2)
    y, weight, _ = layer(w, inq_iterations=(0,), num_bits=bits)
    y.forward()
    assert set(weight.d.ravel().tolist()) == powers
    choices = np.array(sorted(powers))
    nearest = choices[np.abs(w[..., np.newaxis] - choices).argmin(axis=-1)]
    assert (weight.d != nearest).sum() <= 1  # a weight in the very middle may go either way


@pytest.mark.parametrize(("count", "half"), [(1, 1), (2, 1), (3, 1), (5, 2), (7, 3)])
def test_half_of_the_free_weights_is_rounded_down_but_not_to_none(count, half):
    y, _, fixed = layer(np.linspace(0.1, 1, count)[:, np.newaxis], inq_iterations=(0, 9))
    y.forward()
    assert fixed.d.ravel().tolist() == [0] * (count - half) + [1] * half


def test_random_selection_fixes_about_half_and_repeats_with_the_seed():
    w = np.linspace(0.1, 1, 1000).reshape(500, 2)
    found = []
    for _ in range(2):
        y, _, fixed = layer(w, inq_iterations=(0, 9), selection_algorithm="random", seed=3)
        y.forward()
        found.append(fixed.d.copy())
    assert_array_equal(*found)
    assert 400 < found[0].sum() < 600  # 6 standard deviations


def test_weights_marked_before_are_fixed_at_the_first_forward():
    y, w, fixed = layer([[0.1], [0.9], [0.3]], [[1], [0], [0]])
    y.forward()
    assert_allclose(w.d.ravel(), [0.125, 0.9, 0.3], rtol=1e-6)
    assert fixed.d.ravel().tolist() == [1, 0, 0]


def test_fixed_weights_come_back_however_far_a_solver_moved_them():
    y, w, _ = layer([[1.0], [0.5], [0.3], [0.0]], [[1], [1], [0], [1]])
    y.forward()
    w.d = [[-3.0], [0.1], [0.2], [0.7]]
    y.forward()
    assert_allclose(w.d.ravel(), [1, 0.5, 0.2, 0], rtol=1e-6)


def test_fixed_weights_follow_the_range_when_free_ones_outgrow_them():
    y, w, _ = layer([[1.0], [0.125], [0.3], [0.2]], [[1], [1], [0], [0]])
    y.forward()
    w.d = [[1.01], [0.12], [2.5], [0.2]]
    y.forward()
    assert_allclose(w.d.ravel(), [1, 0.25, 2.5, 0.2], rtol=1e-6)


def test_what_was_fixed_is_set_back_once_more_when_its_indicator_is_cleared():
    y, w, fixed = layer([[1.0], [0.3]], [[1], [0]])
    y.forward()
    fixed.d = 0
    for expected in (1.0, 1.4):
        w.d = [[1.4], [0.3]]
        y.forward()
        assert_allclose(w.d.ravel(), [expected, 0.3], rtol=1e-6)


def test_each_function_remembers_what_it_fixed_itself():
    y, w, fixed = layer([[1.0], [0.5]], [[1], [1]])
    y.forward()
    w.d = [[2.0], [2.0]]
    other = y.parent(leaf(np.eye(2)), w, fixed)
    other.forward()
    assert_allclose(w.d.ravel(), [2, 2])
    y.forward()
    assert_allclose(w.d.ravel(), [1, 0.5])


def test_the_array_of_its_own_is_no_input_to_the_user():
    y, w, fixed = layer()
    assert y.parent.inputs[1:] == [w, fixed]
    assert "kept" not in F.inq_affine.__code__.co_varnames


def test_gradients_are_those_of_the_plain_layer_with_the_changed_weight():
    x, w, fixed, b = leaf(np.ones((2, 4))), leaf(W), leaf(np.zeros((4, 2)), False), leaf([0, 0])
    y = F.inq_affine(x, w, fixed, b, inq_iterations=(0,))
    y.forward()
    y.backward(np.array([[1, 2], [3, 4]]))
    assert_array_equal(w.g, [[4, 6]] * 4)
    assert_array_equal(b.g, [4, 6])
    assert_allclose(x.g, np.array([[1, 2], [3, 4]]) @ w.d.T)


def test_convolution_fixes_its_kernels():
    rng = np.random.default_rng(0)
    x, w, fixed = (
        leaf(rng.standard_normal((1, 2, 4, 4))),
        leaf(rng.standard_normal((3, 2, 2, 2))),
        leaf(np.zeros((3, 2, 2, 2))),
    )
    y = F.inq_convolution(x, w, fixed, inq_iterations=(0, 2))
    y.forward()
    assert fixed.d.sum() == 12
    mantissa, _ = np.frexp(w.d[fixed.d == 1])
    assert_array_equal(np.abs(mantissa), 0.5)
    plain = F.convolution(x, leaf(w.d.copy()))
    plain.forward()
    assert_allclose(y.d, plain.d, rtol=1e-5, atol=1e-6)


def test_under_half_the_weight_keeps_its_precision(backend):
    with nn.context_scope(nn.Context([f"{backend}:half"], fallback="raise")):
        y, w, _ = layer()
        y.forward()
        y.backward(1)
    assert w.d.dtype == np.float32
    assert_array_equal(w.d, np.float32(W))
    assert_array_equal(w.g, 1)
