"""Initializers fill tensors with what NumPy draws, in the order in which they are asked."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend
from atled.neon.initializers import (
    Array,
    Constant,
    Gaussian,
    GlorotUniform,
    IdentityInit,
    Initializer,
    Kaiming,
    Orthonormal,
    Uniform,
    Xavier,
)

SHAPE = (3, 5)
DRAWS = [
    (Uniform(), lambda rng, shape: rng.uniform(0.0, 1.0, shape)),
    (Uniform(low=-0.5, high=0.25), lambda rng, shape: rng.uniform(-0.5, 0.25, shape)),
    (Gaussian(), lambda rng, shape: rng.normal(0.0, 1.0, shape)),
    (Gaussian(loc=2.0, scale=0.01), lambda rng, shape: rng.normal(2.0, 0.01, shape)),
    (GlorotUniform(), lambda rng, shape: rng.uniform(-np.sqrt(6 / 8), np.sqrt(6 / 8), shape)),
    (Xavier(), lambda rng, shape: rng.uniform(-1.0, 1.0, shape)),
    (Xavier(local=False), lambda rng, shape: rng.uniform(-np.sqrt(3 / 5), np.sqrt(3 / 5), shape)),
    (Kaiming(), lambda rng, shape: rng.normal(0, np.sqrt(2 / 3), shape)),
    (Kaiming(local=False), lambda rng, shape: rng.normal(0, np.sqrt(2 / 5), shape)),
]
NAMES = [f"{type(row[0]).__name__}-{number}" for number, row in enumerate(DRAWS)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("initializer, drawn", DRAWS, ids=NAMES)
def test_draws_are_those_of_the_generator_bit_for_bit(be, initializer, drawn, dtype):
    first, second = be.empty(SHAPE, dtype=dtype), be.empty((*SHAPE, 2), dtype=dtype)
    be.rng_reset()
    assert initializer.fill(first) is None
    initializer.fill(second)
    rng = np.random.RandomState(1)
    np.testing.assert_array_equal(first.get(), drawn(rng, SHAPE).astype(dtype))
    np.testing.assert_array_equal(second.get(), drawn(rng, (*SHAPE, 2)).astype(dtype))


def test_a_constant_is_a_number_or_what_a_tensor_has(be):
    values = np.arange(15.0).reshape(SHAPE)
    for val, wanted in [(0.5, 0.5), (values, values), (be.array(values), values)]:
        param = be.zeros(SHAPE)
        Constant(val).fill(param)
        np.testing.assert_array_equal(param.get(), np.broadcast_to(wanted, SHAPE))
    assert Constant().val == 0.0


def test_the_description_of_an_array_has_no_tensor(cpu):
    values = np.arange(15.0).reshape(SHAPE)
    described = Array(cpu.array(values)).get_description()
    assert type(described["config"]["val"]) is np.ndarray
    param = cpu.zeros(SHAPE)
    Array.gen_class(described["config"]).fill(param)
    np.testing.assert_array_equal(param.get(), values)


def test_an_identity_is_in_the_first_columns(be):
    param = be.empty(SHAPE)
    IdentityInit().fill(param)
    np.testing.assert_array_equal(param.get(), np.eye(3, 5))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_rows_or_columns_are_orthogonal(be, shape):
    param = be.empty(shape, dtype=np.float64)
    Orthonormal(scale=2.0).fill(param)
    matrix = param.get() if shape[0] <= shape[1] else param.get().T
    np.testing.assert_allclose(matrix @ matrix.T, 4 * np.eye(min(shape)), atol=1e-12)


def test_subclasses_say_what_they_fill_with(cpu):
    class Rising(Initializer):
        def values(self, shape):
            return np.arange(15.0).reshape(shape)

    param = cpu.empty(SHAPE)
    Rising().fill(param)
    np.testing.assert_array_equal(param.get(), np.arange(15.0).reshape(SHAPE))
    with pytest.raises(NotImplementedError, match="define values, or fill, in Initializer"):
        Initializer().fill(param)


@pytest.mark.parametrize(
    "initializer, shape, wrong",
    [
        (Constant(np.ones((1, 5))), SHAPE, r"(?s)\[3, 5\].*val has shape \[1, 5\]"),
        (IdentityInit(), (5, 3), "as many columns as rows"),
        (IdentityInit(), (3, 3, 3), "two axes"),
        (Orthonormal(), (3, 3, 3), "two axes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(cpu, initializer, shape, wrong):
    param = cpu.zeros(shape)
    with pytest.raises(ValueError, match=wrong):
        initializer.fill(param)
    assert not param.get().any()


def test_nothing_is_drawn_for_what_cannot_be_filled(cpu):
    before = cpu.rng_get_state()[1].copy()
    with pytest.raises(TypeError, match="param is of type ndarray"):
        Uniform().fill(np.ones(SHAPE))
    param = cpu.zeros(SHAPE)
    cleanup_backend()
    with pytest.raises(ValueError, match="cleaned up"):
        Uniform().fill(param)
    np.testing.assert_array_equal(cpu.rng_get_state()[1], before)


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="low is of type str"):
        Uniform(low="0")
    with pytest.raises(ValueError, match="high is nan"):
        Uniform(high=float("nan"))
    with pytest.raises(ValueError, match="not negative"):
        Gaussian(scale=-1)
    with pytest.raises(TypeError, match="val is of type list"):
        Constant([1.0])
