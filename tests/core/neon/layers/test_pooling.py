"""Pooling of images."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import Pooling

BY_OP = {"max": np.max, "avg": np.mean, "l2": lambda x, axis: np.sqrt((x**2).sum(axis=axis))}


@pytest.mark.parametrize("op", BY_OP)
def test_windows_side_by_side(be, op):
    layer, x = ready(Pooling(2, op), (3, 4, 6)), drawn(be, (72, 4))
    assert layer.out_shape == (3, 2, 3)
    expected = BY_OP[op](x.get().reshape(3, 2, 2, 3, 2, 4), axis=(2, 4)).reshape(18, 4)
    np.testing.assert_allclose(layer.fprop(x).get(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.fprop(x, beta=2.0).get(), 3 * expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fshape", "in_shape", "out_shape"),
    [
        ((2, 3), (3, 4, 6), (3, 2, 2)),
        ((2, 2, 3), (3, 4, 4, 6), (3, 2, 2, 2)),
        ({"J": 3, "R": 2, "S": 2}, (3, 4, 6), (1, 2, 3)),
        ("all", (3, 4, 6), (3, 1, 1)),
        ("all", (3, 2, 4, 6), (3, 1, 1)),
    ],
)
def test_windows_of_all_kinds(be, fshape, in_shape, out_shape):
    strides = {"str_c": 3} if isinstance(fshape, dict) else None
    layer = ready(Pooling(fshape, "avg", strides), in_shape)
    assert layer.out_shape == out_shape
    assert np.allclose(layer.fprop(be.ones((np.prod(in_shape), 4))).get(), 1)


@pytest.mark.parametrize("op", BY_OP)
def test_gradients_are_those_of_differences(exact, op):
    layer = ready(Pooling((2, 3), op, strides=1, padding=1), (2, 4, 3))
    check_gradients(layer, drawn(exact, (24, 4)).get())


@pytest.mark.parametrize("op", BY_OP)
def test_deltas_are_scaled_and_added(be, op):
    layer, error = ready(Pooling(2, op), (2, 4, 4)), drawn(be, (8, 4), seed=1)
    layer.fprop(drawn(be, (32, 4)))
    plain = layer.bprop(error).get()
    layer.deltas[:] = 1
    np.testing.assert_allclose(layer.bprop(error, 2.0, 0.5).get(), 2 * plain + 0.5, rtol=1e-5, atol=1e-5)


def test_windows_of_more_than_256_elements_keep_their_places(be):
    layer, x = ready(Pooling("all"), (1, 17, 17)), drawn(be, (289, 4))
    np.testing.assert_allclose(layer.fprop(x).get()[0], x.get().max(axis=0))
    layer.bprop(be.ones((1, 4)))
    np.testing.assert_array_equal(layer.deltas.get().argmax(axis=0), x.get().argmax(axis=0))


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    for op in BY_OP:
        layer = ready(Pooling(2, op), (2, 4, 4))
        layer.fprop(cpu.ones((32, 4)))
        layer.bprop(cpu.ones((8, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    with pytest.raises(ValueError, match=r"(?s)Pooling 'p'\(fshape='some'\).*no window.*\"all\""):
        Pooling("some", name="p").configure((2, 4, 4))
    with pytest.raises(ValueError, match=r"(?s)Pooling 'p'.*no image"):
        Pooling(2, name="p").configure(32)
    with pytest.raises(ValueError, match=r"(?s)Pooling 'p'.*no such pooling"):
        Pooling(2, "mean", name="p").configure((2, 4, 4))
    layer = ready(Pooling(2, name="p"), (2, 4, 4))
    with pytest.raises(ValueError, match=r"(?s)Pooling 'p'\.fprop: inputs have shape \[8, 4\]"):
        layer.fprop(cpu.ones((8, 4)))
