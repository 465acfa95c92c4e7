"""Gradients of a weight that is used several times."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.compile.plans import PLANS
from atled.graph.nodes import product_sums


@pytest.fixture(autouse=True)
def reference():
    with nn.context_scope(nn.Context(["reference:double"])):
        yield


def leaf(*shape):
    rng = np.random.default_rng(sum(shape))
    return nn.Variable.from_numpy_array(rng.standard_normal(shape), need_grad=True)


def uses(w, rows, count=3):
    """The weight, as often, on rows that differ; their sum of squares, and the inputs."""
    xs = [leaf(rows, w.shape[0]) for _ in range(count)]
    for number, x in enumerate(xs):
        x.d = x.d + number
    ys = [F.affine(x, w) for x in xs]
    return sum(F.sum(y * y) for y in ys), xs


def products(loss):
    """Counts of the products that make gradients of weights, by the rows that they sum over."""
    with nn.trace() as trace:
        loss.backward()
    return sum(row.calls for row in trace.rows() if row.op == "BatchMatmul")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def gradient(w, loss):
    w.g = 0
    loss.forward()
    loss.backward()
    return w.g.copy()


def test_short_products_become_one():
    w = leaf(8, 9)
    loss, xs = uses(w, rows=2)
    expected = sum(2 * x.d.T @ (x.d @ w.d) for x in xs)
    close(gradient(w, loss), expected)
    for x in xs:
        x.need_grad = False
    loss.forward()
    assert products(loss) == 1


def test_products_are_added_where_their_backend_joins_no_arrays(monkeypatch):
    monkeypatch.setattr(product_sums, "backend_for", lambda *call: None)
    PLANS.clear()
    w = leaf(8, 9)
    loss, xs = uses(w, rows=2)
    close(gradient(w, loss), sum(2 * x.d.T @ (x.d @ w.d) for x in xs))
    for x in xs:
        x.need_grad = False
    loss.forward()
    assert products(loss) == 3
    PLANS.clear()


def test_long_products_are_added():
    w = leaf(2, 3)
    loss, xs = uses(w, rows=20)
    expected = sum(2 * x.d.T @ (x.d @ w.d) for x in xs)
    close(gradient(w, loss), expected)
    for x in xs:
        x.need_grad = False
    loss.forward()
    assert products(loss) == 3


def test_other_gradients_of_the_weight_are_added():
    w = leaf(8, 9)
    loss, xs = uses(w, rows=2)
    loss = loss + F.sum(w * w)
    expected = sum(2 * x.d.T @ (x.d @ w.d) for x in xs) + 2 * w.d
    close(gradient(w, loss), expected)


def test_products_that_arrive_at_a_computed_weight_are_handed_on():
    v = leaf(8, 9)
    loss, xs = uses(F.tanh(v), rows=2)
    w = np.tanh(v.d)
    expected = sum(2 * x.d.T @ (x.d @ w) for x in xs) * (1 - w * w)
    close(gradient(v, loss), expected)


def test_reshaped_weights_of_different_widths_are_not_joined():
    w = leaf(6, 6)
    a, b = leaf(2, 6), leaf(2, 4)
    b_wide = F.reshape(w, (4, 9), inplace=False)
    loss = F.sum(F.affine(a, w)) + F.sum(F.affine(b, b_wide))
    expected = a.d.sum(0)[:, None] + np.zeros((6, 6)) + (b.d.sum(0)[:, None] + np.zeros((4, 9))).reshape(6, 6)
    close(gradient(w, loss), expected)


def test_gradients_of_gradients_go_through_joined_products():
    w = leaf(8, 9)
    loss, xs = uses(w, rows=2)
    (gw,) = nn.grad([loss], [w])
    second = F.sum(gw * gw)
    gw_values = sum(2 * x.d.T @ (x.d @ w.d) for x in xs)
    expected = sum(2 * x.d.T @ (x.d @ (2 * gw_values)) for x in xs)
    close(gradient(w, second), expected)
