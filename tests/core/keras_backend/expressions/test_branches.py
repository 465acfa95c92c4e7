"""Branches: what both sides need, and chains of them."""

import numpy as np

import atled.keras_backend as B


def test_a_chain_of_branches_is_described_once_for_each(cpu):
    w = B.variable([1.0, 2.0])
    y = B.sum(w)
    for _ in range(40):  # twice as many sides with each one would never end
        y = B.ifelse(B.sum(w) > 0, y + 1, y - 1)

    assert B.function([], y)() == 43


def test_what_both_sides_need_has_gradients_of_the_chosen_one(backend):
    w, c = B.variable([1.0, 2.0]), B.placeholder(ndim=0)
    s = B.sum(B.square(w))
    f = B.function([c], B.gradients(B.ifelse(c > 0, s * 2, s * 3), w))

    np.testing.assert_array_equal(f(1), [4, 8])
    np.testing.assert_array_equal(f(-1), [6, 12])


def test_both_sides_may_be_one_expression(backend):
    w, c = B.variable(2.0), B.placeholder(ndim=0)

    assert B.function([c], B.ifelse(c > 0, w * 3, w * 3 + 0))(1) == 6
    y = w * 3
    assert B.function([c], B.ifelse(c > 0, y, y))(0) == 6
