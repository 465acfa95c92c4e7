"""The names on NumPy arrays: computed at once, by the references of the op specs."""

import inspect

import numpy as np
import pytest

import atled as nn
import atled.keras_backend as faces
import atled.keras_backend.numpy_backend as B

X = np.random.RandomState(0).normal(size=(3, 4)).astype(np.float32)
Y = np.random.RandomState(1).normal(size=(3, 4)).astype(np.float32)
N = np.array([2, 0, 1])
V = np.array([1.0, 3.0], np.float32)

CASES = {
    "abs": (B.abs(X), np.abs(X)),
    "all": (B.all(X > 0, axis=1), np.all(X > 0, axis=1)),
    "all of a list": (B.all([X > -9, Y > -9]), np.array(True)),
    "allclose": (B.allclose(X, X + np.float32(1e-7)), np.array(True)),
    "any": (B.any(X > 1, axis=0, keepdims=True), np.any(X > 1, axis=0, keepdims=True)),
    "arange": (B.arange(1, 7, 2), np.arange(1, 7, 2, dtype=np.int32)),
    "argmax": (B.argmax(X), X.argmax(-1)),
    "argmin": (B.argmin(X, axis=0), X.argmin(0)),
    "cast": (B.cast(X, "int32"), X.astype(np.int32)),
    "cast_to_floatx": (B.cast_to_floatx(N), N.astype(np.float32)),
    "clip": (B.clip(X, -0.5, 0.5), np.clip(X, -0.5, 0.5)),
    "concatenate": (B.concatenate([X, Y]), np.concatenate([X, Y], -1)),
    "cos": (B.cos(X), np.cos(X)),
    "cumprod": (B.cumprod(X), np.cumprod(X, 0)),
    "cumsum": (B.cumsum(X, axis=1), np.cumsum(X, 1)),
    "diag": (B.diag(V), np.diag(V)),
    "dot": (B.dot(X, Y.T), X @ Y.T),
    "equal": (B.equal(X, X), X == X),
    "exp": (B.exp(X), np.exp(X)),
    "eye": (B.eye(3), np.eye(3, dtype=np.float32)),
    "fill_diagonal": (B.fill_diagonal(np.zeros((2, 2), np.float32), V), np.diag(V)),
    "flatten": (B.flatten(X), X.ravel()),
    "greater": (B.greater(X, Y), X > Y),
    "greater_equal": (B.greater_equal(X, Y), X >= Y),
    "less": (B.less(X, 0), X < 0),
    "less_equal": (B.less_equal(X, Y), X <= Y),
    "log": (B.log(np.abs(X)), np.log(np.abs(X))),
    "logdiffexp": (B.logdiffexp(V), np.log(np.exp(V[1]) - np.exp(V[0]))),
    "logsumexp": (B.logsumexp(X, axis=1), np.log(np.exp(X).sum(1))),
    "max": (B.max(X, axis=(0, 1)), X.max()),
    "maximum": (B.maximum(X, 0.0), np.maximum(X, np.float32(0))),
    "mean": (B.mean(N), np.float32(1)),
    "min": (B.min(X, axis=-1), X.min(-1)),
    "minimum": (B.minimum(X, Y), np.minimum(X, Y)),
    "not_equal": (B.not_equal(N, 2), N != 2),
    "one_hot": (B.one_hot(N, 4), np.eye(4, dtype=np.float32)[N]),
    "ones": (B.ones((2, 1)), np.ones((2, 1), np.float32)),
    "ones_like": (B.ones_like(N), np.ones(3, N.dtype)),
    "permute_dimensions": (B.permute_dimensions(X, (1, 0)), X.T),
    "pow": (B.pow(X, 2), X**2),
    "prod": (B.prod(X, axis=1), X.prod(1)),
    "repeat": (B.repeat(X, 2), np.repeat(X[:, None, :], 2, 1)),
    "repeat_elements": (B.repeat_elements(X, 2, 1), np.repeat(X, 2, 1)),
    "reshape": (B.reshape(X, (2, -1)), X.reshape(2, -1)),
    "reverse": (B.reverse(X, -1), X[:, ::-1]),
    "round": (B.round(X), np.round(X)),
    "sigmoid": (B.sigmoid(X), 1 / (1 + np.exp(-X))),
    "sign": (B.sign(X), np.sign(X)),
    "sin": (B.sin(X), np.sin(X)),
    "solve": (B.solve(X[:, :3], Y[:, 0]), np.linalg.solve(X[:, :3], Y[:, 0])),
    "sqrt": (B.sqrt(X), np.sqrt(np.clip(X, 0, None))),
    "square": (B.square(X), X**2),
    "squeeze": (B.squeeze(X[:, None], 1), X),
    "stack": (B.stack([X, Y], axis=1), np.stack([X, Y], 1)),
    "std": (B.std(X, axis=0), X.std(0)),
    "sum": (B.sum(N), np.sum(N)),
    "tile": (B.tile(X, (2, 1)), np.tile(X, (2, 1))),
    "transpose": (B.transpose(X), X.T),
    "var": (B.var(X, axis=1, keepdims=True), X.var(1, keepdims=True)),
    "variable": (B.variable([1, 2]), np.array([1, 2], np.float32)),
    "zeros": (B.zeros(np.array([2, 3]), dtype="int32"), np.zeros((2, 3), np.int32)),
    "zeros_like": (B.zeros_like(X, dtype="float64"), np.zeros((3, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_the_array_of_numpy(name):
    found, expected = CASES[name]
    assert isinstance(found, np.ndarray) and found.dtype == np.asarray(expected).dtype
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_svd_gives_three_arrays():
    u, s, v = B.svd(X)
    assert u.shape == (3, 3) and v.shape == (4, 4)
    np.testing.assert_allclose((u * s) @ v[:3], X, atol=1e-5)


def test_the_names_are_those_of_the_backend():
    functions = [name for name in dir(faces) if inspect.isfunction(getattr(faces, name)) and not name.startswith("_")]
    assert len(functions) >= 89
    assert [name for name in functions if not hasattr(B, name)] == []


@pytest.mark.parametrize("name", ["sum", "clip", "arange", "random_normal", "function"])
def test_a_function_has_the_arguments_of_the_backends(name):
    here, there = (list(inspect.signature(getattr(module, name)).parameters) for module in (B, faces))
    assert here == there


# What an array is already.


def test_an_array_is_its_own_value():
    assert B.eval(X) is X and B.get_value(X) is X
    assert B.batch_get_value([X, Y])[1] is Y


def test_an_array_knows_its_shape():
    assert B.shape(X) == B.get_variable_shape(X) == (3, 4)
    assert (B.ndim(X), B.dtype(X), B.dtype(N)) == (2, "float32", "int64")


def test_ifelse_is_an_if():
    assert B.ifelse(np.array(0), X, Y) is Y and B.ifelse(True, X, Y) is X


def test_shapes_may_be_arrays():
    assert B.reshape(X, np.array([4, 3])).shape == (4, 3)
    assert B.zeros(B.shape(X)).shape == (3, 4)


def test_what_is_given_is_not_changed():
    before = X.copy()
    B.fill_diagonal(X[:, :3], np.float32(7))
    B.variable(X)[...] = 0
    np.testing.assert_array_equal(X, before)


# Random numbers.


def test_draws_are_those_of_numpy_and_begin_anew_with_each_call():
    expected = np.random.RandomState(1234).normal(1.0, 2.0, (5, 2)).astype(np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(B.random_normal((5, 2), 1.0, 2.0), expected)
    np.testing.assert_array_equal(B.make_rng().normal(1.0, 2.0, (5, 2)).astype(np.float32), expected)


def test_a_generator_goes_on():
    rng, other = B.make_rng(5), np.random.RandomState(5)
    np.testing.assert_array_equal(B.random_uniform((3,), -1, 1, rng=rng), other.uniform(-1, 1, 3).astype(np.float32))
    p = np.array([0.1, 0.5, 0.9])
    expected = other.binomial(1, p, (4, 3)).astype(np.int32)
    np.testing.assert_array_equal(B.random_binomial((4, 3), p, dtype="int32", rng=rng), expected)


def test_floatx_is_the_dtype_of_what_is_made():
    with B.settings(floatx="float64"):
        made = [B.random_normal((2,)), B.random_uniform((2,)), B.random_binomial(2, 0.5), B.ones(2), B.variable(1)]
    assert {each.dtype.name for each in made} == {"float64"}


# What waits for values.


@pytest.mark.parametrize(
    "call",
    [
        lambda: B.placeholder(ndim=1),
        lambda: B.function([], X),
        lambda: B.scan(lambda x: x, X, n_steps=3),
        lambda: B.gradients(X, X),
        lambda: B.stop_gradient(X),
        lambda: B.until(True),
        lambda: B.set_value(X, X),
        lambda: B.batch_set_value([(X, X)]),
    ],
)
def test_what_waits_for_values_is_refused(call):
    with pytest.raises(NotImplementedError, match="arrays have their values already") as raised:
        call()
    assert "What to do: " in str(raised.value)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: B.dot(X, Y), "dot(x: float32"),
        (lambda: B.sum(X, axis=5), "sum(x: float32, 2 axes)"),
        (lambda: B.concatenate([X, V]), "concatenate(tensors[0]: float32, 2 axes, tensors[1]: float32, 1 axis)"),
    ],
)
def test_errors_name_the_function_and_its_arguments(call, words):
    with pytest.raises(ValueError, match="What to do") as raised:
        call()
    assert str(raised.value).startswith(words)


def test_the_references_compute():
    with nn.trace() as trace:
        B.exp(X)
        B.dot(X, Y.T)
    assert {row.backend for row in trace.rows()} <= {"reference"}
