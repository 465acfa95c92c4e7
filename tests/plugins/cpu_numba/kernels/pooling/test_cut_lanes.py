"""Pooling with the batch innermost, against windows written out in NumPy."""

import itertools

import numpy as np
import pytest

import atled as nn
from atled.keyed import Description

CPU = nn.Context(["cpu:float"])

# sizes, kernel, stride, pad, caffe; of maps and space
CASES = [
    ((3, 6, 8), (1, 2, 2), (1, 2, 2), (0, 0, 0), False),  # each element in one window
    ((3, 6, 7), (1, 2, 2), (1, 2, 2), (0, 0, 0), False),  # a column in none
    ((4, 5, 7), (2, 3, 2), (2, 3, 2), (1, 1, 1), True),  # cut on both sides
    ((4, 7, 7), (2, 3, 3), (1, 2, 2), (1, 1, 0), False),  # windows that overlap
    ((5, 7, 7), (1, 3, 3), (1, 2, 2), (0, 1, 0), False),  # the same in many maps
    ((4, 1, 6), (1, 1, 3), (1, 1, 1), (0, 0, 1), False),
    ((2, 1, 9, 9), (1, 1, 2, 2), (1, 1, 3, 3), (0, 0, 1, 1), False),  # elements between windows
    ((9,), (4,), (1,), (2,), False),
]
# Vectors have 4, 8 or 16 elements: a part of one, one, one and a part, several at once and a rest.
WIDTHS = [1, 5, 16, 19, 64, 139]

pytestmark = [
    pytest.mark.parametrize("sizes, kernel, stride, pad, caffe", CASES),
    pytest.mark.parametrize("width", WIDTHS),
]


def windows(sizes, kernel, stride, pad, caffe):
    """The index of each window, and the slices of its elements."""
    ranges = []
    for n, k, s, p in zip(sizes, kernel, stride, pad, strict=True):
        last = n + 2 * p - k
        count = (-(-last // s) if caffe else last // s) + 1
        if caffe and p and (count - 1) * s >= n + p:
            count -= 1
        ranges.append([(i, slice(max(i * s - p, 0), i * s - p + k)) for i in range(count)])
    return [tuple(zip(*each, strict=True)) for each in itertools.product(*ranges)]


def computed(op, *arrays, outputs=1, **attributes):
    d = Description(CPU)
    value = d.call(op, *(d.leaf(nn.NdArray.from_numpy_array(array)) for array in arrays), **attributes)
    for position in range(outputs):
        d.result(d.output(value, position))
    assert d.plan.steps[0].note.endswith("images in vectors")
    found = [each.data for each in d.run()]
    return found if outputs > 1 else found[0]


def geometry(kernel, stride, pad, caffe):
    return {"kernel": kernel, "stride": stride, "pad": pad, "caffe": caffe, "channel_last": True}


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def counts(seen):
    return tuple(i + 1 for i in seen[-1][0])


def test_maxima_are_the_first_ones_and_nan_wins(sizes, kernel, stride, pad, caffe, width):
    x = np.random.default_rng(0).integers(-2, 3, (2, *sizes, width)).astype(np.float32)
    x[np.random.default_rng(1).random(x.shape) < 0.05] = np.nan
    y, place = computed("WindowMax", x, outputs=2, **geometry(kernel, stride, pad, caffe))
    seen = windows(sizes, kernel, stride, pad, caffe)
    assert place.shape == (2, *counts(seen), width) and place.dtype == np.uint8
    for at, elements in seen:
        inside = x[(slice(None), *elements)].reshape(2, -1, width)
        np.testing.assert_array_equal(y[(slice(None), *at)], inside.max(1))
        np.testing.assert_array_equal(place[(slice(None), *at)], inside.argmax(1))


def test_sums_averages_and_norms_are_of_the_elements_that_exist(sizes, kernel, stride, pad, caffe, width):
    x = drawn(2, *sizes, width)
    given = geometry(kernel, stride, pad, caffe)
    total, mean = (computed("WindowSum", x, average=average, **given) for average in (False, True))
    norm = computed("WindowNorm", x, **given)
    for at, elements in windows(sizes, kernel, stride, pad, caffe):
        inside, to = x[(slice(None), *elements)].reshape(2, -1, width), (slice(None), *at)
        np.testing.assert_allclose(total[to], inside.sum(1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(mean[to], inside.mean(1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(norm[to], np.sqrt(np.square(inside).sum(1)), rtol=1e-5)


def test_gradients_go_to_the_maxima_or_to_all_elements(sizes, kernel, stride, pad, caffe, width):
    seen = windows(sizes, kernel, stride, pad, caffe)
    gy = drawn(2, *counts(seen), width)
    x = drawn(2, *sizes, width)
    given = geometry(kernel, stride, pad, caffe)
    _, place = computed("WindowMax", x, outputs=2, **given)
    of_maxima, of_sums, of_means = (np.zeros(x.shape) for _ in range(3))
    for at, elements in seen:
        here, to = gy[(slice(None), *at)], (slice(None), *elements)
        inside = x[to]
        axes = tuple(range(1, inside.ndim - 1))
        of_maxima[to] += np.where(inside == inside.max(axes, keepdims=True), np.expand_dims(here, axes), 0)
        of_sums[to] += np.expand_dims(here, axes)
        of_means[to] += np.expand_dims(here, axes) / np.prod(inside.shape[1:-1])
    given["shape"] = sizes
    np.testing.assert_allclose(computed("WindowMaxGrad", gy, place, **given), of_maxima, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(computed("WindowSumGrad", gy, **given), of_sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(computed("WindowSumGrad", gy, average=True, **given), of_means, rtol=1e-5, atol=1e-5)


def test_a_place_that_a_window_does_not_have_is_refused(sizes, kernel, stride, pad, caffe, width):
    seen = windows(sizes, kernel, stride, pad, caffe)
    gy = drawn(2, *counts(seen), width)
    place = np.zeros(gy.shape, np.uint8)
    last = seen[-1][1]
    place[(-1,) * place.ndim] = drawn(*sizes)[last].size
    with pytest.raises(IndexError, match="place out of range"):
        computed("WindowMaxGrad", gy, place, shape=sizes, **geometry(kernel, stride, pad, caffe))
