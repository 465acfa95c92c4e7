"""neon's layer calls on images are computed on the device: as the references of the ops compute them."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend


def convolution(be, rng):
    layer = be.conv_layer(np.float32, 4, 2, 3, H=5, W=6, R=3, S=2, pad_h=1, str_w=2, dil_h=2)
    x, f, e, b = (rng.normal(size=dims) for dims in (layer.dimI2, layer.dimF2, layer.dimO2, (3, 1)))
    x, f, e, b = map(be.array, (x, f, e, b))
    out, grad, update, sums = map(be.zeros, (layer.dimO2, layer.dimI2, layer.dimF2, (3, 1)))
    be.fprop_conv(layer, x, f, out, bias=b, bsum=sums, alpha=0.5, relu=True, slope=0.25)
    be.bprop_conv(layer, f, e, grad, X=x, brelu=True)
    be.update_conv(layer, x, e, update, 2.0, 0.0, b)
    return out, grad, update, sums, b


def convolution_of_three_axes(be, rng):
    layer = be.conv_layer(np.float32, 2, 2, 3, D=3, H=4, W=3, T=2, R=2, S=3, pad_d=1)
    x, f, e = (be.array(rng.normal(size=dims)) for dims in (layer.dimI2, layer.dimF2, layer.dimO2))
    out, grad, update = map(be.zeros, (layer.dimO2, layer.dimI2, layer.dimF2))
    be.fprop_conv(layer, x, f, out)
    be.bprop_conv(layer, f, e, grad, beta=0.5)
    be.update_conv(layer, x, e, update)
    return out, grad, update


def poolings(be, rng):
    results = []
    for op in ("max", "avg", "l2"):
        layer = be.pool_layer(np.float32, op, 4, 3, H=5, W=6, J=2, R=3, S=2, pad_h=1, str_c=1, str_h=2)
        x, e = be.array(rng.normal(size=layer.dimI)), be.array(rng.normal(size=layer.dimO))
        out, argmax, grad = be.zeros(layer.dimO2), be.zeros(layer.dimO2, np.uint8), be.zeros(layer.dimI2)
        be.fprop_pool(layer, x, out, argmax)
        be.bprop_pool(layer, x, e, grad)
        results += [out, argmax, grad]
    return results


def local_response(be, rng):
    layer = be.lrn_layer(np.float32, 4, 5, H=2, W=3, J=3)
    x, e = be.array(rng.normal(size=layer.dimI2)), be.array(rng.normal(size=layer.dimI2))
    out, denom, delta = (be.zeros(layer.dimI2) for _ in range(3))
    be.fprop_lrn(layer, x, out, denom, ascale=0.5, bpower=0.75)
    be.bprop_lrn(layer, x, out, e, delta, denom, ascale=0.5, bpower=0.75)
    return out, denom, delta


def regions(be, rng):
    images, rois = be.array(rng.normal(size=(2 * 5 * 6, 3))), be.array([[0, 0, 0, 11, 9], [2, 3, 3, 5, 9]])
    out, argmax, delta = be.zeros((2 * 2 * 3, 2)), be.zeros((2 * 2 * 3, 2), np.int32), be.zeros((60, 3))
    be.roipooling_fprop(images, rois, out, argmax, 2, 2, 5, 6, 2, 3, 0.5)
    be.roipooling_bprop(out, rois, delta, argmax, 2, 2, 5, 6, 2, 3, 0.5)
    return out, argmax, delta


@pytest.mark.parametrize("calls", [convolution, convolution_of_three_axes, poolings, local_response, regions])
def test_calls_are_computed_on_the_device(cuda, calls):
    expected = [each.get() for each in calls(gen_backend("reference"), np.random.RandomState(1))]
    for made, wanted in zip(calls(gen_backend(cuda), np.random.RandomState(1)), expected, strict=True):
        np.testing.assert_allclose(made.get(), wanted, rtol=1e-4, atol=1e-5)
    cleanup_backend()
