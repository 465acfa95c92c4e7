"""Scan against a Python loop in NumPy: sequences, states, counts of steps, updates, closures."""

from collections import OrderedDict

import numpy as np
import pytest

import atled.keras_backend as B
from atled.keras_backend.expressions.calls import call


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def placeholder(ndim, name=None):
    return B.placeholder(ndim=ndim, dtype="float64", name=name)


def variable(values, dtype="float64"):
    return B.variable(values, dtype=dtype)


def test_states_and_sequences_go_through_a_recurrence(backend):
    x, w = placeholder(2), variable(floats(3, 3) / 2)
    h0 = variable(np.zeros(3))
    s, updates = B.scan(lambda row, h, w: B.exp(-((row + h.dot(w)) ** 2)), h0, sequences=x, non_sequences=w)
    assert updates == OrderedDict()
    values = floats(5, 3, seed=1)
    h, expected = np.zeros(3), []
    for row in values:
        h = np.exp(-((row + h @ w.get_value()) ** 2))
        expected.append(h)
    np.testing.assert_allclose(B.function([x], s)(values), expected)


def test_several_outputs_are_a_list_and_those_without_a_state_need_none(backend):
    x = placeholder(1)
    (total, square, most), _ = B.scan(
        lambda r, t, m: (t + r, r * r, call("MaximumTies", m, r)),
        outputs_info=[np.zeros(()), None, {"initial": np.array(-9.0), "taps": [-1]}],
        sequences=[x],
    )
    values = floats(6)
    found = B.function([x], [total, square, most])(values)
    for one, expected in zip(found, (values.cumsum(), values**2, np.maximum.accumulate(values)), strict=True):
        np.testing.assert_allclose(one, expected)


def test_outputs_without_states_are_those_of_a_map(backend):
    x, y = placeholder(2), placeholder(2)
    s, _ = B.scan(lambda a, b: [a + b, a * b], sequences=[x, y])
    a, b = floats(4, 2), floats(7, 2, seed=1)  # the shortest counts
    found = B.function([x, y], s)(a, b)
    np.testing.assert_allclose(found[0], a + b[:4])
    np.testing.assert_allclose(found[1], a * b[:4])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_steps_may_be_counted_by_a_number_an_expression_or_a_variable(backend, count):
    x, n = variable(floats(2)), B.placeholder(ndim=0, dtype="int32")
    counts = variable(count, "int64")
    expected = [x.get_value() * 2.0**k for k in range(1, count + 1)]
    for steps, inputs in ((count, []), (np.int64(count), []), (n, [n]), (n + 0, [n]), (counts, [])):
        s, _ = B.scan(lambda h: h * 2.0, x, n_steps=steps)
        found = B.function(inputs, s)(*[count] * len(inputs))
        np.testing.assert_array_equal(found, np.reshape(expected, (count, 2)))


def test_a_count_takes_the_first_rows_and_backwards_the_last_ones(cpu):
    x = placeholder(1)
    values = floats(5)
    for backwards in (False, True):
        s, _ = B.scan(lambda r, t: t * 0.5 + r, np.zeros(()), 3, sequences=[x], go_backwards=backwards)
        t, expected = 0.0, []
        for row in values[::-1][:3] if backwards else values[:3]:
            t = t * 0.5 + row
            expected.append(t)
        np.testing.assert_allclose(B.function([x], s)(values), expected)


def test_backwards_over_all_rows(backend):
    x = placeholder(2)
    s, _ = B.scan(lambda r, t: t * 0.5 + r, np.zeros(2), sequences=[x], go_backwards=True)
    values, t, expected = floats(4, 2), np.zeros(2), []
    for row in values[::-1]:
        t = t * 0.5 + row
        expected.append(t)
    np.testing.assert_allclose(B.function([x], s)(values), expected)


def test_updates_of_a_step_are_states_that_are_returned(backend):
    count, total = variable(3, "int32"), variable(np.zeros(2))
    x = placeholder(2)

    def step(row):
        return row * count, {count: count + 2, total: total + row}

    s, updates = B.scan(step, sequences=x)
    assert list(updates) == [count, total]
    values = floats(4, 2)
    found = B.function([x], s, updates=updates)(values)
    np.testing.assert_allclose(found, values * np.array([[3], [5], [7], [9]]))
    assert count.get_value() == 11
    np.testing.assert_allclose(total.get_value(), values.sum(axis=0))


@pytest.mark.parametrize("form", ["tuple", "list of pairs", "alone"])
def test_updates_are_taken_in_any_place_of_what_a_step_returns(cpu, form):
    c = variable(0.0)

    def step():
        changes = {"tuple": (c + 0.0, OrderedDict([(c, c + 1)])), "list of pairs": ([(c, c + 1)], [c + 0.0])}
        return changes.get(form, {c: c + 1})

    s, updates = B.scan(step, n_steps=4)
    found = B.function([], [] if form == "alone" else s, updates=updates)()
    assert c.get_value() == 4
    if form == "alone":
        assert s is None
    else:
        np.testing.assert_array_equal(found, [0, 1, 2, 3])


def test_what_the_step_changes_in_objects_of_the_program_counts_as_it_is_called_once(cpu):
    class Model:
        beta = 1.0
        calls = 0

        def energy(self, x):
            return x * self.beta

    model, betas, x = Model(), placeholder(1), placeholder(0)

    def step(beta):
        model.calls += 1
        model.beta = beta
        return model.energy(x)

    s, _ = B.scan(step, sequences=betas)
    np.testing.assert_allclose(B.function([betas, x], s)([0.0, 0.5, 1.0], 3.0), [0, 1.5, 3])
    assert model.calls == 1


def test_what_does_not_change_is_described_around_the_loop_and_shared_with_what_is_there(backend):
    x, w = placeholder(2), placeholder(2)
    around = B.exp(w)
    s, _ = B.scan(lambda row: row.dot(around) + B.sum(around), sequences=x)
    a, b = floats(3, 2), floats(2, 2, seed=1)
    found = B.function([x, w], [s, B.sum(around)])(a, b)
    np.testing.assert_allclose(found[0], a @ np.exp(b) + np.exp(b).sum())
    np.testing.assert_allclose(found[1], np.exp(b).sum())


def test_scans_within_scans(backend):
    x = placeholder(2)
    scale = variable(0.5)

    def row_of(row, before):
        inner, _ = B.scan(lambda a, t: t * scale + a + B.sum(before) * 0.1, np.zeros(()), sequences=row)
        return inner

    s, _ = B.scan(row_of, np.zeros(3), sequences=x)
    values, before, expected = floats(4, 3), np.zeros(3), []
    for row in values:
        t, made = 0.0, []
        for a in row:
            t = t * 0.5 + a + before.sum() * 0.1
            made.append(t)
        before = np.array(made)
        expected.append(before)
    np.testing.assert_allclose(B.function([x], s)(values), expected)


def test_updates_within_scans_within_scans_come_out_of_both(cpu):
    c = variable(0, "int64")

    def outer():
        _, updates = B.scan(lambda: {c: c * 2 + 1}, n_steps=2)
        return c + 0, updates

    s, updates = B.scan(outer, n_steps=3)
    np.testing.assert_array_equal(B.function([], s, updates=updates)(), [0, 3, 15])
    assert c.get_value() == 63


def test_sizes_of_rows_and_states_are_known_within_the_step(cpu):
    x = placeholder(2)
    s, _ = B.scan(lambda row: B.sum(row) / row.shape[0], sequences=x)
    values = floats(3, 4)
    np.testing.assert_allclose(B.function([x], s)(values), values.mean(axis=1))


def test_states_may_be_truth_values_and_whole_numbers(backend):
    (truth, count), _ = B.scan(lambda a, n: [B.equal(a, False), n * 3], [np.array(True), np.array(1)], n_steps=3)
    found = B.function([], [truth, count])()
    np.testing.assert_array_equal(found[0], [False, True, False])
    np.testing.assert_array_equal(found[1], [3, 9, 27])
    assert [each.dtype for each in found] == [np.bool_, np.int64]


def test_states_may_be_exchanged_or_stay(backend):
    (a, b, c), _ = B.scan(lambda a, b, c: [b, a, c], [variable(2.0), variable(3.0), variable(4.0)], n_steps=3)
    found = B.function([], [a, b, c])()
    np.testing.assert_array_equal(found, [[3, 2, 3], [2, 3, 2], [4, 4, 4]])


def test_what_is_given_instead_of_an_input_counts_within_the_step(cpu):
    data, chosen, x = variable(floats(4, 3)), B.placeholder(ndim=1, dtype="int32"), placeholder(2)
    s, _ = B.scan(lambda row: row + B.sum(x), sequences=x)
    part = data.get_value()[[0, 2]]
    found = B.function([chosen], s, givens={x: data[chosen]})([0, 2])
    np.testing.assert_allclose(found, part + part.sum())


def test_scans_within_branches_within_scans(backend):
    x = placeholder(1)
    s, _ = B.scan(
        lambda a: B.ifelse(a > 0.0, B.scan(lambda h: h * 2.0, a, n_steps=3)[0][-1], -a),
        sequences=x,
    )
    np.testing.assert_array_equal(B.function([x], s)([1.0, -2.0, 3.0]), [8, 2, 24])
