"""Calls with vast strides, pads, dilations or kernels cost what their results cost, not what the numbers say."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F

FAR = 10**9


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [nn.Variable.from_numpy_array(rng.standard_normal(s).astype(np.float32), need_grad=True) for s in shapes]


CALLS = {
    "convolution, stride": lambda: F.convolution(*arrays((1, 2, 8, 8), (3, 2, 3, 3)), stride=(FAR, FAR)),
    "convolution, pad": lambda: F.convolution(
        *arrays((1, 2, 8, 8), (3, 2, 3, 3)), pad=(FAR, FAR), stride=(FAR, FAR), dilation=(1, FAR)
    ),
    "convolution, three axes": lambda: F.convolution(
        *arrays((1, 1, 4, 8, 8), (1, 1, 3, 3, 3)), pad=(FAR,) * 3, stride=(FAR,) * 3
    ),
    "convolution, many slices": lambda: F.convolution(*arrays((1, 1, 4, 1, 1), (1, 1, 3, 1, 1)), pad=(10**5, 0, 0)),
    "deconvolution, one place": lambda: F.deconvolution(*arrays((1, 1, 1, 1), (1, 1, 1, 1)), stride=(FAR, FAR)),
    "deconvolution, many phases": lambda: F.deconvolution(*arrays((1, 1, 2), (1, 1, 1)), stride=(10**6,)),
    "depthwise, stride and pad": lambda: F.depthwise_convolution(
        *arrays((1, 2, 8, 8), (2, 3, 3)), pad=(FAR, FAR), stride=(FAR, FAR)
    ),
    "depthwise deconvolution": lambda: F.depthwise_deconvolution(*arrays((1, 2, 2), (2, 1)), stride=(10**6,)),
    "maximum": lambda: F.max_pooling(*arrays((1, 2, 8, 8)), (10**4, 10**4), stride=(FAR, FAR), pad=(5000, 5000)),
    "average": lambda: F.average_pooling(*arrays((1, 2, 8, 8)), (FAR, FAR), stride=(FAR, FAR), pad=(FAR // 2,) * 2),
    "sum, three axes": lambda: F.sum_pooling(*arrays((1, 4, 4, 4)), (FAR,) * 3, stride=(FAR,) * 3, pad=(FAR // 2,) * 3),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_vast_windows_are_computed_as_the_reference_does(call):
    with nn.context_scope(nn.Context(["cpu:float"])), nn.verify(1.0):
        y = call()
        y.forward()
        y.backward()
    assert np.isfinite(y.d).all()


@pytest.mark.parametrize("name", ["pad", "stride", "dilation"])
def test_numbers_that_places_cannot_be_counted_with_are_refused(name):
    with pytest.raises(ValueError, match=rf"{name}=.* above 2147483647[\s\S]*What to do"):
        F.convolution(*arrays((1, 1, 8), (1, 1, 1)), **{name: (2**31,)})


def test_windows_about_the_size_of_the_image_stay_with_the_kernels():
    x, w = arrays((1, 2, 8, 8), (3, 2, 3, 3))
    for options in ({}, {"pad": (8, 8)}, {"stride": (4, 4)}, {"dilation": (3, 3)}):
        with nn.context_scope(nn.Context(["cpu:float"])):
            y = F.convolution(x, w, **options)
            y.forward()
        assert "reference" not in str(y.plan)
