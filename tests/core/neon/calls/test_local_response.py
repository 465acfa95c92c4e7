"""lrn_layer, fprop_lrn, bprop_lrn."""

import numpy as np
import pytest
from tests.core.neon.calls import image_formulas as formulas

import atled as nn


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_a_layer_has_its_sizes(cpu):
    layer = cpu.lrn_layer(np.float32, 8, 4, H=3, W=2, J=5)
    assert (layer.dimI, layer.dimO2, layer.sizeO, layer.nOut, layer.J) == ((4, 1, 3, 2, 8), (24, 8), 192, 24, 5)


def test_values_are_those_of_the_definition(be, rng):
    layer = be.lrn_layer(np.float32, 3, 5, 1, 2, 3, 3)
    x = rng.standard_normal(layer.dimI).astype(np.float32)
    out, denom = be.zeros(layer.dimI2), be.zeros(layer.dimI)
    be.fprop_lrn(layer, be.array(x), out, denom, None, None, 0.5, 0.75)
    expected, below = formulas.local_response(x, 3, 0.5, 0.75)
    np.testing.assert_allclose(denom.get(), below, rtol=1e-5)
    np.testing.assert_allclose(out.get(), expected.reshape(layer.dimI2), rtol=1e-5)


def test_the_gradient_is_made_of_what_the_forward_call_gave(be, rng):
    layer = be.lrn_layer(np.float32, 3, 5, 1, 2, 3, 3)
    x, e, before = (rng.standard_normal(layer.dimI).astype(np.float32) for _ in range(3))
    y, below = formulas.local_response(x, 3, 0.5, 0.75)
    delta = be.array(before)
    images, result, errors, denom = (be.array(each) for each in (x, y, e, below))
    be.bprop_lrn(layer, images, result, errors, delta, denom, alpha=2.0, beta=0.5, ascale=0.5, bpower=0.75)
    gradient = e * below**-0.75 - 2 * 0.75 * 0.5 / 3 * x * formulas.around(y * e / below, 3)
    np.testing.assert_allclose(delta.get(), 2 * gradient + 0.5 * before, rtol=1e-4, atol=1e-5)


def test_alpha_scales_the_result_and_beta_keeps_a_share(be, rng):
    layer = be.lrn_layer(np.float32, 2, 3, J=3)
    x, before = (rng.standard_normal(layer.dimI2).astype(np.float32) for _ in range(2))
    out, denom = be.array(before), be.zeros(layer.dimI2)
    be.fprop_lrn(layer, be.array(x), out, denom, 2.0, 0.5)
    expected, below = formulas.local_response(x, 3, 1.0, 1.0)
    np.testing.assert_allclose(out.get(), 2 * expected + 0.5 * before, rtol=1e-4)
    np.testing.assert_allclose(denom.get(), below, rtol=1e-5)


def test_views_are_read_and_written(be, rng):
    layer = be.lrn_layer(np.float32, 2, 3, H=2, J=3)
    x = rng.standard_normal((6, 4)).astype(np.float32)
    out, denom = be.zeros((12, 2)), be.zeros((6, 2))
    be.fprop_lrn(layer, be.array(x)[:, ::2], out[::2], denom)
    expected, _ = formulas.local_response(x[:, ::2].reshape(layer.dimI), 3, 1.0, 1.0)
    np.testing.assert_allclose(out.get()[::2], expected.reshape(6, 2), rtol=1e-5)


def test_the_gradient_is_that_of_differences(reference, rng):
    be = reference
    layer = be.lrn_layer(np.float64, 2, 4, 1, 1, 2, 3)
    x, e = (rng.standard_normal(layer.dimI2) for _ in range(2))

    def forward(images):
        out, denom = (be.zeros(layer.dimI2, np.float64) for _ in range(2))
        be.fprop_lrn(layer, be.array(images, np.float64), out, denom, ascale=0.7, bpower=0.6)
        return out, denom

    delta = be.zeros(layer.dimI2, np.float64)
    out, denom = forward(x)
    be.bprop_lrn(layer, be.array(x, np.float64), out, be.array(e, np.float64), delta, denom, ascale=0.7, bpower=0.6)
    expected = formulas.differences(lambda images: (forward(images)[0].get() * e).sum(), x)
    np.testing.assert_allclose(delta.get(), expected, atol=1e-7)


def test_nothing_falls_back(cpu, rng):
    nn.reset_fallback_counts()
    test_values_are_those_of_the_definition(cpu, rng)
    test_the_gradient_is_made_of_what_the_forward_call_gave(cpu, rng)
    assert nn.fallback_counts() == {}


def test_bad_calls_are_refused(cpu):
    with pytest.raises(ValueError, match=r"J=4.*it is even"):
        cpu.lrn_layer(np.float32, 2, 3, J=4)
    layer = cpu.lrn_layer(np.float32, 2, 3, J=3)
    x = cpu.zeros(layer.dimI2)
    with pytest.raises(ValueError, match="denom has shape"):
        cpu.fprop_lrn(layer, x, x, cpu.zeros((5, 2)))
    with pytest.raises(TypeError, match="bpower is of type NoneType"):
        cpu.fprop_lrn(layer, x, x, x, bpower=None)
