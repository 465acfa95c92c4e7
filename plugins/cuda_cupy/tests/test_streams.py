"""Streams whose states are arrays: the numbers of the reference, bit for bit, and what is drawn by them."""

import numpy as np
import pytest

from atled.ops import mrg31k3p
from atled.plugin import ArrayDesc, Call, op_spec
from atled_cuda_cupy.kernels import streams
from device_calls import computed, expected


def both(arrays, prepare, op, inputs, floats=(), **attributes):
    spec, descs = op_spec(op), [ArrayDesc(x.shape, x.dtype) for x in inputs]
    attributes = spec.check_attributes(attributes, descs)
    outputs = spec.infer_outputs(descs, attributes)
    told = {name: value for name, value in attributes.items() if name not in spec.float_names}
    call = Call(spec, tuple(descs), outputs, told, device_id="0")
    prepared = prepare(call)
    extra = []
    if prepared.workspace:
        extra = [arrays.allocate(ArrayDesc((prepared.workspace,), np.uint8), "0")]
    found = computed(arrays, prepared, inputs, outputs, floats, extra=extra)
    return found, expected(call, inputs, floats)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-2.0, 3.0), (1.0, 2.0)], ids=str)
@pytest.mark.parametrize(("count", "size"), [(1, 7), (300, 1027), (40, 9), (3, 0)])
def test_numbers_and_rows_are_those_of_the_reference(arrays, count, size, bounds, dtype):
    rows = mrg31k3p.substreams(np.array([1, 2, 3, 4, 5, 6], np.int32), count)
    found, wanted = both(
        arrays, streams.prepare_streams, "MRGUniform", [rows], bounds, shape=(size,), dtype=np.dtype(dtype)
    )
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("made", ["int64", "float32", "int8"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("op", ["MultinomialCounts", "ChoiceIndices"])
def test_outcomes_are_those_of_the_reference(arrays, op, dtype, made):
    rng = np.random.default_rng(0)
    p = rng.random((40, 17))
    p = np.where(rng.random(p.shape) < 0.2, 0, p / p.sum(axis=1, keepdims=True)).astype(dtype)
    unis = rng.random(120).astype(dtype)
    (found,), (wanted,) = both(arrays, streams.prepare_outcomes, op, [p, unis], dtype=np.dtype(made))
    np.testing.assert_array_equal(found, wanted)
