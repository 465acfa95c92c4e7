"""One seed for initializers, random functions and the order of data."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.initializer as I
import atled.parametric_functions as PF
import atled.random
from atled.utils.data_iterator import data_iterator_simple


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(atled.random, "_SEEDS", atled.random._Seeds())
    nn.clear_parameters()
    yield
    nn.clear_parameters()


def drawn(auto_forward=False):
    """What a program draws by chance: parameters, functions in a graph and at once, the order of samples."""
    nn.clear_parameters()
    found = []
    with nn.auto_forward(auto_forward):
        PF.affine(nn.Variable((4, 3)), 2)
        found.append(nn.get_parameters()["affine/W"].d.copy())
        for make in (lambda: F.rand(shape=(9,)), lambda: F.randn(shape=(9,)), lambda: F.rand(shape=(9,))):
            y = make()
            for _ in range(2):
                y.forward()
                found.append(y.d.copy())
    ones = nn.NdArray.from_numpy_array(np.ones(64))
    found += [F.dropout(ones, 0.5).data.copy() for _ in range(3)]
    with data_iterator_simple(lambda i: (np.array(i),), 50, 50, shuffle=True) as batches:
        found.append(batches.next()[0])
    return found


@pytest.mark.parametrize("auto_forward", [False, True])
def test_equal_seeds_draw_the_same_and_other_seeds_otherwise(auto_forward):
    nn.seed(5)
    first = drawn(auto_forward)
    nn.seed(5)
    again = drawn(auto_forward)
    nn.seed(6)
    other = drawn(auto_forward)
    for one, two, three in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, two)
        assert (one != three).any()


def test_what_is_drawn_after_one_seed_differs_from_function_to_function():
    nn.seed(5)
    found = drawn()[1:7]
    assert len({values.tobytes() for values in found}) == len(found)


def test_seed_says_what_it_sets():
    nn.seed(5)
    first = drawn()
    nn.seed(5, set_function_seed=False)
    parameters_only = drawn()
    np.testing.assert_array_equal(first[0], parameters_only[0])
    assert (first[1] != parameters_only[1]).any()
    nn.seed(6, set_parameter_seed=False, set_function_seed=False, set_data_seed=False)
    np.testing.assert_array_equal(first[-1], drawn()[-1])


def test_initial_values_are_those_of_numpys_generator_of_that_seed():
    nn.seed(7)
    np.random.seed(1)  # which says nothing any more
    np.testing.assert_array_equal(I.NormalInitializer()((2,)), np.random.RandomState(7).randn(2))
    nn.seed(7)
    np.testing.assert_array_equal(atled.random.prng.rand(3), np.random.RandomState(7).rand(3))


def test_without_a_seed_initializers_draw_from_numpys_module_and_data_from_313():
    np.random.seed(3)
    found = I.UniformInitializer()((4,))
    np.random.seed(3)
    np.testing.assert_array_equal(found, np.random.uniform(-1, 1, 4))
    with data_iterator_simple(lambda i: (np.array(i),), 50, 50, shuffle=True) as batches:
        order = batches.next()[0]
    nn.seed(313)
    with data_iterator_simple(lambda i: (np.array(i),), 50, 50, shuffle=True) as batches:
        np.testing.assert_array_equal(order, batches.next()[0])


def test_what_has_a_generator_or_a_seed_of_its_own_keeps_it():
    nn.seed(1)
    mine = [I.NormalInitializer(rng=np.random.RandomState(2))((3,)), F.rand(shape=(3,), seed=4)]
    nn.seed(9)
    other = [I.NormalInitializer(rng=np.random.RandomState(2))((3,)), F.rand(shape=(3,), seed=4)]
    mine[1].forward(), other[1].forward()
    np.testing.assert_array_equal(mine[0], other[0])
    np.testing.assert_array_equal(mine[1].d, other[1].d)


@pytest.mark.parametrize("wrong, error", [(-1, ValueError), (2**31, ValueError), (1.5, TypeError), ("a", TypeError)])
def test_what_is_no_seed_is_refused(wrong, error):
    with pytest.raises(error, match="use a whole number from 0 to 2147483647"):
        nn.seed(wrong)
