"""Pooling and its gradients against windows written out in NumPy."""

import itertools

import numpy as np
import pytest

from atled_cpu_numba.kernels.pooling import planes as pooling

# shape, kernel, stride, pad, ignore_border
CASES = [
    ((2, 3, 4, 6), (2, 2), (2, 2), (0, 0), True),
    ((2, 3, 5, 67), (2, 2), (2, 2), (0, 0), True),
    ((2, 3, 5, 67), (2, 2), (2, 2), (0, 0), False),
    ((3, 5, 7), (2, 2), (3, 2), (0, 0), False),
    ((2, 2, 9, 40), (3, 3), (2, 2), (1, 1), True),
    ((2, 2, 9, 40), (3, 3), (1, 1), (1, 1), True),
    ((2, 2, 9, 40), (3, 5), (3, 3), (1, 2), True),
    ((2, 3, 41), (3,), (2,), (1,), True),
    ((7,), (7,), (7,), (0,), True),
    ((2, 9, 21), (5, 5), (1, 1), (2, 2), True),
    ((2, 13, 13), (13, 13), (1, 1), (6, 6), True),
    ((3, 12, 31), (2, 4), (3, 4), (1, 3), True),
    # rows so wide that they are taken in strips of columns
    ((2, 3, 1501), (3, 3), (1, 1), (1, 1), True),
    ((2, 12, 300), (10, 5), (1, 2), (0, 2), True),
    ((2, 4111), (4,), (1,), (1,), True),
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), True),
    ((0, 3, 4, 4), (2, 2), (2, 2), (0, 0), True),
    # windows of 2 x 2 that tile the planes: rows of 1, 2, 4, 8 and other numbers of windows
    ((3, 5, 2, 2), (2, 2), (2, 2), (0, 0), True),
    ((5, 7, 4, 2), (2, 2), (2, 2), (0, 0), True),
    ((9, 5, 4, 4), (2, 2), (2, 2), (0, 0), True),
    ((7, 6, 4), (2, 2), (2, 2), (0, 0), True),
    ((7, 18, 4), (2, 2), (2, 2), (0, 0), True),
    ((3, 5, 6, 8), (2, 2), (2, 2), (0, 0), True),
    ((3, 5, 10, 8), (2, 2), (2, 2), (0, 0), True),
    ((3, 6, 16), (2, 2), (2, 2), (0, 0), False),
    ((5, 6, 6), (2, 2), (2, 2), (0, 0), True),
    ((3, 4, 24), (2, 2), (2, 2), (0, 0), True),
    ((3, 4, 32), (2, 2), (2, 2), (0, 0), True),
    ((2, 3, 6, 56), (2, 2), (2, 2), (0, 0), True),
    # windows that are whole planes
    ((3, 5, 8, 8), (8, 8), (8, 8), (0, 0), True),
    ((3, 5, 7), (5, 7), (1, 1), (0, 0), True),
    # three axes and more, by slices
    ((2, 3, 4, 6, 8), (2, 2, 2), (2, 2, 2), (0, 0, 0), True),
    ((3, 5, 6, 20), (3, 3, 3), (2, 2, 1), (1, 1, 1), True),
    ((2, 7, 5, 6), (2, 3, 2), (3, 2, 2), (1, 0, 1), False),
    ((2, 3, 5, 6, 8), (1, 2, 2), (1, 2, 2), (0, 0, 0), True),
    ((3, 5, 4, 6), (1, 2, 2), (2, 2, 2), (0, 0, 0), True),
    ((2, 9, 9, 9), (7, 7, 7), (1, 1, 1), (3, 0, 0), True),
    ((3, 2, 20, 20), (2, 17, 17), (1, 1, 1), (0, 0, 0), True),
    ((2, 3, 4, 3, 5), (2, 2, 2, 3), (1, 2, 1, 1), (0, 1, 1, 1), True),
    ((0, 3, 4, 4), (2, 2, 2), (2, 2, 2), (0, 0, 0), True),
    ((2, 5, 5), (3, 3), (2, 2), (1, 1), False),
    ((2, 0, 6), (3, 3), (2, 2), (1, 1), False),
    ((2, 6, 0), (2, 2), (2, 2), (1, 1), True),
]

# A window that sees only padding has an average, but no maximum.
maximum_cases = pytest.mark.parametrize("shape, kernel, stride, pad, ignore_border", CASES[:-3])
all_cases = pytest.mark.parametrize("shape, kernel, stride, pad, ignore_border", CASES)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def window_ranges(size, kernel, stride, pad, ignore_border):
    count = (size + 2 * pad - kernel) // stride + 1 if ignore_border else -(-(size + 2 * pad) // stride)
    return [(i * stride - pad, i * stride - pad + kernel) for i in range(count)]


def windows_of(sizes, kernel, stride, pad, ignore_border):
    """Per window: its output place, the slices of its real elements, its ranges."""
    ranges = [window_ranges(*axis, ignore_border) for axis in zip(sizes, kernel, stride, pad, strict=True)]
    for place in itertools.product(*(range(len(r)) for r in ranges)):
        chosen = [r[i] for r, i in zip(ranges, place, strict=True)]
        slices = tuple(slice(max(0, a), max(0, min(n, b))) for (a, b), n in zip(chosen, sizes, strict=True))
        yield place, slices, chosen


def output_sizes(sizes, kernel, stride, pad, ignore_border):
    return tuple(len(window_ranges(*axis, ignore_border)) for axis in zip(sizes, kernel, stride, pad, strict=True))


def reference_max(x, kernel, *geometry):
    """The maxima, and which place of its window each is, in C order."""
    axes = len(kernel)
    sizes = x.shape[-axes:]
    flat = x.reshape(-1, *sizes)
    counts = output_sizes(sizes, kernel, *geometry)
    y, places = np.empty((len(flat), *counts), x.dtype), np.empty((len(flat), *counts), place_dtype(kernel))
    numbers = np.arange(int(np.prod(kernel))).reshape(kernel)
    for place, slices, ranges in windows_of(sizes, kernel, *geometry):
        inside = tuple(slice(s.start - start, s.stop - start) for s, (start, _) in zip(slices, ranges, strict=True))
        values = flat[(slice(None), *slices)].reshape(len(flat), numbers[inside].size)
        found = values.argmax(axis=1)
        y[(slice(None), *place)] = values[np.arange(len(flat)), found]
        places[(slice(None), *place)] = numbers[inside].reshape(-1)[found]
    leading = x.shape[:-axes]
    return y.reshape(leading + counts), places.reshape(leading + counts)


def place_dtype(kernel):
    return np.uint8 if np.prod(kernel) <= 256 else np.int32


def seen_element(window, place, sizes, kernel, stride, pad):
    """The element of the plane at a window's place, or None if it is outside."""
    inside = np.unravel_index(place, kernel)
    element = tuple(i * s - p + o for i, s, p, o in zip(window, stride, pad, inside, strict=True))
    return element if all(0 <= e < n for e, n in zip(element, sizes, strict=True)) else None


def average_weights(sizes, kernel, stride, pad, ignore_border, including_pad):
    """(windows, elements) matrix: y = weights @ x."""
    counts = output_sizes(sizes, kernel, stride, pad, ignore_border)
    weights = np.zeros((*counts, *sizes))
    for place, slices, ranges in windows_of(sizes, kernel, stride, pad, ignore_border):
        margins = pad if including_pad else (0,) * len(sizes)
        covered = [min(b, n + m) - max(a, -m) for (a, b), n, m in zip(ranges, sizes, margins, strict=True)]
        weights[place][slices] = 1 / max(1, np.prod(np.maximum(covered, 0)))
    return weights.reshape(int(np.prod(counts)), int(np.prod(sizes))), counts


@maximum_cases
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_max_pooling(run, parts, shape, kernel, stride, pad, ignore_border, dtype):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)  # many equal maxima
    expected, places = reference_max(x, kernel, stride, pad, ignore_border)
    y, place = np.full_like(expected, np.nan), np.full_like(places, 255)
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "ignore_border": ignore_border}
    assert run(pooling, "MaxPooling", [x], [y, place], parts=parts, **geometry) == 0
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(place, places)


@maximum_cases
@both_dtypes
def test_max_pooling_without_places(run, parts, shape, kernel, stride, pad, ignore_border, dtype):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    expected, places = reference_max(x, kernel, stride, pad, ignore_border)
    y, place = np.full_like(expected, np.nan), np.full_like(places, 77)
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "ignore_border": ignore_border}
    assert run(pooling, "MaxPooling", [x], [y, place], parts=parts, unread=(1,), **geometry) == 0
    np.testing.assert_array_equal(y, expected)
    assert (place == 77).all()


def test_places_of_large_windows_are_int32(run):
    x = np.random.default_rng(0).standard_normal((3, 40, 61), "f")
    geometry = {"kernel": (20, 30), "stride": (20, 31), "pad": (0, 0), "ignore_border": True}
    y, place = np.empty((3, 2, 2), "f"), np.empty((3, 2, 2), np.int32)
    assert run(pooling, "MaxPooling", [x], [y, place], **geometry) == 0
    windows = np.stack([[x[:, a : a + 20, b : b + 30].reshape(3, -1) for b in (0, 31)] for a in (0, 20)])
    np.testing.assert_array_equal(place, np.moveaxis(windows.argmax(axis=-1), 2, 0))
    gx, ggx = np.empty_like(x), np.empty_like(y)
    assert run(pooling, "MaxPoolingGrad", [y, place], [gx], shape=(40, 61), **geometry) == 0
    np.testing.assert_array_equal(np.sort(gx[gx != 0]), np.sort(y.ravel()))
    assert run(pooling, "MaxPoolingGather", [x, place], [ggx], shape=(40, 61), **geometry) == 0
    np.testing.assert_array_equal(ggx, y)


@pytest.mark.parametrize("pad", [(0, 0), (1, 1)])
@pytest.mark.parametrize("kernel, stride", [((2, 2), (2, 2)), ((3, 3), (1, 1)), ((3, 3), (2, 2)), ((4, 3), (2, 3))])
def test_the_first_nan_wins_and_infinities_are_values(run, kernel, stride, pad):
    x = np.random.default_rng(0).choice(np.array([np.nan, -np.inf, np.inf, 1, 2], "f"), (3, 9, 40))
    x[0] = -np.inf
    expected, places = reference_max(x, kernel, stride, pad, True)
    y, place = np.zeros_like(expected), np.zeros_like(places)
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "ignore_border": True}
    assert run(pooling, "MaxPooling", [x], [y, place], **geometry) == 0
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(place, places)


@pytest.mark.parametrize("sizes", [(2, 2), (6, 4), (4, 8), (10, 16), (6, 44)])
def test_the_first_nan_wins_in_tiles_too(run, sizes):
    x = np.random.default_rng(0).choice(np.array([np.nan, -np.inf, np.inf, 1, 2], "f"), (9, *sizes))
    x[0] = -np.inf
    expected, places = reference_max(x, (2, 2), (2, 2), (0, 0), True)
    y, place = np.zeros_like(expected), np.zeros_like(places)
    geometry = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "ignore_border": True}
    assert run(pooling, "MaxPooling", [x], [y, place], **geometry) == 0
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(place, places)


@both_dtypes
@maximum_cases
def test_max_pooling_grad_and_gather(run, parts, shape, kernel, stride, pad, ignore_border, dtype):
    rng = np.random.default_rng(0)
    axes = len(kernel)
    counts = output_sizes(shape[-axes:], kernel, stride, pad, ignore_border)
    # Any places, also such as no maximum is at: outside the plane.
    place = rng.integers(0, np.prod(kernel), (*shape[:-axes], *counts)).astype(place_dtype(kernel))
    gy = rng.integers(-9, 9, place.shape).astype(dtype)
    x, y = rng.standard_normal(shape).astype(dtype), np.full(place.shape, np.nan, dtype)
    expected_gx, expected_y = np.zeros(shape, dtype), np.zeros(place.shape, dtype)
    for window in np.ndindex(place.shape):
        element = seen_element(window[-axes:], place[window], shape[-axes:], kernel, stride, pad)
        if element is not None:
            expected_gx[(*window[:-axes], *element)] += gy[window]
            expected_y[window] = x[(*window[:-axes], *element)]
    gx = np.full(shape, np.nan, dtype)
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "ignore_border": ignore_border, "shape": shape[-axes:]}
    assert run(pooling, "MaxPoolingGrad", [gy, place], [gx], parts=parts, **geometry) == 0
    np.testing.assert_array_equal(gx, expected_gx)
    assert run(pooling, "MaxPoolingGather", [x, place], [y], parts=parts, **geometry) == 0
    np.testing.assert_array_equal(y, expected_y)


@pytest.mark.parametrize("stride", [(2, 2), (1, 1)])
@pytest.mark.parametrize("name", ["MaxPoolingGrad", "MaxPoolingGather"])
def test_a_place_out_of_range_gives_a_code_and_writes_nothing(run, name, stride):
    counts = (2, 2) if stride == (2, 2) else (3, 3)
    place = np.zeros((2, *counts), np.uint8)
    place[1, 1, 1] = 4
    small, large = np.full((2, *counts), 7, "f"), np.full((2, 4, 4), 7, "f")
    given, result = (small, large) if name == "MaxPoolingGrad" else (large, small)
    geometry = {"kernel": (2, 2), "stride": stride, "pad": (0, 0), "ignore_border": True, "shape": (4, 4)}
    assert run(pooling, name, [given, place], [result], **geometry) > 0
    assert (result == 7).all()


@all_cases
@pytest.mark.parametrize("including_pad", [True, False])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_average_pooling_and_its_gradient(run, parts, shape, kernel, stride, pad, ignore_border, including_pad, dtype):
    error = 16 * np.finfo(dtype).eps
    rng = np.random.default_rng(0)
    axes = len(kernel)
    weights, counts = average_weights(shape[-axes:], kernel, stride, pad, ignore_border, including_pad)
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "ignore_border": ignore_border}
    geometry["including_pad"] = including_pad
    planes = int(np.prod(shape[:-axes]))
    x, y = rng.standard_normal(shape).astype(dtype), np.full(shape[:-axes] + counts, np.nan, dtype)
    assert run(pooling, "AveragePooling", [x], [y], parts=parts, **geometry) == 0
    expected = x.reshape(planes, weights.shape[1]).astype("d") @ weights.T
    np.testing.assert_allclose(y, expected.reshape(y.shape), atol=error)
    gy, gx = rng.standard_normal(y.shape).astype(dtype), np.full(shape, np.nan, dtype)
    assert run(pooling, "AveragePoolingGrad", [gy], [gx], parts=parts, shape=shape[-axes:], **geometry) == 0
    expected = gy.reshape(planes, weights.shape[0]).astype("d") @ weights
    np.testing.assert_allclose(gx, expected.reshape(shape), atol=error)


@all_cases
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_sum_pooling_and_its_gradient(run, parts, shape, kernel, stride, pad, ignore_border, dtype):
    rng, axes = np.random.default_rng(0), len(kernel)
    weights, counts = average_weights(shape[-axes:], kernel, stride, pad, ignore_border, False)
    weights, error = (weights > 0).astype("d"), 16 * np.prod(kernel) * np.finfo(dtype).eps
    geometry = {"kernel": kernel, "stride": stride, "pad": pad, "ignore_border": ignore_border}
    planes = int(np.prod(shape[:-axes]))
    x, y = rng.standard_normal(shape).astype(dtype), np.full(shape[:-axes] + counts, np.nan, dtype)
    assert run(pooling, "SumPooling", [x], [y], parts=parts, **geometry) == 0
    expected = x.reshape(planes, weights.shape[1]).astype("d") @ weights.T
    np.testing.assert_allclose(y, expected.reshape(y.shape), atol=error)
    gy, gx = rng.standard_normal(y.shape).astype(dtype), np.full(shape, np.nan, dtype)
    assert run(pooling, "SumPoolingGrad", [gy], [gx], parts=parts, shape=shape[-axes:], **geometry) == 0
    expected = gy.reshape(planes, weights.shape[0]).astype("d") @ weights
    np.testing.assert_allclose(gx, expected.reshape(shape), atol=error)


@pytest.mark.parametrize("sizes", [(4, 12), (46, 56), (6, 500), (4, 514), (6, 8)])
@pytest.mark.parametrize("name", ["MaxPoolingGrad", "AveragePoolingGrad"])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_gradients_of_tiles_past_the_caches(run, parts, monkeypatch, name, sizes, dtype):
    rng = np.random.default_rng(8)
    rows = [size // 2 for size in sizes]
    inputs = [rng.standard_normal((3, *rows)).astype(dtype)]
    geometry = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "ignore_border": True, "shape": sizes}
    if name == "MaxPoolingGrad":
        inputs.append(rng.integers(0, 4, (3, *rows), np.uint8))
    else:
        geometry["including_pad"] = True
    expected, found = (np.full((3, *sizes), np.nan, dtype) for _ in range(2))
    assert run(pooling, name, inputs, [expected], **geometry) == 0
    monkeypatch.setattr(pooling, "STREAMED_BYTES", 0)
    assert run(pooling, name, inputs, [found], parts=parts, **geometry) == 0
    np.testing.assert_array_equal(found, expected)


def test_three_axes_say_how_their_slices_are_pooled(make_call):
    def note(kernel):
        x, y = np.zeros((2, 4, 4, 4), "f"), np.zeros((2, *(4 // k for k in kernel)), "f")
        geometry = {"kernel": kernel, "stride": kernel, "pad": (0, 0, 0), "ignore_border": True}
        return pooling.prepare(make_call("AveragePooling", [x], [y], including_pad=True, **geometry)).note

    assert note((2, 2, 2)) == "slices: 2x2 tiles"
    assert note((1, 2, 2)) == "2x2 tiles"


def test_the_first_nan_of_several_slices_is_the_maximum(run):
    x = np.zeros((1, 2, 2, 2), "f")
    x[0, 0, 1, 0] = 5
    x[0, 1, 0, 1] = x[0, 1, 1, 1] = np.nan
    y, place = np.zeros((1, 1, 1, 1), "f"), np.zeros((1, 1, 1, 1), np.uint8)
    geometry = {"kernel": (2, 2, 2), "stride": (2, 2, 2), "pad": (0, 0, 0), "ignore_border": True}
    assert run(pooling, "MaxPooling", [x], [y, place], **geometry) == 0
    assert np.isnan(y).all()
    assert place.item() == 5
    equal = np.ones_like(x)
    assert run(pooling, "MaxPooling", [equal], [y, place], **geometry) == 0
    assert place.item() == 0


def test_places_outside_of_windows_of_three_axes_are_an_error(run):
    gy, gx = np.ones((1, 1, 1, 1), "f"), np.zeros((1, 2, 2, 2), "f")
    geometry = {"kernel": (2, 2, 2), "stride": (2, 2, 2), "pad": (0, 0, 0), "ignore_border": True, "shape": (2, 2, 2)}
    assert run(pooling, "MaxPoolingGrad", [gy, np.full(gy.shape, 8, np.uint8)], [gx], **geometry) > 0


@pytest.mark.parametrize(("dtype", "answer"), [("uint8", True), ("float32", "takes places as uint8")])
def test_places_of_another_dtype_are_refused(make_call, dtype, answer):
    gy, place, gx = np.zeros((2, 2, 2), "f"), np.zeros((2, 2, 2), dtype), np.zeros((2, 4, 4), "f")
    geometry = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "ignore_border": True, "shape": (4, 4)}
    assert pooling.accepts(make_call("MaxPoolingGrad", [gy, place], [gx], **geometry)) == answer
