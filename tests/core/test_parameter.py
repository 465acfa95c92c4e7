"""Parameters: scopes, creation, lookup, and what a refused call leaves behind."""

import contextvars
import threading

import numpy as np
import pytest

from atled import Variable
from atled import functions as F
from atled import parameter as P
from atled.initializer import ConstantInitializer, UniformInitializer
from atled.parameter import (
    clear_parameters,
    get_parameter,
    get_parameter_or_create,
    get_parameters,
    parameter_scope,
    pop_parameter,
    set_parameter,
)

pytestmark = pytest.mark.usefixtures("no_parameters")


def make(*names, need_grad=True):
    return [get_parameter_or_create(name, (2,), need_grad=need_grad) for name in names]


# Scopes.


def test_scopes_nest_and_end():
    with parameter_scope("a"):
        with parameter_scope("b/c"):
            make("W")
        make("W")
    make("W")
    assert list(get_parameters()) == ["a/b/c/W", "a/W", "W"]


def test_superfluous_slashes_are_ignored():
    with parameter_scope("/a//b/"):
        (w,) = make("/c//W")
    assert get_parameter("a/b/c/W") is w
    with parameter_scope("a"), parameter_scope(""):
        assert list(get_parameters()) == ["b/c/W"]


def test_a_scope_ends_with_an_exception_as_well():
    with pytest.raises(KeyError), parameter_scope("a"):
        raise KeyError("x")
    make("W")
    assert list(get_parameters()) == ["W"]


def test_names_are_relative_to_the_current_scope():
    with parameter_scope("a"):
        (w,) = make("b/W")
    assert get_parameter("a/b/W") is w
    with parameter_scope("a/b"):
        assert get_parameter("W") is w
        assert list(get_parameters()) == ["W"]


def test_a_scope_counts_from_when_it_was_first_entered():
    with parameter_scope("first"):
        pass
    with parameter_scope("second"):
        make("W")
    with parameter_scope("first"):
        make("W", "b")
    make("third")
    with parameter_scope("second"):
        make("b")
    assert list(get_parameters()) == ["first/W", "first/b", "second/W", "second/b", "third"]


def test_a_parameter_is_no_scope():
    make("a/W")
    with pytest.raises(ValueError, match=r"'a/W' is a parameter[\s\S]*What to do"), parameter_scope("a/W"):
        pass
    with pytest.raises(ValueError, match="is a parameter, not a scope"):
        make("a/W/x")
    with pytest.raises(ValueError, match="is a parameter, not a scope"):
        get_parameter("a/W/x/y")
    assert list(get_parameters()) == ["a/W"]


@pytest.mark.parametrize("call", [get_parameter, pop_parameter, make, lambda key: set_parameter(key, Variable())])
def test_a_scope_is_no_parameter(call):
    make("a/b/W")
    with pytest.raises(ValueError, match=r"this is a scope[\s\S]*in it: W"):
        call("a/b")
    assert list(get_parameters()) == ["a/b/W"]


@pytest.mark.parametrize("name", [None, 3, b"a"])
def test_a_name_is_text(name):
    with pytest.raises(TypeError, match="pass the name as text"), parameter_scope(name):
        pass
    with pytest.raises(TypeError, match="pass the name as text"):
        get_parameter(name)


@pytest.mark.parametrize("name", ["", "/"])
def test_a_parameter_needs_a_name(name):
    with pytest.raises(ValueError, match="needs a name"):
        get_parameter_or_create(name, (2,))


# get_parameters.


def test_get_parameters_gives_the_stored_variables_in_a_new_dict():
    (w,) = make("a/W")
    found = get_parameters()
    assert found["a/W"] is w
    found.clear()
    assert list(get_parameters()) == ["a/W"]


def test_grad_only_hides_what_is_not_trained():
    make("W")
    make("mean", need_grad=False)
    assert list(get_parameters()) == ["W"]
    assert list(get_parameters(grad_only=False)) == ["W", "mean"]


def test_get_parameters_adds_to_a_dict_under_a_path():
    make("a/W")
    given = {"x": Variable()}
    assert get_parameters(given, "p/q") is given
    assert list(given) == ["x", "p/q/a/W"]


def test_names_may_nest_deeper_than_the_stack():
    make("/".join("a" * 3000))
    assert [len(key) for key in get_parameters()] == [5999]


# get_parameter, set_parameter, pop_parameter, clear_parameters.


def test_looking_for_a_parameter_makes_nothing():
    assert get_parameter("a/W") is None
    assert pop_parameter("a/W") is None
    make("b")
    make("a/V")
    assert list(get_parameters()) == ["b", "a/V"]


def test_set_parameter_puts_a_variable_in_the_place_of_another():
    make("a", "b")
    new = Variable((5,), need_grad=True)
    set_parameter("a", new)
    set_parameter("s/c", new)
    assert get_parameter("a") is new
    assert list(get_parameters()) == ["a", "b", "s/c"]


def test_only_variables_are_parameters():
    with pytest.raises(TypeError, match=r"not a Variable[\s\S]*from_numpy_array"):
        set_parameter("a", np.zeros(3))


def test_pop_parameter_takes_it_out():
    (w,) = make("a/W")
    assert pop_parameter("a/W") is w
    assert get_parameter("a/W") is None


def test_clear_parameters_clears_the_current_scope_only():
    (w,) = make("a/W")
    make("b/W", "b/c/W")
    with parameter_scope("b"):
        clear_parameters()
        make("V")
    assert list(get_parameters()) == ["a/W", "b/V"]
    clear_parameters()
    assert get_parameters() == {}
    assert w.shape == (2,)


# get_parameter_or_create.


def test_a_parameter_is_made_once():
    (w,) = make("W")
    assert get_parameter_or_create("W", [2], ConstantInitializer(9)) is w
    assert get_parameter_or_create("W") is w
    np.testing.assert_array_equal(w.d, [0, 0])
    assert w.need_grad and w.d.dtype == np.float32


@pytest.mark.parametrize(
    "initializer, values",
    [
        (None, [0, 0]),
        (ConstantInitializer(3), [3, 3]),
        (np.array([1, 2]), [1, 2]),
        (lambda shape: np.arange(shape[0]), [0, 1]),
        (lambda size: 0.5, [0.5, 0.5]),
    ],
)
def test_the_first_values(initializer, values):
    w = get_parameter_or_create("W", (2,), initializer)
    assert w.d.dtype == np.float32
    np.testing.assert_array_equal(w.d, values)


def test_an_array_says_the_shape_itself():
    assert get_parameter_or_create("W", initializer=np.ones((2, 3))).shape == (2, 3)
    assert get_parameter_or_create("s", initializer=np.array(2.0)).shape == ()
    with pytest.raises(ValueError, match=r"stored parameter has shape \(2, 3\)"):
        get_parameter_or_create("W", initializer=np.ones((3, 2)))


def test_the_array_of_first_values_is_copied():
    values = np.ones(2, np.float32)
    w = get_parameter_or_create("W", initializer=values)
    values[0] = 7
    np.testing.assert_array_equal(w.d, [1, 1])


def test_another_shape_than_the_stored_one_is_refused():
    with parameter_scope("fc"):
        (w,) = make("W")
        with pytest.raises(ValueError, match="stored parameter has shape") as caught:
            get_parameter_or_create("W", (3, 2))
        assert get_parameter("W") is w
    text = str(caught.value)
    assert "'W'" in text and "'fc'" in text and "(3, 2)" in text and "(2,)" in text and "What to do" in text


@pytest.mark.parametrize(
    "error, wrong, arguments",
    [
        (TypeError, "no shape was given", ()),
        (TypeError, "no shape was given", (None, ConstantInitializer())),
        (TypeError, "initializer is of type list", ((2,), [1, 2])),
        (TypeError, "initializer is of type float", ((2,), 1.0)),
        (ValueError, r"array of shape \(3,\)", ((2,), np.zeros(3))),
        (ValueError, r"gave float64 values of shape \(3,\)", ((2,), lambda shape: np.zeros(3))),
        (TypeError, "gave object values", ((2,), ConstantInitializer)),
        (ValueError, "negative size", ((-2,), None)),
    ],
)
def test_what_cannot_be_made_is_refused(error, wrong, arguments):
    with pytest.raises(error, match=f"{wrong}[\\s\\S]*What to do"):
        get_parameter_or_create("W", *arguments)
    assert get_parameters(grad_only=False) == {}


def test_another_need_grad_gives_a_sharer_and_leaves_the_stored_one():
    (w,) = make("W")
    fixed = get_parameter_or_create("W", (2,), need_grad=False)
    assert fixed is not w and not fixed.need_grad and w.need_grad
    fixed.d = 4
    np.testing.assert_array_equal(w.d, [4, 4])
    assert get_parameter("W") is w
    with parameter_scope("s"):
        (mean,) = make("mean", need_grad=False)
        trained = get_parameter_or_create("mean", (2,), need_grad=True)
        assert trained.need_grad and not mean.need_grad


def test_a_sharer_shares_the_gradient_too():
    (w,) = make("mean", need_grad=False)
    trained = get_parameter_or_create("mean", (2,), need_grad=True)
    loss = F.sum(trained * 3.0)
    loss.forward()
    loss.backward()
    np.testing.assert_array_equal(w.g, [3, 3])


# Threads.


def test_the_current_scope_is_the_threads_own_and_parameters_are_everybodys():
    seen = {}

    def look():
        seen["before"] = list(get_parameters())
        with parameter_scope("there"):
            make("W")

    with parameter_scope("here"):
        make("W")
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen["before"] == ["here/W"]
    assert list(get_parameters()) == ["here/W", "there/W"]


def test_a_copied_context_carries_the_scope():
    with parameter_scope("here"):
        context = contextvars.copy_context()
    context.run(make, "W")
    assert list(get_parameters()) == ["here/W"]


def test_threads_that_create_the_same_parameter_get_the_same_one():
    barrier = threading.Barrier(8)
    made = []

    def initializer(shape):
        barrier.wait(timeout=30)  # all of them are past the first look, none has stored anything
        return np.zeros(shape)

    threads = [
        threading.Thread(target=lambda: made.append(get_parameter_or_create("W", (2,), initializer))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8 and all(item is get_parameter("W") for item in made)


def test_a_scope_cleared_by_another_thread_can_be_used_on():
    with parameter_scope("a/b"):
        thread = threading.Thread(target=clear_parameters)
        thread.start()
        thread.join()
        assert get_parameters() == {}
        clear_parameters()
        make("W")
    assert list(get_parameters()) == ["a/b/W"]


# Undoing.


def test_what_a_failed_block_put_in_place_is_taken_out_again():
    old, other = make("old", "s/other")
    with pytest.raises(KeyError), P.undone_on_error():
        make("s/new", "t/u/new")
        set_parameter("old", Variable((7,), need_grad=True))
        raise KeyError("x")
    assert list(get_parameters()) == ["old", "s/other"]
    assert get_parameter("old") is old and get_parameter("s/other") is other
    make("t")  # so the scopes are gone as well


def test_a_block_that_ends_well_inside_one_that_fails_is_undone_too():
    with pytest.raises(KeyError), P.undone_on_error():
        with P.undone_on_error():
            make("a")
        raise KeyError("x")
    assert get_parameters() == {}


def test_undoing_leaves_alone_what_others_changed_since():
    mine = Variable((3,), need_grad=True)

    def others():
        set_parameter("a", mine)
        make("s/theirs")

    with pytest.raises(KeyError), P.undone_on_error():
        make("a", "s/W")
        thread = threading.Thread(target=others)
        thread.start()
        thread.join()
        raise KeyError("x")
    assert list(get_parameters()) == ["a", "s/theirs"]
    assert get_parameter("a") is mine


def test_a_random_initializer_draws_once_per_parameter():
    rng = np.random.RandomState(5)
    for _ in range(2):
        w = get_parameter_or_create("W", (3,), UniformInitializer(rng=rng))
    np.testing.assert_array_equal(w.d, np.random.RandomState(5).uniform(-1, 1, 3).astype(np.float32))
