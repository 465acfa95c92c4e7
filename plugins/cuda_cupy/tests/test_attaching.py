"""Formulas of other steps in a kernel that takes them in: what is read, computed and stored."""

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Call, op_spec
from atled_cuda_cupy.compiling import type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.attaching import attached_text
from atled_cuda_cupy.launching import Launch, queued
from device_calls import computed, expected

pytest.importorskip("ml_dtypes")
COPY = """
extern "C" __global__ void copy(const T *x, T *y OPERANDS, const Floats floats, const Words words) {
    EACH(at, words.w[0]) STORE_0(y, at, READ_0(x, at));
}
"""


def formula(op, shapes, dtype):
    descs = tuple(ArrayDesc(shape, dtype) for shape in shapes)
    return Call(op_spec(op), descs, (ArrayDesc(np.broadcast_shapes(*shapes), dtype),), {}, device_id="0")


def copying(dtype, before, after, wanted):
    desc = ArrayDesc((6, 8), dtype)
    call = Call(op_spec("Identity"), (desc,), (desc,), {}, device_id="0")
    return call.attached({0: before} if before else {}, {0: after} if after else {}, (wanted,))


def prepared(call):
    kind, real = type_names(call.outputs[0].dtype)
    source = attached_text(call, reads=(0,), stores=(0,), real=real) + COPY
    launch = Launch(device("0"), source, "copy", 1, 64, (48,), {"T": kind}, floats=call.float_count)

    def steps(*arrays):
        own, attached, _ = call.split(arrays)
        return [(launch, (*own, *attached), 0)]

    return queued(call, steps)


PLACES = {
    "nowhere": (None, None, True),
    "before": (("Add2", [(6, 8), (8,)]), None, True),
    "before, with a float": (("PowScalar", [(6, 8)]), None, True),
    "behind": (None, ("Tanh", [(6, 8)]), False),
    "behind, stored as well": (None, ("Mul2", [(6, 8), (6, 1)]), True),
    "on both sides, with floats": (("MulScalar", [(48,)]), ("AddScalar", [(2, 3, 8)]), False),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_formulas_read_and_store_elements_of_the_arrays_dtype(arrays, place, dtype):
    before, after, wanted = (formula(*one, dtype) if isinstance(one, tuple) else one for one in place)
    call = copying(dtype, before, after, wanted)
    rng = np.random.default_rng(0)
    inputs = [None if desc is None else rng.uniform(0.5, 1.5, desc.shape).astype(desc.dtype) for desc in call.reads]
    floats = [1.5 + number for number in range(call.float_count)]
    found = computed(arrays, prepared(call), inputs, call.writes, floats)
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    for got, want in zip(found, expected(call, inputs, floats), strict=True):
        if got is not None:
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance)
