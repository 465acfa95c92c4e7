"""Convolutions, with and without a bias."""

import numpy as np
import pytest
from tests.core.neon.calls import image_formulas as formulas
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import Convolution, Convolution_bias

PLAIN = {"pad": (0, 0, 0), "stride": (1, 1, 1), "dilation": (1, 1, 1)}


def weights(rows, maps, seed=5):
    return np.random.default_rng(seed).normal(size=(rows, maps))


@pytest.mark.parametrize(
    ("about", "geometry", "out_shape"),
    [
        ({}, {}, (4, 3, 5)),
        ({"strides": 2, "padding": 1}, {"pad": (0, 1, 1), "stride": (1, 2, 2)}, (4, 3, 4)),
        (
            {"strides": {"str_h": 2}, "padding": {"pad_w": 1}, "dilation": {"dil_h": 2}},
            {"pad": (0, 0, 1), "stride": (1, 2, 1), "dilation": (1, 2, 1)},
            (4, 1, 7),
        ),
    ],
)
def test_outputs_are_those_of_the_definition(be, about, geometry, out_shape):
    layer = ready(Convolution((3, 2, 4), init=weights(12, 4), **about), (2, 5, 6))
    assert layer.out_shape == out_shape
    x = drawn(be, (60, 4))
    filters = layer.W.get().reshape(2, 1, 3, 2, 4)
    expected = formulas.window_sums(
        x.get().reshape(2, 1, 5, 6, 4), filters, (1, *out_shape[1:]), *{**PLAIN, **geometry}.values()
    )
    np.testing.assert_allclose(layer.fprop(x).get(), expected.reshape(-1, 4), rtol=1e-4, atol=1e-4)


def test_depth_stays_where_it_is_not_1(be):
    layer = ready(Convolution((2, 3, 3, 4), init=np.ones((36, 4))), (2, 4, 5, 5))
    assert layer.out_shape == (4, 3, 3, 3)
    assert (layer.fprop(be.ones((200, 4))).get() == 36).all()
    assert Convolution((4, 3, 3, 4), init=np.ones((72, 4))).configure((2, 4, 5, 5)).out_shape == (4, 3, 3)


@pytest.mark.parametrize("bias", [None, np.array([[1.0], [2.0], [3.0]])])
def test_gradients_are_those_of_differences(exact, bias):
    layer = Convolution_bias((3, 2, 3), 2, 1, init=weights(12, 3), bias=bias)
    check_gradients(ready(layer, (2, 5, 4)), drawn(exact, (40, 4)).get())


def test_deltas_and_outputs_are_scaled_and_added(be):
    layer, x = ready(Convolution((3, 2, 4), init=weights(12, 4)), (2, 5, 6)), drawn(be, (60, 4))
    y = layer.fprop(x).get()
    np.testing.assert_allclose(layer.fprop(x, beta=2.0).get(), 3 * y, rtol=1e-4, atol=1e-4)
    error = drawn(be, (60, 4), seed=1)
    plain = layer.bprop(error).get()
    layer.deltas[:] = 1
    np.testing.assert_allclose(layer.bprop(error, 2.0, 0.5).get(), 2 * plain + 0.5, rtol=1e-4, atol=1e-4)


def test_maps_are_biased_and_summed(be):
    bias = np.array([[1.0], [2.0]])
    layer = ready(Convolution_bias((3, 3, 2), init=np.ones((9, 2)), bias=bias, bsum=True), (1, 4, 4))
    y = layer.fprop(be.ones((16, 4))).get()
    np.testing.assert_array_equal(y, (9 + bias).repeat(4, 0).repeat(4, 1))
    np.testing.assert_array_equal(layer.batch_sum.get(), 16 * (9 + bias))
    (of_weights, _), (of_bias, _) = layer.get_params()
    assert of_weights == (layer.W, layer.dW)
    assert of_bias == (layer.weight_bias, layer.grad_bias)


def test_gradients_of_both_parameters_add_up(be):
    layer = Convolution_bias((3, 3, 2), init=np.ones((9, 2)), bias=np.ones((2, 1)))
    ready(layer, (1, 4, 4), accumulate_updates=True).set_acc_on(True)
    layer.fprop(be.ones((16, 4)))
    for count in (1, 2):
        layer.bprop(be.ones((8, 4)))
        assert (layer.dW.get() == 16 * count).all()
        assert (layer.grad_bias.get() == 16 * count).all()


def test_parameters_and_states_come_back(be):
    layer = ready(Convolution_bias((3, 3, 2), init=weights(9, 2), bias=np.ones((2, 1))), (1, 4, 4))
    layer.get_params()[1][1].append(be.ones((2, 1)))
    other = Convolution_bias((3, 3, 2), init=np.zeros((9, 2)), bias=np.zeros((2, 1)))
    other.load_weights(layer.get_params_serialize())
    ready(other, (1, 4, 4))
    np.testing.assert_array_equal(other.W.get(), layer.W.get())
    np.testing.assert_array_equal(other.weight_bias.get(), 1)
    assert other.states[0] == []
    np.testing.assert_array_equal(other.states[1][0].get(), 1)


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(Convolution_bias((3, 3, 2), init=np.ones((9, 2)), bias=np.ones((2, 1))), (1, 4, 4))
    layer.fprop(cpu.ones((16, 4)))
    layer.bprop(cpu.ones((8, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    layer = Convolution((3, 3, 2), init=np.ones((9, 2)), name="c")
    with pytest.raises(ValueError, match=r"(?s)Convolution 'c'.*no image.*Reshape"):
        layer.configure(16)
    with pytest.raises(ValueError, match="5 sizes"):
        Convolution((1, 2, 3, 4, 5), name="c")
    with pytest.raises(ValueError, match=r"(?s)Convolution 'c'\(strides=.*no 'str_x'.*str_w"):
        Convolution((3, 3, 2), strides={"str_x": 2}, name="c")
    with pytest.raises(ValueError, match=r"(?s)Convolution 'c': conv_layer\(.*What to do"):
        layer.configure((1, 2, 2))
    ready(layer, (1, 4, 4))
    with pytest.raises(ValueError, match=r"(?s)Convolution 'c'\.fprop: inputs have shape \[15, 4\]"):
        layer.fprop(cpu.ones((15, 4)))
