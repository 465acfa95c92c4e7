"""Settings are read at the call; they hold for the process, or for a block of one thread."""

import threading

import numpy as np
import pytest

import atled.keras_backend as B


@pytest.fixture(autouse=True)
def first_settings():
    """Those of a new process, before and behind each test."""
    B.set_floatx("float32")
    B.set_intx("int32")
    B.set_epsilon(2.0**-23)
    yield
    B.set_floatx("float32")
    B.set_intx("int32")
    B.set_epsilon(2.0**-23)


def test_the_first_ones():
    assert (B.floatx(), B.intx(), B.epsilon()) == ("float32", "int32", float(np.finfo(np.float32).eps))


def test_the_backend_says_its_name():
    assert B.backend() == "atled"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floatx_is_read_when_something_is_made(dtype):
    B.set_floatx(dtype)
    assert B.floatx() == B.variable([10]).dtype == B.placeholder(ndim=1).dtype == B.cast_to_floatx(1).dtype == dtype


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_intx_is_set(dtype):
    B.set_intx(dtype)
    assert B.intx() == dtype


def test_what_was_made_before_keeps_its_dtype():
    before = B.variable([1.0])
    B.set_floatx("float64")
    assert (before.dtype, B.variable([1.0]).dtype) == ("float32", "float64")


def test_cast_to_floatx_gives_an_array():
    found = B.cast_to_floatx([1, 2])
    assert isinstance(found, np.ndarray) and found.dtype == np.float32
    assert B.cast_to_floatx(found) is found


def test_epsilon_is_a_python_number():
    B.set_epsilon(np.float32(0.5))
    assert B.epsilon() == 0.5 and type(B.epsilon()) is float


# Blocks.


def test_a_block_has_settings_of_its_own():
    with B.settings(floatx="float64", epsilon=1e-3):
        assert (B.floatx(), B.intx(), B.epsilon()) == ("float64", "int32", 1e-3)
        with B.settings(intx="int16"):
            assert (B.floatx(), B.intx()) == ("float64", "int16")
        assert B.intx() == "int32"
    assert (B.floatx(), B.epsilon()) == ("float32", 2.0**-23)


def test_what_is_set_in_a_block_ends_with_it():
    with B.settings(floatx="float16"):
        B.set_floatx("float64")
        B.set_epsilon(1)
        assert (B.floatx(), B.epsilon()) == ("float64", 1.0)
    assert (B.floatx(), B.epsilon()) == ("float32", 2.0**-23)


def test_a_block_ends_with_an_error_too():
    with pytest.raises(ZeroDivisionError), B.settings(floatx="float16"):
        raise ZeroDivisionError
    assert B.floatx() == "float32"


def seen_by_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(B.floatx()))
    thread.start()
    thread.join()
    return found[0]


def test_a_block_is_that_of_its_thread():
    with B.settings(floatx="float64"):
        assert (B.floatx(), seen_by_a_thread()) == ("float64", "float32")


def test_the_process_is_that_of_all_threads():
    B.set_floatx("float16")
    assert seen_by_a_thread() == "float16"


# What is refused.


@pytest.mark.parametrize("setter", [B.set_floatx, B.set_intx])
@pytest.mark.parametrize("value", ["floatx", "float8", "uint8", np.float32, np.dtype("int32"), None, 32])
def test_a_dtype_that_is_none_is_refused(setter, value):
    with pytest.raises(ValueError, match="What to do"):
        setter(value)
    assert (B.floatx(), B.intx()) == ("float32", "int32")


@pytest.mark.parametrize(
    "value, error",
    [("1e-7", TypeError), (None, TypeError), (True, TypeError), (-1.0, ValueError), (float("nan"), ValueError)],
)
def test_an_epsilon_that_is_no_small_number_is_refused(value, error):
    with pytest.raises(error, match=r"epsilon=.*\n*.*What to do"):
        B.set_epsilon(value)
    assert B.epsilon() == 2.0**-23


def test_a_block_with_a_setting_that_is_refused_does_not_begin():
    with pytest.raises(ValueError, match="did you mean 'float32'"), B.settings(intx="int64", floatx="float33"):
        raise AssertionError("not reached")
    assert B.intx() == "int32"
    with pytest.raises(TypeError, match="floaty"), B.settings(floaty="float32"):
        raise AssertionError("not reached")
