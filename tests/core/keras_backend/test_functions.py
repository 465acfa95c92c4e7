"""Each function against NumPy called directly, and its gradient against differences."""

import numpy as np
import pytest

import atled.keras_backend as B
import keras_calls
from keras_calls import CASES

STEP = 1e-6
"""Of central differences in float64: their errors are about STEP squared, and 1e-16 / STEP of rounding."""


def computed(case, dtype):
    arrays = keras_calls.arrays_of(case, dtype)
    inputs = keras_calls.inputs_of(arrays)
    found = case.call(*inputs)
    return found, B.function(inputs, found)(*arrays), case.numpy(*arrays)


@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_numpy_does(backend, name):
    expression, found, expected = computed(CASES[name], "float32")
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    assert (found.dtype, found.ndim) == (expression.dtype, expression.ndim)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_smooth])
def test_its_gradient_is_that_of_differences(backend, name):
    case = CASES[name]
    arrays = keras_calls.arrays_of(case, "float64")
    inputs = keras_calls.inputs_of(arrays)
    expected = case.numpy(*arrays)
    weights = np.random.default_rng(7).normal(size=np.shape(expected))
    wanted = [position for position, array in enumerate(arrays) if array.dtype.kind == "f"]
    loss = B.sum(case.call(*inputs) * weights)
    found = B.function(inputs, B.gradients(loss, [inputs[each] for each in wanted]))(*arrays)
    for position, gradient in zip(wanted, found, strict=True):
        np.testing.assert_allclose(gradient, differences(case, arrays, position, weights), rtol=1e-6, atol=1e-7)


def differences(case, arrays, position, weights):
    """The gradient of the weighted sum with respect to one array."""
    found = np.empty_like(arrays[position])
    for place in np.ndindex(found.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = arrays[position].copy()
            moved[place] += step
            changed = [*arrays[:position], moved, *arrays[position + 1 :]]
            sides.append(np.sum(case.numpy(*changed) * weights))
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found
