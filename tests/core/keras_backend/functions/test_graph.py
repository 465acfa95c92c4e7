"""Gradients of any order, what stops them, and branches of which one is computed."""

import numpy as np
import pytest

import atled.keras_backend as B
from atled_contexts import Context, context_scope


@pytest.fixture
def random():
    return np.random.default_rng(0)


def value(expression, *pairs):
    """The value of an expression, for placeholders and what they hold."""
    inputs, values = zip(*pairs, strict=True) if pairs else ((), ())
    return B.function(list(inputs), expression)(*values)


def numeric(f, at, step=1e-6):
    """The gradient of a number by central differences."""
    found = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[index] = step
        found[index] = (f(at + move) - f(at - move)) / (2 * step)
    return found


def double(values, name=None):
    return B.variable(values, dtype="float64", name=name)


def test_gradients_are_those_of_finite_differences(backend, random):
    w, x = double(random.normal(size=(3, 2))), B.placeholder(ndim=2, dtype="float64")
    loss = B.mean(B.square(B.sigmoid(x.dot(w)) - 0.5))
    gradients = B.function([x], B.gradients(loss, [w, x]))
    values = random.normal(size=(4, 3))
    computed = B.function([x], loss)
    by_w, by_x = gradients(values)
    weights = w.get_value()

    def of_weights(new):
        w.set_value(new)
        return computed(values)

    np.testing.assert_allclose(by_w, numeric(of_weights, weights), atol=1e-6)
    w.set_value(weights)
    np.testing.assert_allclose(by_x, numeric(computed, values), atol=1e-6)


def test_gradients_have_gradients(backend):
    x = double([1.0, 2.0, 3.0])
    first = B.gradients(B.sum(x**4), x)
    second = B.gradients(B.sum(first), x)
    third = B.gradients(B.sum(second * x), x)
    for found, expected in zip(value([first, second, third]), ((4, 3), (12, 2), (36, 2)), strict=True):
        np.testing.assert_allclose(found, expected[0] * np.array([1.0, 2.0, 3.0]) ** expected[1], rtol=1e-6)


def test_a_list_gives_a_list_and_one_gives_one():
    x, y = double(3.0), double(4.0)
    assert isinstance(B.gradients(x * y, [x, y]), list)
    assert value(B.gradients(x * y, x)).item() == 4
    assert value(B.gradients(x * y, (y,)))[0].item() == 3


def test_gradients_are_with_respect_to_any_expression():
    x = double([1.0, 2.0])
    y = x * 3.0
    by_y, by_x = value(B.gradients(B.sum(y * y) + B.sum(x), [y, x]))
    np.testing.assert_allclose(by_y, [6, 12])
    np.testing.assert_allclose(by_x, [19, 37])


def test_equal_expressions_have_gradients_of_their_own():
    x = double([1.0, 2.0])
    one, other = x * 2.0, x * 2.0
    np.testing.assert_allclose(value(B.gradients(B.sum(one) + 5.0 * B.sum(other), one)), [1, 1])
    gradients = B.gradients(B.sum(one + other), [one, other])
    np.testing.assert_allclose(value(B.gradients(B.sum(gradients[0] * x * one), gradients[0])), [2, 8])


def test_a_constant_part_has_gradients():
    x = B.placeholder(ndim=2)
    part = B.zeros_like(x) + 2.0
    np.testing.assert_allclose(value(B.gradients(B.sum(part**2), part), (x, np.ones((2, 3)))), np.full((2, 3), 4.0))


def test_replaced_expressions_have_the_gradients_that_were_written():
    x, w = B.placeholder(ndim=1, dtype="float64"), double([2.0, 3.0])
    by_w, by_x = B.gradients(B.sum(w * x), [w, x])
    found = B.function([], [by_w, by_x], givens={x: w * w})()
    np.testing.assert_allclose(found, [[4, 9], [2, 3]])


def test_stop_gradient_has_the_value_and_no_gradient(backend):
    w = double([1.0, 2.0])
    loss = B.sum(w * B.stop_gradient(w))
    assert value(loss).item() == 5
    np.testing.assert_allclose(value(B.gradients(loss, w)), [1, 2])
    assert [value(each).tolist() for each in B.stop_gradient([w, w * 2.0])] == [[1, 2], [2, 4]]


def test_what_the_loss_does_not_reach_is_named():
    w, other = double([1.0], "weights"), double([1.0], "other")
    with pytest.raises(ValueError, match=r"'other'.* not computed from it"):
        B.gradients(B.sum(w), [w, other])
    with pytest.raises(ValueError, match=r"'weights'.* through stop_gradient alone \(.*test_graph.py"):
        B.gradients(B.sum(B.stop_gradient(w) * other), [other, w])
    with pytest.raises(ValueError, match="through sizes"):
        B.gradients(B.sum(other * w.shape[0]), w)


def test_what_stops_gradients_is_found_in_long_chains():
    w = double([1.0], "weights")
    y = B.stop_gradient(w)
    for _ in range(5000):  # looked through anew from each, this would take minutes
        y = y * 1.0 + 1.0
    with pytest.raises(ValueError, match="through stop_gradient alone"):
        B.gradients(B.sum(y), w)


def test_a_loss_that_is_no_scalar_of_floats_and_what_is_no_expression_are_refused():
    w, ints = double([1.0]), B.variable([1], dtype="int32")
    with pytest.raises(TypeError, match="no scalar"):
        B.gradients(w, w)
    with pytest.raises(TypeError, match="it is int"):
        B.gradients(B.sum(ints), w)
    with pytest.raises(TypeError, match="no expression"):
        B.gradients(3.0, w)
    with pytest.raises(TypeError, match="no expression"):
        B.gradients(B.sum(w), [w, np.ones(1)])
    with pytest.raises(TypeError, match="int32"):
        B.gradients(B.sum(w), ints)


def test_ifelse_gives_one_of_two_values_and_its_gradient(backend):
    x, condition = double([1.0, 2.0]), B.placeholder(ndim=0)
    chosen = B.ifelse(condition, B.sum(x * x), B.sum(x))
    f = B.function([condition], [chosen, B.gradients(chosen * 2.0, x)])
    for given, expected in ((1, (5, [4, 8])), (0, (3, [2, 2]))):
        found, gradient = f(given)
        assert found == expected[0]
        np.testing.assert_allclose(gradient, expected[1])


def test_only_the_chosen_side_is_computed():
    matrix, condition = B.placeholder(ndim=2), B.placeholder(ndim=0, dtype="int32")
    solved = B.solve(matrix, matrix)
    f = B.function([condition, matrix], B.ifelse(condition, B.sum(solved), B.sum(matrix)))
    assert f(0, np.zeros((2, 2))) == 0
    np.testing.assert_allclose(f(1, np.eye(2)), 2)
    with pytest.raises(ValueError, match="singular"):
        f(1, np.zeros((2, 2)))


def test_what_is_needed_outside_as_well_is_computed_once():
    x, condition = double([1.0, 2.0]), B.placeholder(ndim=0)
    shared = B.exp(x)
    f = B.function([condition], [B.ifelse(condition, shared, x), shared])
    for given in (0, 1):
        chosen, outside = f(given)
        np.testing.assert_allclose(outside, np.exp([1, 2]))
        np.testing.assert_allclose(chosen, outside if given else [1, 2])
    assert str(f.plan).count("Exp") == 1


def test_sides_are_lists_numbers_or_of_other_sizes(backend):
    x, condition = double([[1.0, 2.0, 3.0]]), B.placeholder(ndim=0, dtype="int32")
    f = B.function([condition], [*B.ifelse(condition, [x, x * 2.0], (x.T, x)), B.ifelse(condition, B.sum(x), 0)])
    assert [each.shape for each in f(1)] == [(1, 3), (1, 3), ()]
    assert [each.shape for each in f(0)] == [(3, 1), (1, 3), ()]
    assert (f(1)[2], f(0)[2]) == (6, 0)


def test_branches_within_branches_and_in_conditions():
    a, b = (B.placeholder(ndim=0, dtype="int32") for _ in range(2))
    x = double(3.0)
    inner = B.ifelse(b, x * 2.0, x * 5.0)
    f = B.function([a, b], B.ifelse(B.ifelse(a, b, 1), inner, x) + inner)
    assert [f(*bits).item() for bits in ((0, 0), (0, 1), (1, 0), (1, 1))] == [30, 12, 18, 12]


def test_gradients_within_a_side_are_those_of_the_whole_way():
    x, condition = double([1.0, 2.0]), B.placeholder(ndim=0)
    y = x * x
    gradient = B.gradients(B.sum(y * y), x)
    f = B.function([condition], [y, B.ifelse(condition, gradient, x)])
    np.testing.assert_allclose(f(1)[1], [4, 32])


def test_sides_that_do_not_fit_are_refused():
    x, condition = double([1.0]), B.placeholder(ndim=0)
    with pytest.raises(TypeError, match="1 axis of float64, the other 0"):
        B.ifelse(condition, x, B.sum(x))
    with pytest.raises(TypeError, match="float64, the other 1 of float32"):
        B.ifelse(condition, x, B.cast(x, "float32"))
    with pytest.raises(TypeError, match="the other is none"):
        B.ifelse(condition, [x], x)
    with pytest.raises(ValueError, match="one length"):
        B.ifelse(condition, [x], [x, x])
    with pytest.raises(TypeError, match="it has axes"):
        B.ifelse(x, x, x)


def test_a_branch_runs_where_the_context_says():
    x, condition = B.variable([1.0, 2.0]), B.placeholder(ndim=0)
    f = B.function([condition], B.ifelse(condition, B.exp(x), x))
    for context in (Context(["sim:float"]), Context(["cpu:float"])):
        with context_scope(context):
            np.testing.assert_allclose(f(1), np.exp([1, 2]), rtol=1e-6)
            assert f(0).tolist() == [1, 2]
