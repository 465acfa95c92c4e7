"""fprop_pool, bprop_pool: values, places, both forms of the gradient, refusals."""

import numpy as np
import pytest
from tests.core.neon.calls import image_formulas as formulas

import atled as nn

GEOMETRIES = {
    "2 axes": {"H": 4, "W": 6, "R": 2, "S": 3},
    "overlapping": {"H": 5, "W": 7, "R": 3, "S": 3, "pad_h": 1, "pad_w": 2, "str_h": 2, "str_w": 1},
    "maps": {"H": 3, "W": 4, "J": 3, "R": 2, "S": 2, "pad_c": 1, "str_c": 2, "str_w": 1},
    "3 axes": {"D": 3, "H": 4, "W": 3, "T": 2, "R": 2, "S": 2, "pad_d": 1},
    "1 axis": {"W": 7, "S": 3, "str_w": 2},
}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def layer_of(be, op, **sizes):
    return be.pool_layer(np.float32, op, **{"N": 3, "C": 4, **sizes})


def drawn(rng, dims):
    return rng.standard_normal(dims).astype(np.float32)


def close(tensor, expected, tolerance=1e-5):
    np.testing.assert_allclose(tensor.get().reshape(expected.shape), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", ["max", "avg", "l2"])
@pytest.mark.parametrize("sizes", GEOMETRIES.values(), ids=GEOMETRIES)
def test_values_are_those_of_the_definitions(be, rng, op, sizes):
    layer = layer_of(be, op, **sizes)
    x, e = drawn(rng, layer.dimI), drawn(rng, layer.dimO)
    out, argmax, grad = be.zeros(layer.dimO2), be.zeros(layer.dimO2, np.uint8), be.zeros(layer.dimI2)
    be.fprop_pool(layer, be.array(x), out, argmax if op == "max" else None)
    be.bprop_pool(layer, be.array(x), be.array(e), grad)
    expected, place = formulas.pooled(layer, x)
    close(out, expected)
    close(grad, formulas.unpooled(layer, x, e))
    if op == "max":
        np.testing.assert_array_equal(argmax.get().reshape(layer.dimO), place)


def test_nothing_falls_back(cpu, rng):
    nn.reset_fallback_counts()
    for op in ("max", "avg", "l2"):
        test_values_are_those_of_the_definitions(cpu, rng, op, GEOMETRIES["maps"])
    assert nn.fallback_counts() == {}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_the_form_of_the_code_takes_errors_and_places(be, rng, dtype):
    layer = layer_of(be, "max", **GEOMETRIES["overlapping"])
    x, e, before = drawn(rng, layer.dimI), drawn(rng, layer.dimO), drawn(rng, layer.dimI)
    out, argmax, delta = be.zeros(layer.dimO2), be.zeros(layer.dimO2, dtype), be.array(before)
    be.fprop_pool(layer, be.array(x), out, argmax)
    be.bprop_pool(layer, be.array(e), delta, argmax, 2.0, 0.5)
    close(delta, 2 * formulas.unpooled(layer, x, e) + 0.5 * before)


def test_an_average_needs_no_places(be, rng):
    layer = layer_of(be, "avg", **GEOMETRIES["maps"])
    x, e = drawn(rng, layer.dimI), drawn(rng, layer.dimO)
    delta, errors = be.zeros(layer.dimI), be.array(e)
    be.bprop_pool(layer, errors, delta, alpha=3.0)
    close(delta, 3 * formulas.unpooled(layer, x, e))
    np.testing.assert_array_equal(errors.get(), e)  # alpha scales the result, not the error


def test_names_of_both_forms_are_taken(be, rng):
    layer = layer_of(be, "max", H=4, W=4, R=2, S=2)
    x, e = drawn(rng, layer.dimI), drawn(rng, layer.dimO)
    images, errors = be.array(x), be.array(e)
    out, argmax = be.zeros(layer.dimO2), be.zeros(layer.dimO2, np.uint8)
    be.fprop_pool(layer, I=images, O=out, argmax=argmax)
    expected = formulas.unpooled(layer, x, e)
    for arguments in (
        {"I": images, "E": errors, "grad_I": None},
        {"I": errors, "O": None, "argmax": argmax},
        {"E": errors, "grad_I": None, "argmax": argmax},
    ):
        delta = be.zeros(layer.dimI2)
        be.bprop_pool(layer, **{name: delta if value is None else value for name, value in arguments.items()})
        close(delta, expected)


def test_of_equal_maxima_the_first_counts(be):
    layer = layer_of(be, "max", H=2, W=4, R=2, S=2)
    out, argmax, grad = be.zeros(layer.dimO2), be.zeros(layer.dimO2, np.uint8), be.zeros(layer.dimI2)
    be.fprop_pool(layer, be.array(np.ones(layer.dimI)), out, argmax)
    assert not argmax.get().any()
    be.bprop_pool(layer, be.array(np.ones(layer.dimI)), be.array(np.ones(layer.dimO)), grad)
    expected = np.zeros(layer.dimI)
    expected[:, :, 0, ::2] = 1
    close(grad, expected)


def test_beta_keeps_a_share_of_the_output(be, rng):
    layer = layer_of(be, "max", **GEOMETRIES["3 axes"])
    x, before = drawn(rng, layer.dimI2), drawn(rng, layer.dimO2)
    out, argmax = be.array(before), be.zeros(layer.dimO2, np.uint8)
    be.fprop_pool(layer, be.array(x), out, argmax, 0.5)
    expected, place = formulas.pooled(layer, x.reshape(layer.dimI))
    close(out, expected + 0.5 * before.reshape(layer.dimO))
    np.testing.assert_array_equal(argmax.get().reshape(layer.dimO), place)


@pytest.mark.parametrize("op", ["max", "avg"])
def test_views_are_read_and_written(be, rng, op):
    layer = layer_of(be, op, H=4, W=4, R=2, S=2)
    x = drawn(rng, (layer.dimI2[0], 2 * layer.N))
    out, argmax = be.zeros((2 * layer.dimO2[0], layer.N)), be.zeros((layer.dimO2[0], 2 * layer.N), np.uint8)
    be.fprop_pool(layer, be.array(x)[:, ::2], out[1::2], argmax[:, 1::2] if op == "max" else None)
    expected, _ = formulas.pooled(layer, x[:, ::2].reshape(layer.dimI))
    np.testing.assert_allclose(out.get()[1::2], expected.reshape(layer.dimO2), rtol=1e-6)
    assert not out.get()[::2].any()
    grad = be.zeros((layer.dimI2[0], 2 * layer.N))
    be.bprop_pool(layer, out[1::2], grad[:, ::2], argmax[:, 1::2] if op == "max" else None)
    expected = formulas.unpooled(layer, x[:, ::2].reshape(layer.dimI), expected).reshape(layer.dimI2)
    np.testing.assert_allclose(grad.get()[:, ::2], expected, rtol=1e-6)


def test_wide_windows_have_places_beyond_a_byte(be, rng):
    layer = layer_of(be, "max", C=1, H=20, W=15, R=20, S=15)
    x = drawn(rng, layer.dimI)
    out, argmax, grad = be.zeros(layer.dimO2), be.zeros(layer.dimO2, np.int32), be.zeros(layer.dimI2)
    be.fprop_pool(layer, be.array(x), out, argmax)
    be.bprop_pool(layer, out, grad, argmax)
    np.testing.assert_array_equal(argmax.get().ravel(), x.reshape(300, 3).argmax(0))
    close(grad, np.where(x == x.max((0, 1, 2, 3)), x, 0))


def test_in_caffe_mode_a_last_window_may_be_cut(be, rng):
    be.compat_mode = "caffe"
    layer = layer_of(be, "avg", H=6, W=5, R=3, S=3, pad_w=1, str_h=2, str_w=2)
    assert layer.MPQ == (1, 3, 3)
    x = drawn(rng, layer.dimI)
    out = be.zeros(layer.dimO2)
    be.fprop_pool(layer, be.array(x), out)
    close(out, formulas.pooled(layer, x)[0])


@pytest.mark.parametrize("op", ["max", "avg", "l2"])
def test_gradients_are_differences(reference, rng, op):
    be = reference
    layer = be.pool_layer(np.float64, op, 2, 3, 1, 3, 4, 2, 1, 2, 2, str_j=1, str_w=1)
    x, e = rng.standard_normal(layer.dimI2), rng.standard_normal(layer.dimO2)
    grad = be.zeros(layer.dimI2, np.float64)
    be.bprop_pool(layer, be.array(x, np.float64), be.array(e, np.float64), grad)

    def loss(images):
        out = be.zeros(layer.dimO2, np.float64)
        be.fprop_pool(layer, be.array(images, np.float64), out)
        return (out.get() * e).sum()

    np.testing.assert_allclose(grad.get(), formulas.differences(loss, x), atol=1e-7)


def test_the_norm_of_zeros_has_no_gradient(be):
    layer = layer_of(be, "l2", H=2, W=2, R=2, S=2)
    grad = be.array(np.ones(layer.dimI2))
    be.bprop_pool(layer, be.zeros(layer.dimI2), be.array(np.ones(layer.dimO2)), grad)
    assert not grad.get().any()


def test_argmax_of_another_size_or_dtype_is_refused_and_nothing_is_written(be):
    layer = layer_of(be, "max", H=20, W=15, R=20, S=15)
    x, out = be.array(np.ones(layer.dimI2)), be.zeros(layer.dimO2)
    for argmax, wrong in (
        (be.zeros((5, 5), np.uint8), "argmax has shape"),
        (be.zeros(layer.dimO2, np.uint8), "argmax is uint8, and windows have 300 elements"),
        (be.zeros(layer.dimO2), "argmax is float32"),
    ):
        with pytest.raises(ValueError, match=wrong):
            be.fprop_pool(layer, x, out, argmax)
    assert not out.get().any()


def test_a_place_that_a_window_does_not_have_is_refused(be):
    layer = layer_of(be, "max", H=4, W=4, R=2, S=2)
    delta = be.array(np.ones(layer.dimI2))
    with pytest.raises(IndexError, match="out of range"):
        be.bprop_pool(layer, be.zeros(layer.dimO2), delta, be.array(np.full(layer.dimO2, 4), np.uint8))
    assert (delta.get() == 1).all()


def test_what_a_gradient_needs_is_asked_for(cpu):
    of_max, of_norm = (layer_of(cpu, op, H=4, W=4, R=2, S=2) for op in ("max", "l2"))
    error, delta = cpu.zeros(of_max.dimO2), cpu.zeros(of_max.dimI2)
    with pytest.raises(ValueError, match=r"(?s)neither images nor argmax.*argmax= of fprop_pool"):
        cpu.bprop_pool(of_max, error, delta)
    with pytest.raises(ValueError, match="l2 depends on the images"):
        cpu.bprop_pool(of_norm, error, delta)
    with pytest.raises(TypeError, match="no PoolLayer"):
        cpu.fprop_pool(None, delta, error)
    with pytest.raises(ValueError, match="I has shape"):
        cpu.fprop_pool(of_norm, error, error)


def test_parts_of_larger_buffers_are_pooled(be):
    layer = be.pool_layer(np.float32, "avg", 4, C=2, H=2, W=2, R=2, S=2)
    buffer = be.ones((20, 4))
    images, pooled = buffer.share((8, 4)), be.zeros((20, 4)).share((2, 4))
    be.fprop_pool(layer, images, pooled)
    np.testing.assert_array_equal(pooled.get(), 1)
    be.bprop_pool(layer, pooled, images)
    np.testing.assert_array_equal(buffer.get()[:, 0], [0.25] * 8 + [1] * 12)
