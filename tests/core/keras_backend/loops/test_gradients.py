"""Gradients through scans, by sequences, first states and captured variables, against finite differences."""

import numpy as np
import pytest

import atled.keras_backend as B


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def variables(*shapes):
    return [B.variable(floats(*shape, seed=n) / 2, dtype="float64") for n, shape in enumerate(shapes)]


def numerical(function, variable):
    """Central differences of a function without inputs, by each element of a variable."""
    values = variable.get_value()
    found = np.zeros_like(values)
    for index in np.ndindex(values.shape):
        sides = []
        for change in (1e-5, -1e-5):
            moved = values.copy()
            moved[index] += change
            B.set_value(variable, moved)
            sides.append(function())
        found[index] = (sides[0] - sides[1]) / 2e-5
    B.set_value(variable, values)
    return found


def check(loss, wanted, atol=1e-7):
    value = B.function([], loss)
    gradients = B.function([], B.gradients(loss, wanted))()
    for each, gradient in zip(wanted, gradients, strict=True):
        expected = numerical(value, each)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=atol)


def test_of_a_recurrence_by_all_that_it_reads(backend):
    x, h0, w, b = variables((4, 2, 3), (2, 3), (3, 3), (3,))
    s, _ = B.scan(lambda r, h: B.sigmoid(r + h.dot(w) + b) * 2.0 - 1.0, h0, sequences=x)
    check(B.sum(s * s), [x, h0, w, b])


def test_through_the_last_row_alone(backend):
    h0, w = variables((3,), (3, 3))
    s, _ = B.scan(lambda h: B.sin(h.dot(w)), h0, n_steps=4)
    check(B.sum(s[-1] * s[-1]), [h0, w])


def test_backwards_over_fewer_rows_than_there_are(cpu):
    x, h0 = variables((5, 2), (2,))
    s, _ = B.scan(lambda r, h: h * r + B.cos(h), h0, n_steps=3, sequences=x, go_backwards=True)
    gradient = B.function([], B.gradients(B.sum(s), x))()
    assert not gradient[:2].any()
    check(B.sum(s), [x, h0])


def test_through_parts_that_are_described_around_the_loop(cpu):
    x, w = variables((3, 2), (2, 2))
    around = B.exp(w)
    s, _ = B.scan(lambda r, h, v: B.sin(h + r.dot(around) + B.sum(v)), np.zeros(2), sequences=x, non_sequences=w * w)
    check(B.sum(s) + B.sum(around), [x, w])


def test_through_updates_of_variables(cpu):
    v, x = variables((2,), (3, 2))
    s, updates = B.scan(lambda r: (r * v, {v: B.sin(v + r)}), sequences=x)
    check(B.sum(s) + B.sum(updates[v] ** 2.0), [x, v])


@pytest.mark.parametrize("reads", ["rows", "last"])
def test_through_a_loop_that_a_condition_ends(backend, reads):
    h0, w = variables((2,), (2, 2))
    s, _ = B.scan(lambda h: (h.dot(w) + h * 2.0, B.until(B.sum(h * h) > 40.0)), h0 + 1.0, n_steps=12)
    assert 2 < B.function([], s.shape[0])() < 12
    check(B.sum(B.sin(s)) if reads == "rows" else B.sum(B.sin(s[-1])), [h0, w], atol=1e-6)


def test_through_scans_within_scans(backend):
    x, w = variables((3, 4), ())

    def outer(row, before):
        inner, _ = B.scan(lambda a, t: B.sin(t * w + a), B.sum(before), sequences=row)
        return inner

    s, _ = B.scan(outer, np.zeros(4), sequences=x)
    check(B.sum(s * s), [x, w])


def test_through_branches_within_a_step(cpu):
    x, w = variables((6,), ())
    s, _ = B.scan(lambda a, t: B.ifelse(a > 0.0, B.sin(t * w + a), t * a), np.ones(()), sequences=x)
    check(B.sum(s), [x, w])


def test_of_second_order(backend):
    h0, w = variables((2,), (2, 2))
    s, _ = B.scan(lambda h: B.sin(h.dot(w)), h0, n_steps=3)
    first = B.gradients(B.sum(s[-1]), w)
    check(B.sum(first * first), [h0, w])


def test_of_second_order_through_a_condition(cpu):
    (w,) = variables((2,))
    s, _ = B.scan(lambda h: (B.sin(h) + h * w, B.until(B.sum(h) > 4.0)), np.ones(2), n_steps=9)
    first = B.gradients(B.sum(s), w)
    check(B.sum(first * first), [w], atol=1e-5)


def test_within_a_step_with_respect_to_states_and_what_is_around(cpu):
    """Gradient descent as a loop, whose steps are differentiated once more."""
    x0, w = variables((3,), (3, 3))
    around = w.dot(w.T)

    def loss_of(x):
        return B.sum(B.sin(x.dot(around))) + B.sum(x * x)

    s, _ = B.scan(lambda x: x - B.gradients(loss_of(x), x) * 0.1, x0, n_steps=4)
    x, a = x0.get_value(), w.get_value() @ w.get_value().T
    for _ in range(4):
        x = x - 0.1 * (np.cos(x @ a) @ a.T + 2 * x)
    np.testing.assert_allclose(B.function([], s[-1])(), x)
    check(B.sum(s[-1]), [x0, w])
    t, _ = B.scan(lambda x: x + B.sum(B.gradients(loss_of(x), w)), x0, n_steps=2)
    x, v = x0.get_value(), w.get_value()
    for _ in range(2):
        ga = np.outer(x, np.cos(x @ a))
        x = x + ((ga + ga.T) @ v).sum()
    np.testing.assert_allclose(B.function([], t[-1])(), x)


def test_stop_where_stop_gradient_is(cpu):
    h0, w = variables((2,), (2,))
    s, _ = B.scan(lambda h: B.stop_gradient(h) * w, h0, n_steps=3)
    with pytest.raises(ValueError, match="through stop_gradient alone"):
        B.gradients(B.sum(s), h0)
    found = B.function([], B.gradients(B.sum(s[-1]), w))()
    np.testing.assert_allclose(found, h0.get_value() * w.get_value() ** 2)


def test_do_not_reach_what_only_other_outputs_depend_on(cpu):
    a, b = variables((2,), (2,))
    (s, _), _ = B.scan(lambda h, k: [h * 2.0, k * 3.0], [a, b], n_steps=2)
    with pytest.raises(ValueError, match="with respect to"):
        B.gradients(B.sum(s), b)
