"""Functions of the Keras-style backend on an OpenCL device, with what falls back counted."""

import numpy as np
import pytest

import keras_calls
from keras_calls import CASES

pytest.importorskip("atled_opencl", reason="the example is not installed")

import atled as nn
import atled.keras_backend as B
from atled.plugin import Usable
from atled_contexts import context_scope, get_extension_context
from atled_opencl.plugin import PLUGIN

_PROBED = PLUGIN.atled_probe()
pytestmark = pytest.mark.skipif(
    not isinstance(_PROBED, Usable),
    reason="" if isinstance(_PROBED, Usable) else f"{_PROBED.reason}; {_PROBED.remedy}, or make check-opencl",
)


LEFT_TO_THE_HOST = {
    "All", "Any", "ArgMax", "ArgMin", "Cast", "Concatenate", "CumProd", "CumSum", "Diagonal", "DiagonalMatrix", "Dot",
    "Flip", "LogSumExp", "MaxTies", "MinTies", "OneHot", "Product", "Repeat", "SVD", "Slice", "Solve", "Stack", "Sum",
    "Take", "Tile", "Transpose",
}  # fmt: skip  # a table
"""What the example has no kernel for, or none on integers and float64; all formulas are computed on the device."""


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_what_numpy_does(name):
    case = CASES[name]
    arrays = keras_calls.arrays_of(case, "float32")
    nn.reset_fallback_counts()
    with context_scope(get_extension_context("opencl", fallback="quiet")):
        inputs = keras_calls.inputs_of(arrays)
        found = B.function(inputs, case.call(*inputs))(*arrays)
    np.testing.assert_allclose(found, case.numpy(*arrays), rtol=1e-4, atol=1e-4)
    assert {op for op, _ in nn.fallback_counts()} <= LEFT_TO_THE_HOST
