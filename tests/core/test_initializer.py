"""Initializers: the numbers they give, and where they draw them from."""

import copy
import math
import pickle

import numpy as np
import pytest

from atled import initializer as I

DRAWN = [
    (lambda rng: I.NormalInitializer(0.5, rng), lambda rng, shape: rng.randn(*shape) * 0.5),
    (lambda rng: I.UniformInitializer((-2, 3), rng), lambda rng, shape: rng.uniform(-2, 3, size=shape)),
    (lambda rng: I.UniformIntInitializer((2, 9), rng), lambda rng, shape: rng.randint(2, 9, size=shape)),
]


@pytest.mark.parametrize("make, expected", DRAWN)
@pytest.mark.parametrize("shape", [(3, 4), (5,), (), (0, 2)])
def test_with_rng_the_numbers_are_its_own(make, expected, shape):
    given = make(np.random.RandomState(3))(shape)
    assert given.shape == shape
    np.testing.assert_array_equal(given, expected(np.random.RandomState(3), shape))


@pytest.mark.parametrize("make, expected", DRAWN)
def test_without_rng_the_numpy_random_module_is_drawn_from(make, expected):
    state = np.random.get_state()
    try:
        np.random.seed(7)
        given = make(None)([2, 3])
        following = np.random.uniform()
    finally:
        np.random.set_state(state)
    rng = np.random.RandomState(7)
    np.testing.assert_array_equal(given, expected(rng, (2, 3)))
    assert following == rng.uniform()


@pytest.mark.parametrize("make, _", DRAWN)
def test_a_generator_will_do_as_rng(make, _):
    given = make(np.random.default_rng(1))((4,))
    np.testing.assert_array_equal(given, make(np.random.default_rng(1))((4,)))


@pytest.mark.parametrize("make, _", DRAWN)
def test_an_initializer_can_be_copied_and_pickled(make, _):
    initializer = make(None)
    assert repr(copy.deepcopy(initializer)) == repr(pickle.loads(pickle.dumps(initializer))) == repr(initializer)


def test_a_constant_fills_any_shape():
    np.testing.assert_array_equal(I.ConstantInitializer()((2, 3)), np.zeros((2, 3)))
    np.testing.assert_array_equal(I.ConstantInitializer(0.5)([2]), [0.5, 0.5])
    assert I.ConstantInitializer(3)(()).shape == ()


def test_repr_names_the_class_and_its_numbers():
    made = [I.ConstantInitializer(), I.NormalInitializer(0.1), I.UniformInitializer(), I.UniformIntInitializer()]
    assert [repr(item) for item in made] == [
        "ConstantInitializer(0)",
        "NormalInitializer(0.1)",
        "UniformInitializer((-1, 1))",
        "UniformIntInitializer((0, 10))",
    ]


def test_the_base_class_says_what_to_define():
    with pytest.raises(NotImplementedError, match="define __call__"):
        I.BaseInitializer()((2,))


@pytest.mark.parametrize(
    "make, wrong",
    [
        (lambda: I.NormalInitializer(-1), "not a standard deviation"),
        (lambda: I.NormalInitializer(float("nan")), "not a standard deviation"),
        (lambda: I.UniformInitializer((1, -1)), "not below"),
        (lambda: I.UniformInitializer(3), "not two numbers"),
        (lambda: I.UniformIntInitializer((2, 2)), "not below"),
        (lambda: I.UniformIntInitializer((1, 2, 3)), "not two numbers"),
    ],
)
def test_spreads_that_make_no_sense_are_refused(make, wrong):
    with pytest.raises(ValueError, match=f"{wrong}[\\s\\S]*What to do"):
        make()


def test_the_spreads_follow_their_formulas():
    assert I.calc_normal_std_he_forward(4, 5, (3, 2)) == math.sqrt(2 / 24)
    assert I.calc_normal_std_he_backward(4, 5, (3, 2)) == math.sqrt(2 / 30)
    assert I.calc_normal_std_glorot(4, 5, (3, 2)) == math.sqrt(2 / 29)
    assert I.calc_uniform_lim_glorot(4, 5, (3, 2)) == (-math.sqrt(6 / 29), math.sqrt(6 / 29))
    assert I.calc_uniform_lim_glorot(4, 5) == (-math.sqrt(6 / 9), math.sqrt(6 / 9))
    assert I.calc_normal_std_glorot(np.int64(4), 5, np.array([3])) == math.sqrt(2 / 17)


@pytest.mark.parametrize(
    "calc",
    [I.calc_normal_std_he_forward, I.calc_normal_std_he_backward, I.calc_normal_std_glorot, I.calc_uniform_lim_glorot],
)
def test_spreads_of_layers_that_cannot_be_are_refused(calc):
    with pytest.raises(ValueError, match="negative"):
        calc(-1, 10)
    with pytest.raises(ValueError, match="no weight leads to a value"):
        calc(0, 0)
