"""Layers in a row that are written as one."""

import numpy as np
import pytest

from atled.neon.layers import Affine, BinaryAffine, Conv, Deconv
from atled.neon.transforms import Rectlin, Sign

ONES = np.ones((2, 3))


def kinds(layers):
    return [(type(layer).__name__, layer.name) for layer in layers]


def test_affine_is_a_product_a_bias_and_an_activation():
    layers = Affine(2, ONES, bias=np.ones((2, 1)), activation=Rectlin(), name="fc")
    assert kinds(layers) == [("Linear", "fc"), ("Bias", "fc_bias"), ("Activation", "fc_Rectlin")]
    assert kinds(Affine(2, ONES, batch_norm=True, name="fc"))[1:] == [("BatchNorm", "fc_bnorm")]


def test_layers_without_a_name_are_named_behind_the_first():
    first, second = Affine(2, ONES, bias=np.ones((2, 1)))
    assert second.name == f"{first.name}_bias"


def test_conv_has_its_bias_within(cpu):
    assert kinds(Conv((3, 3, 2), ONES, bias=ONES, activation=Rectlin(), name="c")) == [
        ("Convolution_bias", "c"),
        ("Activation", "c_Rectlin"),
    ]
    assert kinds(Conv((3, 3, 2), ONES, strides=2, padding=1, batch_norm=True, name="c")) == [
        ("Convolution", "c"),
        ("BatchNorm", "c_bnorm"),
    ]
    assert Conv((3, 3, 2), ONES, strides=2, padding=1)[0].configure((3, 8, 8)).out_shape == (2, 4, 4)


def test_deconv_has_its_bias_behind():
    assert kinds(Deconv((3, 3, 2), ONES, bias=ONES, name="d")) == [("Deconvolution", "d"), ("Bias", "d_bias")]


def test_binary_affine_normalizes_by_shifts():
    layers = BinaryAffine(2, ONES, batch_norm=True, activation=Sign(), name="b")
    assert kinds(layers) == [("BinaryLinear", "b"), ("BatchNorm", "b_bnorm"), ("Activation", "b_Sign")]
    assert layers[1].binary
    assert kinds(BinaryAffine(2, ONES, bias=np.ones((2, 1)), name="b"))[1:] == [("Bias", "b_bias")]


@pytest.mark.parametrize("kind", [Affine, Conv, Deconv, BinaryAffine])
def test_bias_and_normalization_are_not_both(kind):
    with pytest.raises(AttributeError, match=r"(?s)'x'.*both given.*leave one out"):
        kind(2, ONES, bias=ONES, batch_norm=True, name="x")
