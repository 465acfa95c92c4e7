"""Functions of the Keras-style backend on the device, with what falls back counted."""

import numpy as np
import pytest

import atled as nn
import atled.keras_backend as B
import keras_calls
from atled_contexts import context_scope, get_extension_context
from keras_calls import CASES

ON_THE_HOST = {
    "solve": {"Solve"},
    "solve_of_columns": {"Solve"},
    "svd": {"SVD"},
    # A part of an array of integers, where the index of another one is taken from it.
    "arange_of_data": {"Slice"},
    "slices_by_data": {"Slice"},
    "an_element": {"Slice"},
}
"""By function the ops that the device leaves to the host: LAPACK's, and slices of integers."""


@pytest.fixture
def on_the_device(cuda):
    """The device's Context in force."""
    with context_scope(get_extension_context("cuda", fallback="quiet")):
        yield


@pytest.mark.parametrize("name", CASES)
def test_a_function_is_computed_on_the_device(on_the_device, name):
    case = CASES[name]
    arrays = keras_calls.arrays_of(case, "float32")
    inputs = keras_calls.inputs_of(arrays)
    found = B.function(inputs, case.call(*inputs))(*arrays)
    np.testing.assert_allclose(found, case.numpy(*arrays), rtol=1e-4, atol=1e-4)
    assert {op for op, _ in nn.fallback_counts()} == ON_THE_HOST.get(name, set())
