"""Operators and members of expressions."""

import numpy as np
import pytest

import atled.keras_backend as B

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def value(expression, x):
    return B.function([x], expression)(X)


@pytest.fixture
def x():
    return B.placeholder(ndim=2, name="x")


@pytest.mark.parametrize(
    "operation",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: a < b,
        lambda a, b: a >= b,
    ],
)
@pytest.mark.parametrize("other", [3, 2.5, np.float32(2), np.full(4, 4, np.float32), np.full((3, 1), 7, np.float32)])
def test_numbers_and_arrays_stand_on_either_side(x, operation, other):
    z = np.where(X == 0, 1, X).astype(np.float32)
    given = B.placeholder(ndim=2)
    left, right = B.function([given], [operation(given, other), operation(other, given)])(z)
    np.testing.assert_allclose(left, operation(z, other), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(right, operation(other, z), rtol=1e-5, atol=1e-5)


def test_powers_and_signs(x):
    np.testing.assert_allclose(value(2.0**x + x**2 - (-x) + abs(+x), x), 2.0**X + X**2 + X + abs(X), rtol=1e-5)


@pytest.mark.parametrize("exponent", [2, 3, 5, 8])
def test_powers_of_integers_are_exact(backend, exponent):
    n, base = B.placeholder(ndim=1, dtype="int64"), {2: 2**31 - 1, 3: 2**20 + 1, 5: 4097, 8: -129}[exponent]
    assert B.function([n], n**exponent)([base])[0] == base**exponent


@pytest.mark.parametrize("exponent", [3, 4.0, 7, 0.5, -1, 12, 0])
def test_powers_by_any_number(backend, exponent):
    x, values = B.placeholder(ndim=1), np.array([0.5, 1.5, 2.0], np.float32)
    power = x**exponent
    found, gradient = B.function([x], [power, B.gradients(B.sum(power), x)])(values)
    np.testing.assert_allclose(found, values**exponent, rtol=1e-5)
    np.testing.assert_allclose(gradient, exponent * values ** (exponent - 1), rtol=1e-5)
    assert found.dtype == np.float32


def test_equality_is_identity(x):
    y = x + 0.0
    assert x == x and x != y and (x == y) is False  # that is the claim
    assert {x: 1, y: 2}[x] == 1


def test_a_sum_of_a_list_begins_at_the_number_0(x):
    assert value(sum([x, x, 1.0]), x).dtype == np.float32
    np.testing.assert_array_equal(value(sum([x, x]), x), 2 * X)


def test_plus_equal_binds_the_name_anew(x):
    y = x
    y += 1
    assert y != x
    np.testing.assert_array_equal(value(x, x), X)


def test_truth_values_are_combined(x):
    found = value(((x > 0) & (x < 3)) ^ (True | (x > 1)), x)
    np.testing.assert_array_equal(found, ((X > 0) & (X < 3)) ^ True)


def test_bits_of_integers_are_refused():
    n = B.placeholder(ndim=1, dtype="int32")
    with pytest.raises(TypeError, match=r"operator &.*an operand is of int32"):
        n & 1


def test_the_truth_of_a_comparison_is_refused(x):
    with pytest.raises(TypeError, match=r"(?s)the truth of .*operator <.*ifelse"):
        bool(x < 1)
    with pytest.raises(TypeError, match="the truth of"):
        assert (x < 1) & (x > 0)
    assert bool(x)  # as None is told from an expression


@pytest.mark.parametrize("use", [iter, len, np.asarray, list])
def test_python_does_not_take_an_expression_apart(x, use):
    with pytest.raises(TypeError, match="not known before a function runs"):
        use(x)


def test_numpys_functions_refuse_expressions(x):
    with pytest.raises(TypeError, match="ufunc"):
        np.exp(x)


def test_members(x):
    assert (x.ndim, x.dtype, x.name) == (2, "float32", "x")
    assert x.T.name == "x.T" and (x + 1).T.name is None
    np.testing.assert_array_equal(value(x.T.dot(x), x), X.T @ X)
    assert value(x.size, x) == 12
    y = x + 1
    y.name = "y"
    assert "'y'" in repr(y)


def test_eval_computes_what_needs_no_placeholders(x):
    w = B.variable(X)
    np.testing.assert_array_equal((w * 2).eval(), 2 * X)
    np.testing.assert_array_equal((x * 2).eval({x: X}), 2 * X)
    with pytest.raises(ValueError, match="'x'"):
        x.eval()


def test_what_is_no_number_is_refused(x):
    with pytest.raises(TypeError, match=r"operator \+ of a str"):
        x + "a"
    with pytest.raises(TypeError, match=r"operator \+ of None"):
        x + None
    with pytest.raises(TypeError, match=r"less of None"):
        B.less(None, x)
    with pytest.raises(TypeError, match=r"operator \*"):
        {} * x


def test_an_error_of_sizes_has_the_names_and_the_line(x):
    w = B.variable(np.ones((3, 2)), name="w")
    product = x.dot(w)
    with pytest.raises(
        ValueError, match=r"dot\(x: float32 \(3, 4\), w: float32 \(3, 2\)\), written at .*test_operators"
    ):
        value(product, x)


def test_an_error_of_axes_is_raised_where_it_is_written(x):
    with pytest.raises(ValueError, match=r"sum\(x: float32, 2 axes\): axis 2 is out of range"):
        B.sum(x, axis=2)
