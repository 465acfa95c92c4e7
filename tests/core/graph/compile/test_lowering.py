"""From graphs to plans: which arrays the results of a plan are."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F


@pytest.fixture(autouse=True)
def reference():
    with nn.context_scope(nn.Context(["reference:float"])):
        yield


def leaf(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype("f")
    return nn.Variable.from_numpy_array(values, need_grad=True)


def backward(loss, *leaves):
    """Counts of the ops that the second backward runs; the first one may still allocate."""
    loss.forward()
    for _ in range(2):
        for v in leaves:
            v.grad.zero()
        with nn.trace() as trace:
            loss.backward()
    return {row.op: row.calls for row in trace.rows()}


def test_a_reshaped_gradient_is_not_copied():
    x, w = leaf(4, 6), leaf(6, 2, 3)
    ran = backward(F.sum(F.affine(x, w) ** 2), x, w)
    assert "Identity" not in ran
    y = x.d @ w.d.reshape(6, 6)
    np.testing.assert_allclose(w.g, (x.d.T @ (2 * y)).reshape(6, 2, 3), rtol=1e-4, atol=1e-5)


def test_leaves_with_one_gradient_in_two_shapes_have_arrays_of_their_own():
    a, b, c = leaf(2, 3), leaf(6), leaf(3, 2)
    flat = [F.reshape(v, (6,), inplace=False) for v in (a, c)]
    backward(F.sum((flat[0] + b + flat[1]) ** 2), a, b, c)
    expected = 2 * (a.d.ravel() + b.d + c.d.ravel())
    a.g += 1
    c.g -= 1
    np.testing.assert_allclose(b.g, expected, rtol=1e-5)
    np.testing.assert_allclose(a.g.ravel(), expected + 1, rtol=1e-5)
    np.testing.assert_allclose(c.g.ravel(), expected - 1, rtol=1e-5)
