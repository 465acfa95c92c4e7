"""What scan refuses: where it is written, or at the call, with variables as they were."""

import numpy as np
import pytest

import atled.keras_backend as B

X = B.placeholder(ndim=2, name="x")
H = B.variable(np.zeros(2), name="h")


@pytest.mark.parametrize(
    ("error", "words", "write"),
    [
        (TypeError, "0 axes and float32 before a step, 0 and int32 behind it",
         lambda: B.scan(lambda h: B.cast(h, "int32"), B.variable(0.0), n_steps=2)),
        (TypeError, "1 axes and float32 before a step, 0 and float32", lambda: B.scan(B.sum, H, n_steps=2)),
        (ValueError, "returns 2 outputs, outputs_info has 1", lambda: B.scan(lambda h: [h, h], [H], n_steps=2)),
        (ValueError, "how many steps", lambda: B.scan(lambda h: h, H)),
        (ValueError, r"taps=\[-2\]", lambda: B.scan(lambda h: h, {"initial": H, "taps": [-2]}, n_steps=2)),
        (TypeError, "'start' in a dictionary", lambda: B.scan(lambda h: h, {"start": H}, n_steps=2)),
        (ValueError, "truncate_gradient=3", lambda: B.scan(lambda h: h, H, n_steps=2, truncate_gradient=3)),
        (TypeError, "no keyword 'sequence'(.|\n)*sequences", lambda: B.scan(lambda r: r, sequence=X)),
        (TypeError, "n_steps=2.5 is no whole number", lambda: B.scan(lambda h: h, H, n_steps=2.5)),
        (TypeError, "is no whole number", lambda: B.scan(lambda h: h, H, n_steps=B.variable(2.0))),
        (TypeError, "it has no axes, so no rows|has no axes", lambda: B.scan(lambda r: r, sequences=B.variable(1.0))),
        (TypeError, "is no expression", lambda: B.scan(lambda r: "row", sequences=X)),
        (TypeError, "is no variable", lambda: B.scan(lambda r: (r, {X: r}), sequences=X)),
        (TypeError, "axes, the new value 1", lambda: B.scan(lambda r: (r, {B.variable(0.0): r}), sequences=X)),
        (TypeError, "it is float32, the new value float64",
         lambda: B.scan(lambda h: (h, {H: B.cast(h, "float64")}), H, n_steps=2)),
        (TypeError, "several conditions", lambda: B.scan(lambda h: (h, B.until(True), B.until(True)), H, n_steps=2)),
        (TypeError, "in a list of outputs", lambda: B.scan(lambda h: [h, B.until(True)], H, n_steps=2)),
    ],
)  # fmt: skip  # a table
def test_where_it_is_written(error, words, write):
    with pytest.raises(error, match=words) as raised:
        write()
    assert "What to do" in str(raised.value)


def test_a_negative_count_leaves_variables_as_they_were(backend):
    n, count = B.placeholder(ndim=0, dtype="int32"), B.variable(5.0)
    s, updates = B.scan(lambda h: (h * 2.0, {count: count + 1}), H, n_steps=n)
    function = B.function([n], s, updates=updates)
    with pytest.raises(ValueError, match="-1 steps") as raised:
        function(-1)
    assert __file__ in str(raised.value)
    assert count.get_value() == 5
    assert function(2).shape == (2, 2)


def test_more_steps_than_rows_are_refused_at_the_call(cpu):
    s, _ = B.scan(lambda r: r, n_steps=4, sequences=X)
    with pytest.raises(ValueError, match="4 steps over a sequence of 3 rows"):
        B.function([X], s)(np.ones((3, 2)))


def test_a_state_that_changes_its_sizes_is_refused_at_the_call(cpu):
    s, _ = B.scan(lambda h: B.concatenate([h, h]), H, n_steps=2)
    with pytest.raises(ValueError, match=r"shape \[2\] before a step and \[4\] behind it") as raised:
        B.function([], s)()
    assert __file__ in str(raised.value)


def test_what_belongs_to_a_step_means_nothing_outside(cpu):
    leaked = []
    B.scan(lambda r: leaked.append(r) or r, sequences=X)
    with pytest.raises(TypeError, match="argument of the step"):
        B.function([X], B.sum(leaked[0]))(np.ones((3, 2)))


def test_a_step_that_fails_leaves_variables_as_they_were(backend):
    a, count = B.variable(np.eye(2)), B.variable(0.0)
    s, updates = B.scan(lambda r: (B.solve(a * B.sum(r), r), {count: count + 1}), sequences=X)
    function = B.function([X], s, updates=updates)
    with pytest.raises(Exception, match=r"(?i)singular"):
        function([[1.0, 2.0], [0.0, 0.0]])
    assert count.get_value() == 0
    assert function([[1.0, 0.0], [2.0, 0.0]]).shape == (2, 2)
    assert count.get_value() == 2


def test_a_size_that_differs_from_step_to_step_is_refused(cpu):
    count = B.variable(2, "int32")
    s, updates = B.scan(lambda: (B.sum(B.arange(count)), {count: count + 1}), n_steps=3)
    with pytest.raises(TypeError, match="a size within its step follows from"):
        B.function([], s, updates=updates)()
    assert count.get_value() == 2


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="it is no function"):
        B.scan(3, n_steps=2)
