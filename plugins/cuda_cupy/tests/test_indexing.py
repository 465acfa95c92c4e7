"""Elements in another arrangement: shapes that take each way through the kernels, beside the samples of the specs."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import get_extension_context
from atled_contexts.lookup import implementations

DTYPES = {"float16": "half", "float32": "float", "float64": "double"}


def draw(*shape, dtype="float32"):
    """Numbers that float16 holds exactly."""
    return np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)


def run(function, *inputs, **attributes):
    """The result of a function on the device, in the dtype of the first input."""
    with nn.context_scope(context(inputs[0].dtype)):
        given = [nn.NdArray.from_numpy_array(x) for x in inputs]
        return function(*given, **attributes).data


def context(dtype):
    """The preset in which a dtype is computed, without fallback."""
    return get_extension_context("cuda", type_config=DTYPES[np.dtype(dtype).name], fallback="raise")


def prepared(name, shapes, dtype="float32", **attributes):
    """What prepare answers for a call."""
    spec = op_spec(name)
    inputs = tuple(ArrayDesc(shape, np.dtype(dtype)) for shape in shapes)
    attributes = spec.normalize(attributes, *inputs)
    call = Call(spec, inputs, spec.infer_outputs(inputs, attributes), attributes, device_id="0")
    (implementation,) = implementations(name, "cuda")
    return implementation.prepare(call)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((70, 45), (1, 0)),
        ((3, 33, 70), (0, 2, 1)),
        ((5, 40, 6, 34), (3, 0, 2, 1)),
        ((4, 70, 3), (0, 2, 1)),
        ((4, 3, 70), (0, 2, 1)),
        ((20, 9, 4), (1, 0, 2)),
        ((12, 40, 4), (1, 0, 2)),
        ((7, 6, 5, 4, 3), (2, 4, 1, 3, 0)),
    ],
)
def test_transposes(shape, axes, dtype):
    x = draw(*shape, dtype=dtype)
    np.testing.assert_array_equal(run(F.transpose, x, axes=axes), x.transpose(axes))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "attributes",
    [
        {"start": (1, 0, 0), "stop": (5, 6, 8)},
        {"start": (0, 5, 0), "stop": (6, 0, 8), "step": (2, -2, 1)},
        {"start": (0, 0, 4), "stop": (6, 7, 8)},
        {"start": (0, 0, 7), "stop": (6, 7, -9), "step": (5, 3, -3)},
    ],
)
def test_slices_and_their_gradients(attributes, dtype):
    x = draw(6, 7, 8, dtype=dtype)
    parts = tuple(map(slice, attributes["start"], attributes["stop"], attributes.get("step", (1, 1, 1))))
    np.testing.assert_array_equal(run(F.slice, x, **attributes), x[parts])
    with nn.context_scope(context(dtype)):
        given = nn.Variable.from_numpy_array(x, need_grad=True)
        y = F.slice(given, **attributes)
        y.forward()
        y.backward(nn.NdArray.from_numpy_array(x[parts]))
    expected = np.zeros_like(x)
    expected[parts] = x[parts]
    np.testing.assert_array_equal(given.g, expected)


@pytest.mark.parametrize("count", [1, 3, 70])
@pytest.mark.parametrize("width", [1, 4, 8])
def test_many_arrays_are_joined_and_split(count, width):
    parts = [draw(5, 3, width) + number for number in range(count)]
    np.testing.assert_array_equal(run(F.concatenate, *parts, axis=1), np.concatenate(parts, axis=1))
    np.testing.assert_array_equal(run(F.stack, *parts, axis=1), np.stack(parts, axis=1))
    with nn.context_scope(context("float32")):
        found = F.split(nn.NdArray.from_numpy_array(np.stack(parts, axis=2)), axis=2)
    for one, part in zip(found if isinstance(found, (list, tuple)) else [found], parts, strict=True):
        np.testing.assert_array_equal(one.data, part)


def test_arrays_of_different_sizes_are_joined():
    parts = [draw(3, 4, 2), draw(3, 0, 2), draw(3, 1, 2), draw(3, 9, 2)]
    np.testing.assert_array_equal(run(F.concatenate, *parts, axis=1), np.concatenate(parts, axis=1))


@pytest.mark.parametrize(
    ("widths", "mode"),
    [
        ((1, 2), "constant"),
        ((4, 4), "constant"),
        ((1, 1, 2, 0, 0, 0), "constant"),
        ((3, 1, 2, 5), "reflect"),
        ((1, 2, 0, 0), "reflect"),
    ],
)
def test_padding(widths, mode):
    x = draw(3, 6, 8)
    pairs = [(0, 0)] * (3 - len(widths) // 2) + list(zip(widths[::2], widths[1::2], strict=True))
    options = {"constant_values": 2.5} if mode == "constant" else {}
    expected = np.pad(x, pairs, mode=mode, **options)
    np.testing.assert_array_equal(run(F.pad, x, pad_width=widths, mode=mode, constant_value=2.5), expected)


@pytest.mark.parametrize("offset", [1, 2])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_arrays_that_begin_between_packs(arrays, where, dtype, offset):
    """Arrays that were made elsewhere begin at any element."""
    shape, size = (6, 5, 8), 240
    made = prepared("Slice", [shape], dtype, start=(1, 0, 0), stop=(6, 5, 8), step=(2, 1, 1))
    itemsize = np.dtype(dtype).itemsize
    memory = [arrays.allocate(ArrayDesc((itemsize * (size + 8),), np.dtype(np.uint8)), "0") for _ in range(2)]
    given = arrays.part(memory[0], offset * itemsize, ArrayDesc(shape, np.dtype(dtype)))
    result = arrays.part(memory[1], offset * itemsize, ArrayDesc((3, 5, 8), np.dtype(dtype)))
    x = draw(*shape, dtype=dtype)
    arrays.upload(x, given)
    made.run(given, result)
    found = np.empty((3, 5, 8), dtype)
    arrays.download(result, found)
    np.testing.assert_array_equal(found, x[1:6:2])


def test_kernels_that_count_in_64_bits(monkeypatch):
    """Real arrays of so many elements do not fit into a test."""
    from atled_cuda_cupy.kernels import indexing

    monkeypatch.setattr(indexing, "is_wide", lambda *_: True)
    x = draw(11, 37, 41)  # shapes that no other test prepares
    np.testing.assert_array_equal(run(F.transpose, x, axes=(0, 2, 1)), x.transpose(0, 2, 1))
    np.testing.assert_array_equal(run(F.pad, x, pad_width=(1, 2, 3, 4)), np.pad(x, ((0, 0), (1, 2), (3, 4))))
    np.testing.assert_array_equal(run(F.concatenate, x, x, axis=1), np.concatenate((x, x), axis=1))
    np.testing.assert_array_equal(run(F.flip, x, axes=(1,)), x[:, ::-1])


MANY = 2**30


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "is_wide"),
    [
        ("Flip", [(MANY,)], {"axes": (0,)}, False),
        ("Pad", [(MANY,)], {"pad_width": (1, 1), "mode": "reflect", "constant_value": 0.0}, True),
        ("Shift", [(MANY,)], {"shifts": (1,), "border_mode": "reflect"}, True),
        ("ShiftGrad", [(MANY // 2,)], {"shifts": (1,), "border_mode": "reflect"}, True),
        ("ShiftGrad", [(2, MANY // 4)], {"shifts": (0, 1), "border_mode": "reflect"}, False),
        ("Embed", [(5,), (MANY // 8, 17)], {}, True),
        ("ConfusionMatrix", [(3, 40_000), (3, 1)], {"axis": 1}, True),
        ("ConfusionMatrix", [(3, 4_000), (3, 1)], {"axis": 1}, False),
    ],
)
def test_what_is_computed_of_places_fits_into_the_indices(monkeypatch, where, op, shapes, attributes, is_wide):
    from atled_cuda_cupy.kernels import embedding, errors, indexing

    made = []
    for module in (embedding, errors, indexing):
        monkeypatch.setattr(module, "Launch", lambda *_, wide, **__: made.append(wide))
    prepare = {"Embed": embedding.prepare_embed, "ConfusionMatrix": errors.prepare_by_label}.get(op)
    prepare = prepare or next(one for one, ops in indexing._OPS.items() if op in ops.split())
    spec, dtypes = op_spec(op), ("int64", "float32") if op == "Embed" else ("float32", "int64")
    inputs = [ArrayDesc(shape, np.dtype(dtype)) for shape, dtype in zip(shapes, dtypes, strict=False)]
    prepare(Call(spec, inputs, spec.infer_outputs(inputs, attributes), attributes, device_id="0"))
    assert made == [is_wide]


@pytest.mark.parametrize("border_mode", ["nearest", "reflect"])
@pytest.mark.parametrize("shifts", [(3,), (-2, 1), (40, -41), (1, 2, 3)])
def test_shifts_and_their_gradients(cuda, shifts, border_mode):
    x, gy = draw(4, 6, 9), draw(4, 6, 9)[::-1]
    results = []
    for place in (cuda, nn.Context(["reference:float"])):
        with nn.context_scope(place):
            given = nn.Variable.from_numpy_array(x, need_grad=True)
            y = F.shift(given, shifts, border_mode)
            y.forward()
            y.backward(nn.NdArray.from_numpy_array(np.ascontiguousarray(gy)))
            results.append((y.d, given.g))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)
