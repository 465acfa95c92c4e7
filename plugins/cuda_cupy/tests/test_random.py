"""Ops that draw random numbers: those of the reference, to the last bit where nothing but IEEE 754 is between."""

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Call, op_spec
from atled_cuda_cupy.kernels import random, rearranging
from device_calls import computed, expected

pytest.importorskip("ml_dtypes")
STATES = [np.array(state, np.int64) for state in ([7, 0], [-3, 5], [2**62 + 11, 2**40 + 1])]
DTYPES = "float16", "bfloat16", "float32", "float64"


def draw(op, shape, dtype, **attributes):
    desc = ArrayDesc(shape, dtype)
    attributes = {"shape": shape, "seed": -1, **attributes}
    if op != "Randint":
        attributes["dtype"] = desc.dtype
    return Call(op_spec(op), (ArrayDesc((2,), "int64"),), (desc,), attributes, device_id="0")


def both(arrays, module_prepare, call, inputs, floats=(), **keywords):
    outputs = [desc if wanted else None for desc, wanted in zip(call.outputs, call.wanted, strict=True)]
    found = computed(arrays, module_prepare(call), inputs, outputs, floats, is_random=True, **keywords)
    return found, expected(call, inputs, floats)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("state", STATES, ids=str)
@pytest.mark.parametrize("shape", [(), (3, 5), (1027,)])
def test_uniform_numbers_are_those_of_the_reference(arrays, shape, state, dtype):
    call = draw("Rand", shape, dtype)
    ((found,), (wanted,)) = both(arrays, random.prepare_numbers, call, [state], [-2.5, 3.1])
    if dtype == "bfloat16":  # NumPy's cast rounds a float64 twice
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=2**-7)
    else:
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("state", STATES, ids=str)
@pytest.mark.parametrize("bounds", [(-3, 4), (0, 1), (-(2**31), 2**31)])
def test_whole_numbers_are_those_of_the_reference(arrays, bounds, state):
    call = draw("Randint", (67,), "int32", low=bounds[0], high=bounds[1])
    ((found,), (wanted,)) = both(arrays, random.prepare_numbers, call, [state])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_numbers_are_those_of_the_reference(arrays, dtype):
    call = draw("Randn", (1001,), dtype)
    ((found,), (wanted,)) = both(arrays, random.prepare_numbers, call, [STATES[0]], [0.25, 2.0])
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-7, "float64": 1e-13}[dtype]
    # Logarithms and sines may differ in the last bit of float64.
    np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("offset", [0, 1])
def test_arrays_that_are_not_aligned_get_the_same_numbers(arrays, offset):
    call = draw("Rand", (43,), "float32")
    ((found,), (wanted,)) = both(arrays, random.prepare_numbers, call, [STATES[1]], [0.0, 1.0], offset=offset)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", ["Rand", "RandomFlip"])
def test_indices_of_64_bits_find_the_same_numbers(arrays, monkeypatch, op):
    monkeypatch.setattr(random, "MOST_NARROW", 0)
    monkeypatch.setattr(rearranging, "MOST_NARROW", 0)
    if op == "Rand":
        ((found,), (wanted,)) = both(
            arrays, random.prepare_numbers, draw(op, (43,), "float32"), [STATES[1]], [0.0, 1.0]
        )
    else:
        x = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
        (found, _), (wanted, _) = both(arrays, rearranging.prepare, rearrange(op, x, axes=(1, 2)), [x, STATES[1]])
    np.testing.assert_array_equal(found, wanted)


def rearrange(op, x, **given):
    spec, desc = op_spec(op), ArrayDesc(x.shape, x.dtype)
    attributes = spec.check_attributes({"seed": -1, **given}, [desc])
    outputs = tuple(spec.infer_outputs([desc], attributes))
    return Call(spec, (desc, ArrayDesc((2,), "int64")), outputs, attributes, device_id="0")


def dropout(shape, dtype, wanted=(True, True)):
    desc = ArrayDesc(shape, dtype)
    spec = op_spec("Dropout")
    return Call(spec, (desc, ArrayDesc((2,), "int64")), (desc, desc), {"seed": -1}, device_id="0", wanted=wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("offset", [0, 1])
def test_dropout_drops_what_the_reference_drops(arrays, p, dtype, offset):
    call = dropout((5, 67), dtype)
    x = np.random.default_rng(0).standard_normal((5, 67)).astype(ArrayDesc((), dtype).dtype)
    found, wanted = both(arrays, random.prepare_dropout, call, [x, STATES[2]], [p], offset=offset)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got.astype(float), want.astype(float))


def test_a_mask_that_nobody_reads_is_left_out(arrays):
    x = np.ones(10, np.float32)
    found, wanted = both(
        arrays, random.prepare_dropout, dropout((10,), "float32", (True, False)), [x, STATES[0]], [0.5]
    )
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1] is None and wanted[1] is None


CALLS = [(sample, op) for op in ("RandomCrop", "RandomFlip", "RandomShift") for sample in op_spec(op).samples()]


@pytest.mark.parametrize(("sample", "op"), CALLS, ids=lambda one: one if isinstance(one, str) else "")
def test_samples_are_rearranged_as_by_the_reference(arrays, sample, op):
    x = np.random.default_rng(0).standard_normal(sample.inputs[0].shape).astype(np.float32)
    call = rearrange(op, x, **sample.attributes)
    for state in STATES:
        found, wanted = both(arrays, rearranging.prepare, call, [x, state])
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
