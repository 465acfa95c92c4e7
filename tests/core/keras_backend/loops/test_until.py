"""Conditions that end a scan: counts of rows, last rows, updates, and how often the loop runs."""

import numpy as np
import pytest

import atled.keras_backend as B


def variable(values, dtype="float64"):
    return B.variable(values, dtype=dtype)


def doubled(limit, x=None, n_steps=20, **kwargs):
    """Twice as much in each step, until it is more than a limit."""
    start = variable(1.0) if x is None else x
    return B.scan(lambda h: (h * 2.0, B.until(h * 2.0 > limit)), start, n_steps=n_steps, **kwargs)


@pytest.mark.parametrize("limit", [0.0, 10.0, 1e9])
def test_outputs_have_as_many_rows_as_steps_were_done(backend, limit):
    s, _ = doubled(limit)
    expected = 2.0 ** np.arange(1, 21)
    expected = expected[: max(1, int((expected <= limit).sum()) + 1)]
    found = B.function([], [s, B.sum(s), s.shape[0], s[0] * s[-1]])()
    np.testing.assert_array_equal(found[0], expected)
    assert [found[1], found[2]] == [expected.sum(), len(expected)]
    assert found[3] == expected[0] * expected[-1]


def test_the_count_may_differ_from_call_to_call(backend):
    limit = B.placeholder(ndim=0, dtype="float64")
    s, _ = doubled(limit)
    function = B.function([limit], s)
    for most in (3.0, 100.0, 5.0, 100.0):
        expected = 2.0 ** np.arange(1, 21)
        np.testing.assert_array_equal(function(most), expected[: int((expected <= most).sum()) + 1])


def test_the_last_row_is_known_in_one_run_of_the_loop_alone(backend, monkeypatch):
    monkeypatch.setattr("atled.keras_backend.compiling.specialized.Stage", None)
    x = B.placeholder(ndim=1, dtype="float64")
    (s, square), _ = B.scan(lambda h: ([h * 2.0, h * h], B.until(B.sum(h) > 50.0)), outputs_info=[x, None], n_steps=30)
    function = B.function([x], [s[-1], square[-1]])
    h = np.ones(2)
    while True:
        before, h = h, h * 2.0
        if before.sum() > 50:
            break
    found = function(np.ones(2))
    np.testing.assert_array_equal(found[0], h)
    np.testing.assert_array_equal(found[1], before**2)


def test_where_nothing_is_differentiated_the_loop_runs_once(backend):
    x = variable(1.0)
    s, _ = doubled(20.0, x)
    for outputs, count in (([s, B.sum(s), s[-1]], 0), ([s, B.gradients(B.sum(s), x)], 2)):
        function = B.function([], outputs)
        function()
        # What the plan has of them comes behind the run that tells their count of steps.
        assert str(function.plan).count("Loop ") == count


def test_rows_of_very_many_steps_are_not_kept_before_their_count_is_known(cpu):
    x = variable(np.ones(100))
    s, _ = B.scan(lambda h: (h * 2.0, B.until(B.sum(h) > 1000.0)), x, n_steps=1 << 40)
    np.testing.assert_array_equal(B.function([], s)(), 2.0 ** np.arange(1, 6)[:, None] * np.ones(100))


def test_gradients_store_no_rows_for_very_many_steps_that_are_not_done(cpu):
    x = variable(np.ones(100))
    s, _ = B.scan(lambda h: (h * h * 0.5 + h, B.until(B.sum(h) > 1000.0)), x, n_steps=1 << 30)
    found = B.function([], [s[-1], B.gradients(B.sum(s[-1]), x)])()
    h, slope = 1.0, 1.0
    while True:
        before, h, slope = h, h * h * 0.5 + h, slope * (h + 1)
        if before * 100 > 1000:
            break
    np.testing.assert_allclose(found, [[h] * 100, [slope] * 100])


def test_updates_are_those_of_the_steps_that_were_done(backend):
    count = variable(0, "int32")
    s, updates = B.scan(lambda h: (h * 2.0, {count: count + 1}, B.until(h > 3.0)), variable(np.ones(())), n_steps=9)
    np.testing.assert_array_equal(B.function([], s, updates=updates)(), [2, 4, 8])
    assert count.get_value() == 3
    B.function([], [], updates=updates)()
    assert count.get_value() == 6


def test_sequences_end_with_the_steps(cpu):
    x = B.placeholder(ndim=1, dtype="float64")
    s, _ = B.scan(lambda r, t: ([t + r], B.until(t + r > 2.0)), np.zeros(()), sequences=x)
    np.testing.assert_array_equal(B.function([x], s)(np.ones(9)), [1, 2, 3])
    np.testing.assert_array_equal(B.function([x], s)(np.ones(2)), [1, 2])
    assert B.function([x], s)(np.ones(0)).shape == (0,)


def test_no_step_has_no_last_row(cpu):
    s, _ = doubled(3.0, n_steps=0)
    assert B.function([], s)().shape == (0,)
    with pytest.raises(IndexError, match="no step"):
        B.function([], s[-1])()


def test_within_a_scan_the_last_row_is_had_whatever_the_count(backend):
    x = B.placeholder(ndim=1, dtype="float64")

    def step(limit):
        s, _ = doubled(limit)
        return s[-1]

    s, _ = B.scan(step, sequences=x)
    np.testing.assert_array_equal(B.function([x], s)([1.0, 7.0, 100.0]), [2, 8, 128])


def test_rows_of_a_scan_within_a_step_need_a_count_that_is_known(cpu):
    x = B.placeholder(ndim=1, dtype="float64")
    s, _ = B.scan(lambda limit: B.sum(doubled(limit)[0]), sequences=x)
    with pytest.raises(TypeError, match=r"a size within its step(.|\n)*by \[-1\]"):
        B.function([x], s)([1.0, 7.0])


def test_a_condition_is_one_truth_value(cpu):
    with pytest.raises(TypeError, match="a condition has no axes"):
        B.until(variable([1.0, 2.0]) > 0)


def test_allclose_ends_an_iteration(cpu):
    x = variable([0.1, 0.9])
    s, _ = B.scan(lambda h: (B.cos(h), B.until(B.allclose(h, B.cos(h), atol=1e-12, rtol=0))), x, n_steps=500)
    found = B.function([], [s[-1], s.shape[0]])()
    np.testing.assert_allclose(found[0], 0.7390851332151607, rtol=1e-10)
    assert 50 < found[1] < 100


def test_what_was_done_is_a_sequence_for_another_scan(backend):
    x = variable(1.0)
    s, _ = doubled(20.0, x)
    t, _ = B.scan(lambda r, a: a * 0.5 + r, np.zeros(()), sequences=s)
    found = B.function([], [t, s[1:3], B.gradients(B.sum(t), x)])()
    rows, a, expected = 2.0 ** np.arange(1, 6), 0.0, []
    for r in rows:
        a = a * 0.5 + r
        expected.append(a)
    np.testing.assert_allclose(found[0], expected)
    np.testing.assert_array_equal(found[1], rows[1:3])
    np.testing.assert_allclose(found[2], sum(expected))
