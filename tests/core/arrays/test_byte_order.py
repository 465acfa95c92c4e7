"""Arrays of the other byte order are taken in this machine's, which kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.keras_backend as K
import atled.parametric_functions as PF
from atled.neon.backends import cleanup_backend, gen_backend

SWAPPED = [np.dtype(name).newbyteorder("S") for name in ("f4", "f8", "f2", "i4", "i8", "u2")]
VALUES = np.arange(6).reshape(2, 3)

pytestmark = pytest.mark.parametrize("dtype", SWAPPED, ids=str)


def is_native(dtype: Any) -> bool:
    return bool(np.dtype(dtype).isnative)


def test_an_array_keeps_its_dtype_otherwise(dtype: np.dtype) -> None:
    array = nn.NdArray.from_numpy_array(VALUES.astype(dtype))
    assert is_native(array.dtype) and array.dtype == dtype.newbyteorder("S")
    np.testing.assert_array_equal(array.data, VALUES)
    np.testing.assert_array_equal(F.relu(array).data, VALUES)


def test_a_variable_is_computed_with(dtype: np.dtype) -> None:
    y = nn.Variable.from_numpy_array(VALUES.astype(dtype)) * 2
    y.forward()
    np.testing.assert_array_equal(y.d, VALUES * 2)


def test_what_is_assigned_is_converted(dtype: np.dtype) -> None:
    x = nn.Variable((2, 3))
    x.d = VALUES.astype(dtype)
    assert x.data.dtype == np.float32
    np.testing.assert_array_equal(x.d, VALUES)


def test_a_cast_gives_the_order_of_this_machine(dtype: np.dtype) -> None:
    array = nn.NdArray((2, 3))
    array.data = VALUES
    assert is_native(array.cast(dtype).dtype)  # type: ignore[union-attr]  # a view, without a Context
    np.testing.assert_array_equal(F.relu(array).data, VALUES)
    assert is_native(nn.NdArray.full((2,), 3, dtype).dtype)


def test_an_inference_takes_indices(dtype: np.dtype) -> None:
    nn.clear_parameters()
    x = nn.Variable((2, 3))
    infer = nn.inference(PF.embed(x, 6, 4, name="e"), x)
    given = VALUES.astype(dtype)
    if np.can_cast(dtype, np.float32) or dtype.kind in "iu":
        np.testing.assert_array_equal(infer(given), infer(VALUES))


@pytest.fixture
def be() -> Iterator[Any]:
    yield gen_backend("cpu", batch_size=2)
    cleanup_backend()


def test_tensors_of_neon_are_computed_with(be: Any, dtype: np.dtype) -> None:
    for tensor in (be.array(VALUES.astype(dtype), dtype=dtype), be.zeros((2, 3), dtype=dtype)):
        tensor[:] = VALUES.astype(dtype)
        found = be.empty((2, 3))
        found[:] = tensor * 2
        assert is_native(tensor.dtype)
        np.testing.assert_array_equal(found.get(), VALUES * 2)


def test_the_keras_style_backend_takes_them(dtype: np.dtype) -> None:
    given = VALUES.astype(dtype)
    variable = K.variable(given, dtype=dtype)
    np.testing.assert_array_equal(K.eval(variable * 2), VALUES * 2)
    np.testing.assert_array_equal(K.eval(K.variable(VALUES) + given), VALUES * 2)
    if np.can_cast(dtype, np.float32):
        x = K.placeholder(ndim=2)
        np.testing.assert_array_equal(K.function([x], [x * 2])(given)[0], VALUES * 2)
