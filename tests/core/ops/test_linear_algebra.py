"""Indexing, linear algebra and pooling of windows in programs by key, against NumPy called directly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled as nn
from atled.keyed import Description
from atled_contexts import Context

CONTEXTS = ("reference:float", "cpu:float", "sim:float")
WHOLE = ("bool", "int8", "uint8", "int32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")

each_context = pytest.mark.parametrize("context", CONTEXTS)


def computed(context, op, *arrays, outputs=1, **attributes):
    """The outputs of one call, in the dtypes that follow from the arrays."""
    program = Description(Context([context], fallback="raise"))
    call = program.call(op, *(program.leaf(nn.NdArray.from_numpy_array(array)) for array in arrays), **attributes)
    for position in range(outputs):
        program.result(program.output(call, position) if position else call)
    found = [array.data.copy() for array in program.run()]
    return found if outputs > 1 else found[0]


def numbers(dtype, *shape, seed=0):
    rng, kind = np.random.default_rng(seed), np.dtype(dtype).kind
    return (rng.integers(0, 2 if kind == "b" else 100, shape) if kind in "biu" else rng.standard_normal(shape)).astype(
        dtype
    )


def assert_same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@each_context
@pytest.mark.parametrize("dtype", [*WHOLE, *FLOATS])
def test_elements_that_are_moved_keep_their_dtype(context, dtype):
    x, index = numbers(dtype, 3, 4), np.array([[2, -3], [0, 1]], np.int8)
    assert_same(computed(context, "Take", x, index, axis=1), np.take(x, index, axis=1))
    assert_same(computed(context, "Tile", x, reps=(2, 1, 3)), np.tile(x, (2, 1, 3)))
    assert_same(computed(context, "Repeat", x, repeats=2, axis=0), x.repeat(2, axis=0))
    assert_same(computed(context, "Diagonal", x, offset=1), np.diagonal(x, 1))
    assert_same(computed(context, "DiagonalMatrix", x[0].copy(), offset=-1), np.diag(x[0], -1))


@each_context
@pytest.mark.parametrize("dtype", ["int16", "int64", "float64"])
def test_patterns_have_the_dtype_that_is_asked_for(context, dtype):
    assert_same(computed(context, "Arange", start=7, step=-2, count=5, dtype=dtype), np.arange(7, -2, -2, dtype))
    assert_same(computed(context, "Eye", rows=3, columns=5, offset=2, dtype=dtype), np.eye(3, 5, 2, dtype))


@each_context
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((2, 3, 4), (5, 4, 2)), ((), (2, 3)), ((4,), (4, 3)), ((3, 0), (0,))]
)
def test_dot_of_whole_numbers_is_exact(context, shapes):
    x, y = numbers("int64", *shapes[0]) + 2**40, numbers("int16", *shapes[1], seed=1)
    assert_same(computed(context, "Dot", x, y), np.asarray(np.dot(x, y)))


@each_context
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_an_index_out_of_range_leaves_everything_as_it_was(context, data):
    size, wrong = data.draw(st.integers(0, 4)), data.draw(st.sampled_from([-(2**40), -6, 5, 2**62]))
    index = np.array([0] * data.draw(st.integers(0, 3)) + [wrong])
    x, target = nn.NdArray.from_numpy_array(np.ones((2, size))), nn.NdArray.from_numpy_array(np.zeros((2, len(index))))
    program = Description(Context([context], fallback="raise"))
    program.assign(
        target, program.call("Take", program.leaf(x), program.leaf(nn.NdArray.from_numpy_array(index)), axis=1)
    )
    with pytest.raises(IndexError, match="out of range"):
        program.run()
    assert not target.data.any()


@each_context
def test_a_singular_system_leaves_everything_as_it_was(context):
    a, target = np.array([[1.0, 2.0], [2.0, 4.0]]), nn.NdArray.from_numpy_array(np.zeros(2))
    program = Description(Context([context], fallback="raise"))
    leaf = program.leaf(nn.NdArray.from_numpy_array(a))
    program.assign(target, program.call("Solve", leaf, program.leaf(nn.NdArray.from_numpy_array(np.ones(2)))))
    with pytest.raises(ValueError, match="singular"):
        program.run()
    assert not target.data.any()


@each_context
def test_systems_and_singular_values_are_numpys(context):
    a, b = numbers("int32", 4, 4) + 100 * np.eye(4, dtype=np.int32), numbers("float32", 4, 2)
    np.testing.assert_allclose(computed(context, "Solve", a, b), np.linalg.solve(a, b), rtol=1e-5)
    x = numbers("float64", 5, 3)
    for full in (False, True):
        u, s, vt = computed(context, "SVD", x, outputs=3, full_matrices=full)
        for found, expected in zip((u, s, vt), np.linalg.svd(x, full_matrices=full), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_square_matrices_of_others_is_refused():
    program = Description(Context(["reference:float"]))
    x = program.leaf(nn.NdArray.from_numpy_array(numbers("float64", 3, 2)))
    (gradient,) = program.gradients(program.call("SVD", x, full_matrices=True), [x])
    program.result(gradient)
    with pytest.raises(RuntimeError, match="use full_matrices=False"):
        program.run()


def sizes_of(n, k, s, p, caffe):
    """Windows along an axis, as Caffe's PoolingLayer and others have it."""
    if not caffe:
        return (n + 2 * p - k) // s + 1
    count = int(np.ceil((n + 2 * p - k) / s)) + 1
    return count - 1 if p and (count - 1) * s >= n + p else count


@st.composite
def poolings(draw):
    """Sizes and windows along one to four axes, each window with an element."""
    axes = []
    for _ in range(draw(st.integers(1, 4))):
        n, k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        s, p = draw(st.integers(1, k)), draw(st.integers(0, k - 1))
        axes.append((n + max(k - n - 2 * p, 0), k, s, p))
    return axes, draw(st.booleans()), draw(st.booleans())


@pytest.mark.parametrize("context", ["reference:float", "cpu:float", "cpu:double"])
@given(poolings())
@settings(max_examples=25, deadline=None)
def test_windows_are_those_elements_of_them_that_exist(context, drawn):
    axes, caffe, is_last = drawn
    sizes, kernel, stride, pad = zip(*axes, strict=True)
    dtype = np.float64 if context.endswith("double") else np.float32
    x = np.random.default_rng(len(axes)).permutation(2 * int(np.prod(sizes))).reshape(2, *sizes).astype(dtype)
    counts = [sizes_of(*axis, caffe) for axis in axes]
    windows = np.ndindex(2, *counts)
    expected = {name: np.zeros((2, *counts)) for name in ("max", "place", "mean", "norm")}
    for at in windows:
        bounds = [(i * s - p, i * s - p + k) for i, (_, k, s, p) in zip(at[1:], axes, strict=True)]
        inside = x[(at[0], *(slice(max(begin, 0), end) for begin, end in bounds))].ravel()
        expected["max"][at], expected["place"][at] = inside.max(), inside.argmax()
        expected["mean"][at], expected["norm"][at] = inside.mean(dtype=np.float64), np.linalg.norm(inside)
    x, expected = (x, expected) if not is_last else (moved(x), {name: moved(y) for name, y in expected.items()})
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "caffe": caffe, "channel_last": is_last}
    y, place = computed(context, "WindowMax", x, outputs=2, **geometry)
    np.testing.assert_array_equal(y, expected["max"])
    np.testing.assert_array_equal(place, expected["place"])
    found = computed(context, "WindowSum", x, average=True, **geometry)
    np.testing.assert_allclose(found, expected["mean"], rtol=1e-5)
    np.testing.assert_allclose(computed(context, "WindowNorm", x, **geometry), expected["norm"], rtol=1e-5)
    # What the maxima are of is where their gradient goes.
    spatial = x.shape[:-1] if is_last else x.shape[1:]
    gx = computed(context, "WindowMaxGrad", np.ones_like(y), place, shape=spatial, **geometry)
    assert gx.sum() == y.size
    assert set(x[gx > 0]) == set(np.unique(y))


def moved(x):
    return np.ascontiguousarray(np.moveaxis(x, 0, -1))


@pytest.mark.parametrize("context", ["reference:float", "cpu:float"])
def test_regions_are_cut_to_the_image_and_counted_by_place(context):
    x = np.arange(2 * 1 * 4 * 5, dtype=np.float32).reshape(2, 1, 4, 5)
    # Corners 1.25 and 8.5 become 1 and 8: rounded half to even; of the second box nothing is in the image.
    rois = np.array([[1, 2.5, 1, 17, 6], [0, 40, 40, 44, 44]], np.float32)
    y, place = computed(context, "RoiPooling", x, rois, outputs=2, shape=(2, 3), scale=0.5)
    rows, columns = [(0, 2), (1, 4)], [(1, 4), (3, 5), (5, 5)]
    for (i, (top, bottom)), (j, (left, right)) in itertools.product(enumerate(rows), enumerate(columns)):
        cell = x[1, 0, top:bottom, left:right]
        assert y[0, 0, i, j] == (cell.max() if cell.size else 0)
        at = place[0, 0, i, j]
        assert at == -1 if not cell.size else x[1, 0].flat[at] == cell.max()
    assert (y[1] == 0).all() and (place[1] == -1).all()
