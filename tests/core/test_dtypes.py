"""Dtypes of numbers, bfloat16 and its kin included."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import atled as nn
from atled.commands import USER_ERROR
from atled.dtypes import epsilon, float_dtype, is_float, is_narrow, is_number, largest

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.float16, np.float32, np.float64, BF16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
NUMBERS = [*FLOATS, np.int64, np.uint8, np.bool_]
OTHERS = [ml_dtypes.int4, "V2", "V8", object, "U3", "M8[s]", np.complex64, [("float", np.float32)]]


@pytest.mark.parametrize("dtype", [np.dtype(x) for x in [*NUMBERS, *OTHERS]], ids=str)
def test_it_is_told_what_is_a_float_and_what_a_number(dtype):
    assert is_float(dtype) == (dtype in map(np.dtype, FLOATS))
    assert is_number(dtype) == (dtype in map(np.dtype, NUMBERS))


def test_what_is_narrower_than_float32_is_narrow():
    assert [np.dtype(dtype).name for dtype in NUMBERS if is_narrow(np.dtype(dtype))] == [
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
    ]


@pytest.mark.parametrize("dtype", [np.dtype(x) for x in FLOATS], ids=str)
def test_a_float_is_found_by_its_name_and_knows_its_precision(dtype):
    assert float_dtype(dtype.name) == dtype
    one = np.ones((), dtype)
    assert np.array(1 + epsilon(dtype)).astype(dtype) > one
    assert np.array(1 + epsilon(dtype) / 2.1).astype(dtype) == one
    assert np.isfinite(np.array(largest(dtype), dtype))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("bfloat17", "neither NumPy nor ml_dtypes has a dtype of that name"),
        ("finfo", "neither NumPy nor ml_dtypes has a dtype of that name"),
        ("int64", "it is no floating-point dtype"),
        ("int4", "it is no floating-point dtype"),
    ],
)
def test_what_is_no_float_is_refused_by_name(name, wrong):
    with pytest.raises(ValueError, match=f"dtype '{name}': {wrong}"):
        float_dtype(name)


def test_arrays_of_bfloat16_are_arrays_like_others():
    a = nn.NdArray.from_numpy_array(np.array([1, 2.0078125, 3], np.float32).astype(BF16))
    assert a.dtype == BF16 and a.data.tolist() == [1, 2, 3]
    a.data = 1.01
    assert a.data.tolist() == [1.0078125] * 3
    a.fill(-2)
    assert a.dtype == BF16 and a.data.tolist() == [-2] * 3
    assert a.cast(np.float64).dtype == np.float64
    assert a.cast("bfloat16").dtype == BF16
    a.zero()
    assert a.data.tolist() == [0] * 3


def test_an_array_is_cast_to_dtypes_of_numbers_only():
    a = nn.NdArray((2,))
    for wrong in ("bfloat17", ml_dtypes.int4, "V2"):
        with pytest.raises(TypeError, match="not a dtype of numbers"):
            a.cast(wrong)


@pytest.mark.slow
def test_nothing_of_it_is_loaded_before_it_is_needed():
    program = """
import sys
import numpy as np
import atled as nn, atled.functions as F
with nn.context_scope(nn.Context("reference:half")):
    F.tanh(nn.NdArray((2,)))
assert "ml_dtypes" not in sys.modules
nn.Context("reference:bf16")
assert "ml_dtypes" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_without_ml_dtypes_bf16_is_refused_with_the_command_that_brings_it():
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
import atled as nn
from atled.commands import USER_ERROR
for ask in (lambda: nn.Context("reference:bf16"), lambda: nn.NdArray((2,)).cast("bfloat16")):
    try:
        ask()
    except (ValueError, ImportError) as error:
        print(error)
try:
    nn.NdArray((2,)).cast("text")
except TypeError as error:
    assert "not a dtype of numbers" in str(error)
nn.Context("reference:tf32")
from atled.commands import main
print(main(["warmup", "sim:bf16"]), main(["manifest", "sim", "--check"]))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "type config 'bf16' needs ml_dtypes: " in done.stdout
    assert done.stdout.count('What to do: pip install "atled[bf16]"') == 2
    assert f"{USER_ERROR} {USER_ERROR}" in done.stdout
    assert "atled: a warm-up of sim:bf16: type config 'bf16' needs ml_dtypes: " in done.stderr
    assert "atled: the manifest of plugin 'sim': type config 'bf16' needs ml_dtypes: " in done.stderr
    assert done.stderr.count('What to do: pip install "atled[bf16]"') == 2
