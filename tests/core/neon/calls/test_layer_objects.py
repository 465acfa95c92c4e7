"""Parameter objects of layers, output sizes, and the calls that they keep."""

import gc
import itertools
import weakref

import numpy as np
import pytest


def test_a_convolution_has_the_sizes_of_its_documents(cpu):
    layer = cpu.conv_layer(np.float32, 8, 3, 6, 4, 9, 7, 2, 3, 5, 1, 2, 3, 1, 2, 3)
    assert (layer.N, layer.C, layer.K, layer.NCK) == (8, 3, 6, (8, 3, 6))
    assert (layer.M, layer.P, layer.Q) == layer.MPQ == (5, 6, 3)
    assert (layer.TRS, layer.DHW) == ((2, 3, 5), (4, 9, 7))
    assert (layer.padding, layer.strides, layer.dilation) == ((1, 2, 3), (1, 2, 3), (1, 1, 1))
    assert (layer.dimI, layer.dimF, layer.dimO) == ((3, 4, 9, 7, 8), (3, 2, 3, 5, 6), (6, 5, 6, 3, 8))
    assert (layer.dimI2, layer.dimF2, layer.dimO2) == ((756, 8), (90, 6), (540, 8))
    assert (layer.sizeI, layer.sizeF, layer.sizeO, layer.nOut) == (6048, 540, 4320, 540)
    assert not layer.dot
    assert cpu.conv_layer(np.float32, 8, 3, 6, H=4, W=4).dot


def test_dilation_and_rectifiers_share_places_and_are_told_apart_by_type(cpu):
    sizes = (np.float32, 8, 3, 6, 1, 9, 9, 1, 3, 3, 0, 0, 0, 1, 1, 1)
    of_code, of_documents = cpu.conv_layer(*sizes, 1, 2, 3), cpu.conv_layer(*sizes, True, True)
    assert (of_code.dilation, of_code.relu, of_code.bsum) == ((1, 2, 3), False, False)
    assert (of_documents.dilation, of_documents.relu, of_documents.bsum) == ((1, 1, 1), True, True)
    assert cpu.conv_layer(*sizes, dil_h=2, relu=True).MPQ == (1, 5, 7)


def test_a_deconvolution_takes_two_numbers_as_height_and_width(cpu):
    of_documents = cpu.deconv_layer(np.float32, 8, 3, 6, 4, 5, R=3, S=3, str_h=2)
    of_code = cpu.deconv_layer(np.float32, 8, 3, 6, 1, 4, 5, 1, 3, 3, 0, 0, 0, 1, 2)
    for layer in (of_documents, of_code):
        assert (layer.MPQ, layer.DHW, layer.nOut) == ((1, 4, 5), (1, 9, 7), 3 * 63)
    assert cpu.deconv_layer(np.float32, 8, 3, 6, 2, 4, 5, 3, 2, 2, dil_d=2).DHW == (6, 5, 6)


def test_a_pooling_has_the_sizes_of_its_documents(cpu):
    layer = cpu.pool_layer(np.float32, "max", 8, 6, 4, 9, 7, 2, 1, 3, 2, str_h=2)
    assert (layer.K, layer.M, layer.P, layer.Q, layer.MPQ) == (3, 4, 4, 3, (4, 4, 3))
    assert (layer.op, layer.JTRS, layer.padding, layer.strides) == ("max", (2, 1, 3, 2), (0, 0, 0, 0), (2, 1, 2, 2))
    assert (layer.dimI, layer.dimO, layer.dimF2) == ((6, 4, 9, 7, 8), (3, 4, 4, 3, 8), None)
    assert (layer.dimI2, layer.dimO2, layer.nOut) == ((1512, 8), (144, 8), 144)
    assert (layer.sizeI, layer.sizeO, layer.overlap) == (12096, 1152, 2)


def test_maps_of_a_pooling_have_two_names(cpu):
    by_code = cpu.pool_layer(np.float32, "avg", 8, 6, J=3, pad_c=1, str_c=2)
    by_documents = cpu.pool_layer(np.float32, "avg", 8, 6, J=3, pad_j=1, str_j=2)
    assert by_code.dimO == by_documents.dimO == (3, 1, 1, 1, 8)


def test_output_dim_counts_windows(cpu):
    for size, window, pad, stride in itertools.product(range(1, 9), range(1, 4), range(3), range(1, 4)):
        expected = len(range(0, size + 2 * pad - window + 1, stride))
        if size + 2 * pad >= window:
            assert cpu.output_dim(size, window, pad, stride) == expected
    assert cpu.output_dim(9, 3, 0, 1, dilation=3) == 3


def test_output_dim_of_caffe_counts_windows_that_begin_before_the_padding_behind(cpu):
    cpu.compat_mode = "caffe"
    for size, window, pad, stride in itertools.product(range(4, 9), range(2, 4), range(2), range(1, 3)):
        begins = [0]
        while begins[-1] + window < size + 2 * pad:
            begins.append(begins[-1] + stride)
        expected = [begin for begin in begins if not pad or begin < size + pad]
        assert cpu.output_dim(size, window, pad, stride, pooling=True) == len(expected)
    assert cpu.output_dim(6, 3, 0, 2) == 2  # of convolutions as ever


def test_sizes_that_are_none_are_refused(cpu):
    with pytest.raises(ValueError, match=r"padding=3.*padding only"):
        cpu.output_dim(9, 3, 3, 1, pooling=True)
    with pytest.raises(ValueError, match="no window of 5 elements fits"):
        cpu.conv_layer(np.float32, 8, 3, 6, H=4, R=5)
    with pytest.raises(ValueError, match="no window of 9 elements fits"):
        cpu.conv_layer(np.float32, 8, 3, 6, H=4, R=5, dil_h=2)
    with pytest.raises(TypeError, match=r"H=4\.5"):
        cpu.conv_layer(np.float32, 8, 3, 6, H=4.5)
    with pytest.raises(ValueError, match="str_h=0"):
        cpu.conv_layer(np.float32, 8, 3, 6, H=4, str_h=0)
    with pytest.raises(ValueError, match="pad_w=-1"):
        cpu.pool_layer(np.float32, "max", 8, 3, W=4, S=2, pad_w=-1)
    cpu.compat_mode = "caffe"
    with pytest.raises(ValueError, match="the last of 2 windows begins at 2 and has no element"):
        cpu.pool_layer(np.float32, "max", 8, 3, W=2, str_w=2)
    with pytest.raises(ValueError, match=r"(?s)op='mac'.*did you mean 'max'"):
        cpu.pool_layer(np.float32, "mac", 8, 3)
    with pytest.raises(ValueError, match="leaves an image of"):
        cpu.deconv_layer(np.float32, 8, 3, 6, 1, 1, R=2, S=2, pad_h=1)
    with pytest.raises(TypeError, match="Q=None"):
        cpu.deconv_layer(np.float32, 8, 3, 6, P=4)


def test_calls_are_forgotten_with_their_tensors_and_with_their_layer(cpu):
    layer, f = cpu.conv_layer(np.float32, 2, 1, 1, H=2, W=2), cpu.array(np.ones((1, 1)))
    outs, watched = [], []
    for number in range(20):
        x, out = cpu.array(np.full(layer.dimI2, float(number))), cpu.zeros(layer.dimO2)
        cpu.fprop_conv(layer, x, f, out)
        outs.append(out.get())
        watched.append(weakref.ref(x.view.cell))
    gc.collect()
    assert sum(each() is not None for each in watched) == 1
    assert [each[0, 0] for each in outs] == list(range(20))
    watched = weakref.ref(layer)
    del layer
    gc.collect()
    assert watched() is None


def test_two_layers_of_the_same_tensors_are_told_apart(cpu):
    x, out = cpu.array(np.arange(8.0).reshape(4, 2)), cpu.zeros((2, 2))
    for stride, expected in ((1, [1.0, 2.0, 3.0]), (2, [1.0, 3.0])):
        layer = cpu.pool_layer(np.float32, "avg", 2, 1, W=4, S=2, str_w=stride)
        out = cpu.zeros(layer.dimO2)
        cpu.fprop_pool(layer, x, out)
        np.testing.assert_array_equal(out.get()[:, 0], 2 * np.array(expected) - 1)


def test_a_call_has_a_plan(cpu):
    layer = cpu.conv_layer(np.float32, 2, 1, 1, H=3, W=3, R=2, S=2)
    x, f, out = cpu.zeros(layer.dimI2), cpu.zeros(layer.dimF2), cpu.zeros(layer.dimO2)
    assert "Convolution" in str(cpu.plan(cpu.fprop_conv, layer, x, f, out, relu=True))
    assert "ConvolutionWeightGrad" in str(cpu.plan("update_conv", layer, x, out, grad_F=f))


def test_a_dtype_that_is_none_is_refused(cpu):
    with pytest.raises(TypeError, match=r"(?s)conv_layer\(dtype='flat'\).*use numpy.float16"):
        cpu.conv_layer("flat", 1, 1, 1)
