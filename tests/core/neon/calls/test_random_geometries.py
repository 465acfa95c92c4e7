"""Convolutions and poolings of random sizes, some of which leave axes out, are those of the definitions."""

import numpy as np
import pytest
from tests.core.neon.calls import image_formulas as formulas

_AXES = (("D", "T", "d"), ("H", "R", "h"), ("W", "S", "w"))


def random_convolution(be, rng):
    """A layer; None for sizes that are none."""
    sizes = {"N": rng.choice([1, 2, 17]), "C": rng.integers(1, 5), "K": rng.integers(1, 6)}
    for axis, window, ending in _AXES:
        sizes[axis] = 1 if rng.random() < 0.4 else rng.integers(1, 7)
        sizes[window] = rng.integers(1, 4) if sizes[axis] > 1 else 1
        sizes[f"pad_{ending}"] = rng.integers(0, 3) if rng.random() < 0.5 else 0
        sizes[f"str_{ending}"], sizes[f"dil_{ending}"] = rng.integers(1, 4), rng.integers(1, 3)
    return made(be.conv_layer, np.float32, **sizes)


def random_pooling(be, rng):
    """The same for a pooling."""
    be.compat_mode = None if rng.random() < 0.6 else "caffe"
    sizes = {"N": rng.choice([1, 2, 17]), "C": rng.integers(1, 5)}
    for axis, window, ending in (("C", "J", "c"), *_AXES):
        sizes.setdefault(axis, rng.integers(1, 7))
        sizes[window] = rng.integers(1, 4)
        sizes[f"pad_{ending}"] = rng.integers(0, sizes[window])
        sizes[f"str_{ending}"] = rng.integers(1, 4) if rng.random() < 0.7 else None
    return made(be.pool_layer, np.float32, rng.choice(["max", "avg", "l2"]), **sizes)


def made(maker, *arguments, **sizes):
    try:
        return maker(*arguments, **sizes)
    except ValueError:
        return None


def drawn(rng, *shapes):
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(layer, tensors, expected):
    for tensor, wanted in zip(tensors, expected, strict=True):
        np.testing.assert_allclose(tensor.get().reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-3, err_msg=layer)


@pytest.mark.parametrize("seed", range(20))
def test_convolutions(be, seed):
    rng = np.random.default_rng(seed)
    layer = random_convolution(be, rng)
    if layer is None:
        return
    x, f, e = drawn(rng, layer.dimI, layer.dimF, layer.dimO)
    images, filters, errors = map(be.array, (x, f, e))
    out, grad, update = map(be.zeros, (layer.dimO2, layer.dimI2, layer.dimF2))
    be.fprop_conv(layer, images, filters, out)
    be.bprop_conv(layer, filters, errors, grad)
    be.update_conv(layer, images, errors, update)
    geometry = layer.padding, layer.strides, layer.dilation
    expected = (
        formulas.window_sums(x, f, layer.MPQ, *geometry),
        formulas.spread(f, e, layer.DHW, *geometry),
        formulas.correlated(x, e, layer.TRS, *geometry),
    )
    check(repr(layer), (out, grad, update), expected)


@pytest.mark.parametrize("seed", range(20))
def test_poolings(be, seed):
    rng = np.random.default_rng(100 + seed)
    layer = random_pooling(be, rng)
    if layer is None:
        return
    x, e = drawn(rng, layer.dimI, layer.dimO)
    images, errors = map(be.array, (x, e))
    out, grad, argmax = be.zeros(layer.dimO2), be.zeros(layer.dimI2), be.zeros(layer.dimO2, np.uint8)
    be.fprop_pool(layer, images, out, argmax)
    be.bprop_pool(layer, images, errors, grad)
    expected, place = formulas.pooled(layer, x)
    check(repr(layer), (out, grad), (expected, formulas.unpooled(layer, x, e)))
    if layer.op == "max":
        np.testing.assert_array_equal(argmax.get().reshape(layer.dimO), place)
        be.bprop_pool(layer, errors, grad, argmax)
        check(repr(layer), (grad,), (formulas.unpooled(layer, x, e),))
