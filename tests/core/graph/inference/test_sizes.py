"""Sizes that a call names follow the axis that changed."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F


@pytest.fixture(autouse=True)
def recording():
    with nn.auto_forward(False):
        yield


def inferred(made, shape, values):
    x = nn.Variable(shape)
    return nn.inference(made(x), x)(values)


def values(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("recorded_count", [1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_a_reshape_keeps_the_batch_where_it_is(recorded_count, count):
    found = inferred(lambda x: F.reshape(x, (recorded_count, -1)) * 1, (recorded_count, 2, 3), values(count, 2, 3))
    np.testing.assert_array_equal(found, values(count, 6))


def test_a_reshape_may_join_the_batch_with_its_neighbours():
    found = inferred(lambda x: F.reshape(x, (-1, 3)) * 1, (2, 4, 3), values(5, 4, 3))
    np.testing.assert_array_equal(found, values(20, 3))
    found = inferred(lambda x: F.reshape(F.transpose(x, (1, 0, 2)), (4, -1)) * 1, (2, 4, 3), values(5, 4, 3))
    np.testing.assert_array_equal(found, values(5, 4, 3).transpose(1, 0, 2).reshape(4, 15))


def test_a_reshape_may_split_what_is_beside_the_batch():
    found = inferred(lambda x: F.reshape(x, (2, 2, 3)) * 1, (2, 6), values(4, 6))
    np.testing.assert_array_equal(found, values(4, 2, 3))


@pytest.mark.parametrize("shape", [(2, 5, 8), (3, 7, 8), (1, 1, 8), (5, 2, 8), (0, 4, 8)])
def test_a_reshape_keeps_batch_and_length_where_they_are(shape):
    def heads(x):
        return F.transpose(F.reshape(x, (*x.shape[:2], 2, 4)), (0, 2, 1, 3))

    expected = values(*shape).reshape(*shape[:2], 2, 4).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(inferred(heads, (2, 5, 8), values(*shape)), expected)
    # Back, and with the heads counted as samples.
    joined = inferred(lambda x: F.reshape(F.transpose(heads(x), (0, 2, 1, 3)), x.shape) * 1, (2, 5, 8), values(*shape))
    np.testing.assert_array_equal(joined, values(*shape))
    counted = inferred(lambda x: F.reshape(heads(x), (2 * 2, 5, 4)) * 1, (2, 5, 8), values(*shape))
    np.testing.assert_array_equal(counted, expected.reshape(2 * shape[0], shape[1], 4))


@pytest.mark.parametrize("shape", [(3, 7, 8), (1, 1, 8)])
def test_a_reshape_may_join_axes_that_both_change(shape):
    found = inferred(lambda x: F.reshape(x, (10, 8)) * 1, (2, 5, 8), values(*shape))
    np.testing.assert_array_equal(found, values(shape[0] * shape[1], 8))
    found = inferred(lambda x: F.reshape(x, (40, 3)) * 1, (2, 4, 5, 3), values(shape[0], 4, shape[1], 3))
    np.testing.assert_array_equal(found, values(shape[0] * shape[1] * 4, 3))


def test_a_reshape_that_joins_changed_axes_behind_the_batch_is_refused():
    with pytest.raises(ValueError, match=r"axes \[1, 3\], which it joins, have other sizes"):
        inferred(lambda x: F.reshape(x, (2, 48)) * 1, (2, 3, 4, 4), values(5, 4, 4, 3))


def test_an_axis_of_one_between_others_is_joined_with_either():
    with pytest.raises(ValueError, match=r"which axis of the result is axis 1 of what it reads, of size 1"):
        inferred(lambda x: F.reshape(x, (4, 2)) * 1, (4, 1, 2), values(4, 3, 2))


@pytest.mark.parametrize("recorded", [(0, 3, 4), (2, 0, 4)])
def test_a_reshape_that_was_recorded_without_elements_is_refused(recorded):
    with pytest.raises(ValueError, match=r"without elements it does not say which axis becomes which"):
        inferred(lambda x: F.reshape(x, (recorded[0] * recorded[1], 4)) * 1, recorded, values(2, 3, 4))


def test_a_reshape_that_splits_the_batch_is_refused():
    with pytest.raises(
        ValueError, match=r"which axis of the result is axis 0 (?s:.*)record the graph with other sizes"
    ):
        inferred(lambda x: F.reshape(x, (2, 2, 3)) * 1, (4, 3), values(6, 3))


def test_a_slice_takes_whole_axes_whole():
    found = inferred(lambda x: x[:, 1:3], (2, 4), values(3, 4))
    np.testing.assert_array_equal(found, values(3, 4)[:, 1:3])


def test_a_slice_of_the_batch_is_refused_for_another_size():
    with pytest.raises(ValueError, match=r"slice of axis 0 from 0 to 1"):
        inferred(lambda x: x[:1], (2, 4), values(3, 4))


def test_a_broadcast_follows_what_it_does_not_repeat():
    found = inferred(lambda x: F.broadcast(x, (2, 3)), (2, 1), values(4, 1))
    np.testing.assert_array_equal(found, np.broadcast_to(values(4, 1), (4, 3)))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x + F.constant(2.0, (3, 5)),
        lambda x: x * F.broadcast(nn.parameter.get_parameter_or_create("gain", (1, 5)), (3, 5)),
        lambda x: F.maximum2(x, F.broadcast(F.mean(x, axis=0, keepdims=True), (3, 5))),
    ],
)
@pytest.mark.parametrize("count", [1, 4])
def test_a_size_that_was_written_down_is_not_taken_for_one_that_repeats_a_batch_of_one(made, count):
    assert inferred(made, (3, 5), values(3, 5)).shape == (3, 5)
    with pytest.raises(ValueError, match=r"cannot be computed for that(?s:.*)recorded with \(3, 5\)"):
        inferred(made, (3, 5), values(count, 5))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: F.average_pooling(x, x.shape[2:]),
        lambda x: F.max_pooling(x, x.shape[2:]),
        lambda x: F.sum_pooling(x, (4, 6)),
        lambda x: F.average_pooling(x, (2, 6), stride=(1, 1)),
        lambda x: F.average_pooling(F.transpose(x, (0, 2, 3, 1)), (4, 6), channel_last=True),
    ],
)
def test_a_window_that_took_an_axis_whole_is_refused_where_that_has_another_size(made):
    assert inferred(made, (2, 3, 4, 6), values(5, 3, 4, 6)).shape[0] == 5
    with pytest.raises(ValueError, match=r"took axis \d whole, (?s:.*) 6 and has 12(?s:.*)global_average_pooling"):
        inferred(made, (2, 3, 4, 6), values(2, 3, 4, 12))


@pytest.mark.parametrize(("size", "pad"), [(6, 0), (3, 1)])
def test_a_window_that_is_smaller_than_an_image_with_its_padding_goes_over_images_of_any_size(size, pad):
    def pooled(x):
        return F.max_pooling(x, (3, 3), stride=(2, 2), pad=(pad, pad))

    x = nn.Variable.from_numpy_array(values(2, 3, 12, 8))
    y = pooled(x)
    y.forward()
    np.testing.assert_array_equal(inferred(pooled, (1, 3, size, size), x.d), y.d)


@pytest.mark.parametrize("size", [2, 4])
def test_an_axis_that_is_split_has_the_size_that_was_recorded(size):
    def made(x):
        return F.stack(*F.split(x, axis=1), axis=1)

    np.testing.assert_array_equal(inferred(made, (2, 3, 5), values(4, 3, 5)), values(4, 3, 5))
    with pytest.raises(ValueError, match=rf"makes {size} arrays, and made 3 when recorded with \(2, 3, 5\)"):
        inferred(made, (2, 3, 5), values(2, size, 5))


def test_attributes_are_checked_for_other_shapes():
    for base_axis, shape in ((0, (1, 3)), (1, (2, 2))):
        k = 6 if base_axis == 0 else 3
        with pytest.raises(ValueError, match=rf"k={k} of the [23] elements of a sample"):
            inferred(lambda x, k=k, axis=base_axis: F.top_k_data(x, k, base_axis=axis), (2, 3), values(*shape))
    with pytest.raises(ValueError, match=r"is too wide to reflect"):
        inferred(lambda x: F.pad(x, (3, 3), mode="reflect"), (2, 5), values(2, 3))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_repetition_as_often_as_an_axis_was_long_is_refused_where_that_has_another_size(axis):
    def made(x):
        return F.broadcast(F.mean(x, axis=axis, keepdims=True), x.shape)

    recorded = (5, 4, 3)
    shape = (2, 4, 3) if axis else (5, 6, 3)
    expected = np.broadcast_to(values(*shape).mean(axis, keepdims=True), shape)
    np.testing.assert_allclose(inferred(made, recorded, values(*shape)), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=rf"Broadcast to \(5, 4, 3\)(?s:.*)size of {recorded[axis]} is written down"):
        inferred(made, recorded, values(*(7 if each == axis else size for each, size in enumerate(recorded))))


def test_a_repetition_by_another_number_stays():
    found = inferred(lambda x: F.broadcast(F.mean(x, axis=1, keepdims=True), (5, 3)), (5, 4), values(7, 4))
    np.testing.assert_allclose(found, np.repeat(values(7, 4).mean(1, keepdims=True), 3, 1), rtol=1e-6)


def test_a_gradient_of_the_size_that_was_recorded_is_refused_for_another():
    x = nn.Variable((2, 3, 7, 7), need_grad=True)
    pooled = F.average_pooling(x, (2, 2))
    (gradient,) = nn.grad(pooled * pooled, x)  # of as many elements for images of 6 x 6
    infer = nn.inference(gradient, x)
    assert infer(values(2, 3, 7, 7)).shape == (2, 3, 7, 7)
    with pytest.raises(ValueError, match=r"AveragePoolingGrad to \(7, 7\): a size of 7 is written down"):
        infer(values(2, 3, 6, 6))


@pytest.mark.parametrize("index", [0, (0, slice(1, 3)), -1])
def test_an_index_of_the_only_sample_is_refused_where_there_are_more(index):
    def made(x):
        return x[index] * 1

    np.testing.assert_array_equal(inferred(made, (1, 4, 3), values(1, 4, 3)), values(1, 4, 3)[index])
    with pytest.raises(ValueError, match=r"axis 0, which it leaves out, had size 1 and has 5"):
        inferred(made, (1, 4, 3), values(5, 4, 3))


def test_an_only_sample_is_joined_with_its_neighbours():
    found = inferred(lambda x: F.reshape(x, (-1, 3)) * 1, (1, 4, 3), values(5, 4, 3))
    np.testing.assert_array_equal(found, values(20, 3))


def test_one_sample_of_one_input_meets_several_of_another():
    a, b = nn.Variable((3, 5)), nn.Variable((3, 5))
    found = nn.inference(F.tanh(a) * b, [a, b])(values(1, 5), values(3, 5))
    np.testing.assert_allclose(found, np.tanh(values(1, 5)) * values(3, 5), rtol=1e-6)


def test_sizes_of_one_that_were_so_are_repeated():
    found = inferred(lambda x: x * F.mean(x, axis=1, keepdims=True), (3, 5), values(1, 5))
    np.testing.assert_allclose(found, values(1, 5) * 2)
