"""Convolutions by tiles and by channels: every tiling, kind, layout and dtype against the reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, op_spec
from atled_cuda_cupy.kernels import convolution, products, tiles

FORWARD, DATA, WEIGHT = "Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad"
OPS = FORWARD, DATA, WEIGHT
TOLERANCE = {"float32": 3e-6, "float64": 1e-13, "float16": 2e-3}


def checked(op, inputs, attributes):
    descs = [None if x is None else ArrayDesc(x.shape, x.dtype) for x in inputs]
    return descs, op_spec(op).check_attributes(attributes, descs)


def arrays_of(op, shape, weight, dtype="float32", **geometry):
    """Inputs and attributes of one of the ops, for a convolution of x of this shape by a weight of that shape."""
    rng = np.random.default_rng(len(shape))
    x, w = (rng.standard_normal(one).astype(dtype) for one in (shape, weight))
    descs, attributes = checked(FORWARD, (x, w, None), geometry)
    gy = rng.standard_normal(op_spec(FORWARD).infer(*descs, **attributes).shape).astype(dtype)
    spatial = slice(1, -1) if geometry.get("channel_last") else slice(2, None)
    if op == FORWARD:
        return (x, w, rng.standard_normal(weight[0]).astype(dtype)), geometry
    if op == DATA:
        return (gy, w), {**geometry, "shape": x.shape[spatial]}
    return (x, gy), {**geometry, "kernel": w.shape[spatial]}


def check(compute, op, inputs, attributes):
    prepare = "prepare_weight_grad" if op == WEIGHT else "prepare"
    (y,) = compute(convolution, prepare, op, inputs, **attributes)
    _, attributes = checked(op, inputs, attributes)
    exact = op_spec(op).reference(*(None if x is None else x.astype("float64") for x in inputs), **attributes)
    scale = max(1.0, np.abs(exact).max(initial=0))
    np.testing.assert_allclose(y / scale, exact / scale, rtol=0, atol=TOLERANCE[str(inputs[0].dtype)])


def force(monkeypatch, tile, parts, each=tiles._EACH):
    """Have every product computed in such tiles, and its sums in so many parts."""
    stage = 8 if tile[0] * tile[1] >= 4096 else 16

    def chosen(rows, columns, depth, *_, **__):
        part = -(-depth // (parts * stage)) * stage
        return tiles.Tiling(*tile, *each[tile], stage, part, -(-depth // part))

    monkeypatch.setattr(convolution, "choose", chosen)


TILINGS = [
    (op, parts, tile)
    for op, parts in ((FORWARD, 1), (FORWARD, 3), (DATA, 1), (WEIGHT, 3))
    for tile in sorted(tiles._EACH)
    if op != DATA or tile != (128, 128)  # which takes more registers than there are
]


@pytest.mark.parametrize(("op", "parts", "tile"), TILINGS)
def test_every_tiling_computes_the_sums(compute, monkeypatch, tile, op, parts):
    force(monkeypatch, tile, parts)
    check(compute, op, *arrays_of(op, (2, 9, 7, 11), (35, 9, 3, 2), pad=(1, 0)))


@pytest.mark.parametrize("tile", sorted(tiles._EACH_DOUBLE))
def test_every_tiling_for_double_computes_the_sums(compute, monkeypatch, tile):
    force(monkeypatch, tile, 2, tiles._EACH_DOUBLE)
    check(compute, FORWARD, *arrays_of(FORWARD, (2, 9, 7, 11), (35, 9, 3, 2), "float64", pad=(1, 0)))


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("op", OPS)
def test_other_dtypes(compute, op, dtype, channel_last):
    shapes = ((3, 9, 8, 12), (10, 3, 3, 6)) if channel_last else ((3, 12, 9, 8), (10, 6, 3, 3))
    geometry = {"stride": (2, 1), "pad": (1, 2), "group": 2, "channel_last": channel_last}
    check(compute, op, *arrays_of(op, *shapes, dtype, **geometry))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("op", [FORWARD, DATA])
def test_convolutions_of_single_elements_are_products_by_cublas(compute, monkeypatch, op, channel_last, images):
    monkeypatch.setattr(products, "_SMALL", 0)
    monkeypatch.setattr(convolution, "tiled", None)  # not to be called
    shapes = ((images, 4, 5, 7), (6, 1, 1, 7)) if channel_last else ((images, 7, 4, 5), (6, 7, 1, 1))
    for dtype in TOLERANCE:
        check(compute, op, *arrays_of(op, *shapes, dtype, channel_last=channel_last))


@pytest.mark.parametrize("maps", [2, 12])  # of two channels: by channels, and by tiles
@pytest.mark.parametrize("op", OPS)
def test_any_stride_dilation_and_padding(compute, op, maps):
    for stride, dilation, pad in itertools.product((1, 2, 3, 4), (1, 2, 3), (0, 1, 4)):
        geometry = {"stride": (stride,), "dilation": (dilation,), "pad": (pad,), "group": 2}
        check(compute, op, *arrays_of(op, (2, 2, 13), (maps, 1, 4), **geometry))


@pytest.mark.parametrize("shape", [(0, 3, 5, 5), (2, 3, 1, 1)])
@pytest.mark.parametrize("op", OPS)
def test_hardly_any_elements(compute, op, shape):
    check(compute, op, *arrays_of(op, shape, (5, 3, 1, 1)))


@pytest.mark.parametrize("op", OPS)
def test_places_beyond_32_bits_are_counted_in_64(compute, monkeypatch, op):
    monkeypatch.setattr(tiles, "is_wide", lambda call: True)
    monkeypatch.setattr(convolution, "is_wide", lambda call: True)
    check(compute, op, *arrays_of(op, (2, 6, 5, 4), (7, 6, 3, 3), pad=(1, 1)))
    check(compute, op, *arrays_of(op, (2, 6, 5, 4), (6, 1, 3, 3), pad=(1, 1), group=6))


@pytest.mark.parametrize("op", OPS)
def test_equal_inputs_give_equal_bits(compute, op):
    inputs, attributes = arrays_of(op, (8, 3, 16, 16), (4, 3, 3, 3))
    prepare = "prepare_weight_grad" if op == WEIGHT else "prepare"
    first, second = (compute(convolution, prepare, op, inputs, **attributes)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_a_formula_is_computed_behind_sums_in_parts(cuda):
    x, w, b = (np.random.default_rng(0).standard_normal(shape) for shape in ((1, 64, 4, 4), (3, 64, 3, 3), (3,)))
    with nn.context_scope(cuda):
        y = F.relu(F.convolution(*(nn.Variable.from_numpy_array(one.astype("float32")) for one in (x, w, b))))
        y.forward()
    (step,) = (line for line in str(y.plan).splitlines() if "Convolution" in line)
    assert "Convolution+ReLU" in step and "parts" in step
    exact = op_spec(FORWARD).reference(x, w, b, base_axis=1, pad=(0, 0), stride=(1, 1), dilation=(1, 1), group=1)
    np.testing.assert_allclose(y.d, np.maximum(exact, 0), rtol=1e-5, atol=1e-5)


def test_what_the_kernels_do_not_know_is_refused_in_words():
    from atled.plugin import Call

    def call(shape, weight, **attributes):
        descs = [ArrayDesc(one, np.dtype("float32")) for one in (shape, weight)]
        attributes = op_spec(FORWARD).check_attributes(attributes, [*descs, None])
        return Call(op_spec(FORWARD), (*descs, None), (op_spec(FORWARD).infer(*descs, None, **attributes),), attributes)

    assert "three spatial axes" in convolution.accepts(call((1, 1, 2, 2, 2, 2), (1, 1, 1, 1, 1, 1)))
    assert "places along an axis" in convolution.accepts(call((1, 1, 4), (1, 1, 1), pad=(2**28,)))
