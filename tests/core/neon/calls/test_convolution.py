"""fprop_conv, bprop_conv, update_conv: values, what follows them, forms of their arguments, refusals."""

import numpy as np
import pytest
from tests.core.neon.calls import image_formulas as formulas

import atled as nn

GEOMETRIES = {
    "1 axis": {"N": 3, "C": 2, "K": 4, "W": 9, "S": 3, "pad_w": 2, "str_w": 2, "dil_w": 2},
    "2 axes": {"N": 4, "C": 3, "K": 2, "H": 5, "W": 6, "R": 3, "S": 2, "pad_h": 1, "str_h": 2},
    "odd pads": {"N": 2, "C": 2, "K": 3, "H": 7, "W": 5, "R": 2, "S": 3, "pad_h": 3, "pad_w": 1, "dil_h": 3},
    "3 axes": {"N": 2, "C": 2, "K": 3, "D": 3, "H": 4, "W": 3, "T": 2, "R": 2, "S": 3, "pad_d": 1, "str_d": 2},
    "1 x 1": {"N": 5, "C": 3, "K": 2, "H": 3, "W": 2},
}


def layer_of(be, **sizes):
    return be.conv_layer(np.float32, **{"N": 4, "C": 3, "K": 2, "H": 5, "W": 4, "R": 3, "S": 3, "pad_h": 1, **sizes})


def geometry(layer):
    return layer.padding, layer.strides, layer.dilation


def drawn(rng, dims):
    return rng.standard_normal(dims).astype(np.float32)


def close(tensor, expected, scale=1e-5):
    np.testing.assert_allclose(tensor.get().reshape(expected.shape), expected, rtol=scale, atol=scale * 10)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("sizes", GEOMETRIES.values(), ids=GEOMETRIES)
def test_values_are_those_of_the_definitions(be, rng, sizes):
    layer = be.conv_layer(np.float32, **sizes)
    x, f, e = drawn(rng, layer.dimI), drawn(rng, layer.dimF), drawn(rng, layer.dimO)
    images, filters, errors = be.array(x), be.array(f), be.array(e)  # five axes
    out, grad, update = be.zeros(layer.dimO2), be.zeros(layer.dimI2), be.zeros(layer.dimF2)  # two
    be.fprop_conv(layer, images, filters, out)
    be.bprop_conv(layer, filters, errors, grad)
    be.update_conv(layer, images, errors, update)
    close(out, formulas.window_sums(x, f, layer.MPQ, *geometry(layer)))
    close(grad, formulas.spread(f, e, layer.DHW, *geometry(layer)))
    close(update, formulas.correlated(x, e, layer.TRS, *geometry(layer)))


def test_nothing_falls_back(cpu, rng):
    nn.reset_fallback_counts()
    test_values_are_those_of_the_definitions(cpu, rng, GEOMETRIES["2 axes"])
    test_values_are_those_of_the_definitions(cpu, rng, GEOMETRIES["3 axes"])
    assert nn.fallback_counts() == {}


@pytest.mark.parametrize("sizes", [{"C": 9, "K": 10, "H": 8, "W": 8}, {"W": 9, "H": 1, "R": 1, "pad_h": 0}])
def test_changes_of_the_order_of_axes_belong_to_the_convolution_on_the_host(cpu, rng, sizes):
    layer = layer_of(cpu, N=17, **sizes)  # no vector has more numbers than there are images
    x, f, e = drawn(rng, layer.dimI), drawn(rng, layer.dimF), drawn(rng, layer.dimO)
    images, filters, errors = cpu.array(x), cpu.array(f), cpu.array(e)
    out, grad, update = cpu.zeros(layer.dimO2), cpu.zeros(layer.dimI2), cpu.zeros(layer.dimF2)
    calls = (
        (cpu.fprop_conv, (images, filters, out)),
        (cpu.bprop_conv, (filters, errors, grad)),
        (cpu.update_conv, (images, errors, update)),
    )
    for call, tensors in calls:
        call(layer, *tensors)
        assert len(cpu.plan(call, layer, *tensors).steps) == 1
    close(out, formulas.window_sums(x, f, layer.MPQ, *geometry(layer)), 1e-4)
    close(grad, formulas.spread(f, e, layer.DHW, *geometry(layer)), 1e-4)
    close(update, formulas.correlated(x, e, layer.TRS, *geometry(layer)), 1e-4)


def test_what_follows_a_convolution_comes_in_its_order(be, rng):
    layer = layer_of(be)
    x, f, before, bias = (drawn(rng, dims) for dims in (layer.dimI2, layer.dimF2, layer.dimO2, (layer.K, 1)))
    out, sums = be.array(before), be.zeros((layer.K, 1))
    be.fprop_conv(
        layer, be.array(x), be.array(f), out,
        bias=be.array(bias), bsum=sums, alpha=0.5, beta=2.0, relu=True, slope=0.25,
    )  # fmt: skip
    plain = formulas.window_sums(x.reshape(layer.dimI), f.reshape(layer.dimF), layer.MPQ, *geometry(layer))
    linear = 0.5 * plain + bias.reshape(-1, 1, 1, 1, 1)
    expected = np.maximum(linear, 0) + 0.25 * np.minimum(linear, 0) + 2 * before.reshape(layer.dimO)
    close(out, expected)
    close(sums, expected.sum((1, 2, 3, 4)).reshape(-1, 1), 1e-4)


def test_the_gradient_takes_the_same_options_with_a_value_for_each_map_of_the_images(be, rng):
    layer = layer_of(be)
    f, e, before, bias = (drawn(rng, dims) for dims in (layer.dimF2, layer.dimO2, layer.dimI2, (layer.C, 1)))
    grad, sums = be.array(before), be.zeros((layer.C, 1))
    be.bprop_conv(
        layer, be.array(f), be.array(e), grad, bias=be.array(bias), bsum=sums, alpha=2.0, beta=-1.0, relu=True
    )
    plain = formulas.spread(f.reshape(layer.dimF), e.reshape(layer.dimO), layer.DHW, *geometry(layer))
    expected = np.maximum(2 * plain + bias.reshape(-1, 1, 1, 1, 1), 0) - before.reshape(layer.dimI)
    close(grad, expected)
    close(sums, expected.sum((1, 2, 3, 4)).reshape(-1, 1), 1e-4)


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_brelu_multiplies_by_the_slope_of_a_rectifier_at_x(be, rng, slope):
    layer = layer_of(be)
    f, e = drawn(rng, layer.dimF2), drawn(rng, layer.dimO2)
    at = np.maximum(drawn(rng, layer.dimI2), -0.5)
    at[::3] = 0
    grad = be.zeros(layer.dimI2)
    be.bprop_conv(layer, be.array(f), be.array(e), grad, X=be.array(at), brelu=True, slope=slope)
    plain = formulas.spread(f.reshape(layer.dimF), e.reshape(layer.dimO), layer.DHW, *geometry(layer))
    close(grad, plain.reshape(at.shape) * ((at > 0) + slope * (at < 0)))


def test_beta_adds_x_where_it_is_given(be, rng):
    layer = layer_of(be)
    x, f, other = drawn(rng, layer.dimI2), drawn(rng, layer.dimF2), drawn(rng, layer.dimO2)
    out = be.zeros(layer.dimO2)
    be.fprop_conv(layer, be.array(x), be.array(f), out, be.array(other), beta=3.0)
    plain = formulas.window_sums(x.reshape(layer.dimI), f.reshape(layer.dimF), layer.MPQ, *geometry(layer))
    close(out, plain + 3 * other.reshape(layer.dimO))


def test_an_update_is_scaled_added_and_sums_errors_for_a_bias(be, rng):
    layer = layer_of(be)
    x, e, before = drawn(rng, layer.dimI2), drawn(rng, layer.dimO2), drawn(rng, layer.dimF2)
    update, sums = be.array(before), be.array(np.ones((layer.K, 1)))
    be.update_conv(layer, be.array(x), be.array(e), update, 2.0, 0.5, sums)
    plain = formulas.correlated(x.reshape(layer.dimI), e.reshape(layer.dimO), layer.TRS, *geometry(layer))
    close(update, 2 * plain + 0.5 * before.reshape(layer.dimF), 1e-4)
    close(sums, 2 * e.reshape(layer.K, -1).sum(1, keepdims=True) + 0.5, 1e-4)


def test_arguments_of_the_documents_stand_in_their_places(be, rng):
    layer = layer_of(be)
    x, f, e = (be.array(drawn(rng, dims)) for dims in (layer.dimI2, layer.dimF2, layer.dimO2))
    out, grad = be.zeros(layer.dimO2), be.zeros(layer.dimI2)
    be.fprop_conv(layer, x, f, out, -2.0, True, 3)
    documented = out.get()
    be.fprop_conv(layer, x, f, out, alpha=-2.0, relu=True)
    np.testing.assert_array_equal(documented, out.get())
    assert documented.min() == 0 < documented.max()
    be.bprop_conv(layer, f, e, grad, 2.0, 3)
    documented = grad.get()
    be.bprop_conv(layer, f, e, grad, alpha=2.0, repeat=3)
    np.testing.assert_array_equal(documented, grad.get())
    by_name, by_place = be.zeros(layer.dimF2), be.zeros(layer.dimF2)
    be.update_conv(layer, x, e, grad_F=by_name, alpha=2.0)
    be.update_conv(layer, x, e, by_place, 2.0)
    np.testing.assert_array_equal(by_name.get(), by_place.get())


def test_relu_and_bsum_of_the_layer_are_defaults(be, rng):
    layer = be.conv_layer(np.float32, 4, 3, 2, 1, 5, 4, 1, 3, 3, 0, 0, 0, 1, 1, 1, True, True)
    assert (layer.relu, layer.dilation) == (True, (1, 1, 1))
    x, f, out = be.array(drawn(rng, layer.dimI2)), be.array(drawn(rng, layer.dimF2)), be.zeros(layer.dimO2)
    be.fprop_conv(layer, x, f, out)
    assert out.get().min() == 0
    close(layer.batch_sum, out.get().reshape(layer.K, -1).sum(1, keepdims=True))
    sums = layer.batch_sum.get()
    be.fprop_conv(layer, x, f, out, relu=False, bsum=False)
    assert out.get().min() < 0
    np.testing.assert_array_equal(layer.batch_sum.get(), sums)


def test_views_are_read_and_written(be, rng):
    layer = layer_of(be)
    x, f = drawn(rng, (2 * layer.dimI2[0], layer.N + 3)), drawn(rng, (layer.dimF2[0], 3 * layer.K))
    out = be.zeros((layer.dimO2[0], 2 * layer.N))
    be.fprop_conv(layer, be.array(x)[::2, 1:-2], be.array(f)[:, ::3], out[:, ::-2])
    images, filters = x[::2, 1:-2].reshape(layer.dimI), f[:, ::3].reshape(layer.dimF)
    expected = formulas.window_sums(images, filters, layer.MPQ, *geometry(layer)).reshape(layer.dimO2)
    np.testing.assert_allclose(out.get()[:, ::-2], expected, rtol=1e-4, atol=1e-5)
    assert not out.get()[:, ::2].any()


def test_a_tensor_that_is_no_view_under_the_layers_sizes_is_copied_there_and_back(be):
    layer = be.conv_layer(np.float32, 2, 1, 1, 1, 2, 2)
    values = np.arange(8.0).reshape(4, 2)
    out = be.zeros((4, 2))
    be.fprop_conv(layer, be.array(values).T, be.array(np.ones((1, 1))), out.T)
    np.testing.assert_array_equal(out.get(), values)


def test_a_repeated_call_reads_its_tensors_anew(be, rng):
    layer = layer_of(be)
    x, f, out = be.array(drawn(rng, layer.dimI2)), be.array(drawn(rng, layer.dimF2)), be.zeros(layer.dimO2)
    be.fprop_conv(layer, x, f, out)
    first = out.get()
    x[:] = 2 * x
    be.fprop_conv(layer, x, f, out)
    close(out, 2 * first)


def test_a_deconvolution_is_the_gradient_and_its_gradient_a_convolution(be, rng):
    layer = be.deconv_layer(np.float32, 3, 2, 4, P=3, Q=4, R=3, S=2, str_h=2, pad_w=1)
    assert (layer.DHW, layer.MPQ, layer.nOut) == ((1, 7, 3), (1, 3, 4), 2 * 7 * 3)
    small, f, error = drawn(rng, layer.dimO), drawn(rng, layer.dimF), drawn(rng, layer.dimI)
    out, back = be.zeros(layer.dimI2), be.zeros(layer.dimO2)
    update, sums = be.zeros(layer.dimF2), be.zeros((layer.C, 1))
    be.bprop_conv(layer, be.array(f), be.array(small), out)
    be.fprop_conv(layer, be.array(error), be.array(f), back)
    be.update_conv(layer, be.array(error), be.array(small), update, grad_bias=sums)
    close(out, formulas.spread(f, small, layer.DHW, *geometry(layer)))
    close(back, formulas.window_sums(error, f, layer.MPQ, *geometry(layer)))
    close(update, formulas.correlated(error, small, layer.TRS, *geometry(layer)))
    close(sums, error.reshape(2, -1).sum(1, keepdims=True))


def test_gradients_are_differences(reference, rng):
    be = reference
    layer = be.conv_layer(np.float64, 2, 2, 2, 1, 4, 3, 1, 2, 2, 0, 1, 0, 1, 2, 1)
    x, f, e = (rng.standard_normal(dims) for dims in (layer.dimI2, layer.dimF2, layer.dimO2))

    def loss(images, filters):
        out = be.zeros(layer.dimO2, np.float64)
        be.fprop_conv(layer, be.array(images, np.float64), be.array(filters, np.float64), out)
        return (out.get() * e).sum()

    errors = be.array(e, np.float64)
    grad, update = be.zeros(layer.dimI2, np.float64), be.zeros(layer.dimF2, np.float64)
    be.bprop_conv(layer, be.array(f, np.float64), errors, grad)
    be.update_conv(layer, be.array(x, np.float64), errors, update)
    np.testing.assert_allclose(grad.get(), formulas.differences(lambda each: loss(each, f), x), atol=1e-7)
    np.testing.assert_allclose(update.get(), formulas.differences(lambda each: loss(x, each), f), atol=1e-7)


@pytest.mark.parametrize("position, name", [(0, "I"), (1, "F"), (2, "O")])
def test_tensors_of_other_sizes_are_refused_and_nothing_is_written(be, position, name):
    layer = layer_of(be)
    tensors = [be.zeros(dims) for dims in (layer.dimI2, layer.dimF2, layer.dimO2)]
    tensors[position] = be.zeros((7, 3))
    out = be.array(np.full(layer.dimO2, 5.0))
    tensors[2] = tensors[2] if position == 2 else out
    with pytest.raises(ValueError, match=rf"{name} has shape \[7, 3\], 21 elements") as error:
        be.fprop_conv(layer, *tensors)
    assert f"{name}=float32[7, 3]" in str(error.value)
    assert "give it" in str(error.value)
    assert (out.get() == 5).all()


@pytest.mark.parametrize("name", ["X", "bias", "bsum"])
def test_optional_tensors_of_other_sizes_are_refused(cpu, name):
    layer = layer_of(cpu)
    tensors = [cpu.zeros(dims) for dims in (layer.dimI2, layer.dimF2, layer.dimO2)]
    with pytest.raises(ValueError, match=f"{name} has shape"):
        cpu.fprop_conv(layer, *tensors, **{name: cpu.zeros((7, 1))})


def test_what_is_no_layer_no_tensor_no_number_is_refused(cpu):
    layer = layer_of(cpu)
    x, f, out = (cpu.zeros(dims) for dims in (layer.dimI2, layer.dimF2, layer.dimO2))
    with pytest.raises(TypeError, match="no ConvLayer"):
        cpu.fprop_conv(cpu.pool_layer(np.float32, "max", 4, 3), x, f, out)
    with pytest.raises(TypeError, match="F is missing"):
        cpu.fprop_conv(layer, x, None, out)
    with pytest.raises(TypeError, match="F is of type ndarray, no tensor"):
        cpu.fprop_conv(layer, x, f.get(), out)
    with pytest.raises(TypeError, match="beta is of type str"):
        cpu.fprop_conv(layer, x, f, out, beta="half")
    with pytest.raises(TypeError, match="grad_F is missing"):
        cpu.update_conv(layer, x, out)
    with pytest.raises(TypeError, match="both U and grad_F"):
        cpu.update_conv(layer, x, out, f, grad_F=f)
