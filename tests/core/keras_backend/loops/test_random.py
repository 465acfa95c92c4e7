"""Random nodes within a scan: each step draws anew, as calls of a function one after the other would."""

import numpy as np

import atled.keras_backend as B


def one_by_one(draw, count, seed=7):
    """What calls of a function draw."""
    function = B.function([], draw(B.make_rng(seed)))
    return np.array([function() for _ in range(count)])


def uniform(rng):
    return B.random_uniform((3,), rng=rng)


def test_each_step_draws_anew_and_the_next_call_goes_on(backend):
    rng = B.make_rng(7)
    s, updates = B.scan(lambda: uniform(rng), n_steps=4)
    assert not updates
    function = B.function([], s)
    np.testing.assert_array_equal(np.concatenate([function(), function()]), one_by_one(uniform, 8))


def test_what_was_drawn_outside_is_drawn_anew_unless_it_is_an_argument(cpu):
    sample = uniform(B.make_rng(7))
    anew, _ = B.scan(lambda: sample + 0.0, n_steps=3)
    np.testing.assert_array_equal(B.function([], anew)(), one_by_one(uniform, 3))
    sample = uniform(B.make_rng(7))
    same, _ = B.scan(lambda given: given + 0.0, n_steps=3, non_sequences=sample)
    function = B.function([], same)
    for drawn in one_by_one(uniform, 2):
        np.testing.assert_array_equal(function(), [drawn] * 3)


def test_a_chain_of_states_and_draws(backend):
    """Gibbs sampling as programs write it: binomials of probabilities that depend on the last sample."""
    w = B.variable(np.random.default_rng(0).normal(size=(4, 3)))

    def chain(rng, v):
        h = B.random_binomial((2, 3), p=B.sigmoid(v.dot(w)), rng=rng)
        return B.random_binomial((2, 4), p=B.sigmoid(h.dot(w.T)), rng=rng)

    start = np.ones((2, 4), np.float32)
    rng = B.make_rng(3)
    s, _ = B.scan(lambda v: chain(rng, v), outputs_info=[start], n_steps=6)
    found = B.function([], s)()
    v = B.placeholder(ndim=2)
    step, before = B.function([v], chain(B.make_rng(3), v)), start
    for row in found:
        before = step(before)
        np.testing.assert_array_equal(row, before)
    assert found.std() > 0.3


def test_draws_end_with_the_steps(backend):
    rng = B.make_rng(7)
    s, _ = B.scan(lambda: (lambda drawn: (drawn, B.until(B.sum(drawn) > 2.0)))(uniform(rng)), n_steps=50)
    expected = one_by_one(uniform, 50)
    count = int(np.argmax(expected.sum(axis=1) > 2)) + 1
    assert 1 < count < 50
    function = B.function([], s)
    np.testing.assert_array_equal(function(), expected[:count])
    np.testing.assert_array_equal(function()[0], expected[count])


def test_scans_within_scans_draw_in_their_order(cpu):
    rng = B.make_rng(7)

    def outer():
        inner, _ = B.scan(lambda: uniform(rng), n_steps=2)
        return inner

    s, _ = B.scan(outer, n_steps=3)
    function = B.function([], s)
    found = np.concatenate([function(), function()])
    np.testing.assert_array_equal(found.reshape(12, 3), one_by_one(uniform, 12))


def test_gradients_take_draws_for_constants(backend):
    rng, w = B.make_rng(7), B.variable(2.0)
    s, _ = B.scan(lambda h: h * w + B.sum(uniform(rng)), np.zeros((), np.float32), n_steps=2)
    drawn = one_by_one(uniform, 2).sum(axis=1)
    value, gradient = B.function([], [s[-1], B.gradients(s[-1], w)])()
    np.testing.assert_allclose(value, drawn[0] * 2 + drawn[1], rtol=1e-6)
    np.testing.assert_allclose(gradient, drawn[0], rtol=1e-6)
