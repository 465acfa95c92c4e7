"""Floats without a fraction are taken wherever a whole number is asked for; others are refused."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.limits.whole_numbers import whole

pytestmark = pytest.mark.usefixtures("no_parameters")

X = (2, 4, 6, 6)
CALLS = {
    "outmaps": lambda two: PF.convolution(nn.Variable(X), two, (3, 3)).shape,
    "kernel": lambda two: PF.convolution(nn.Variable(X), 3, (two, two)).shape,
    "pad": lambda two: PF.convolution(nn.Variable(X), 3, (3, 3), pad=(two, two)).shape,
    "n_outmaps": lambda two: PF.affine(nn.Variable(X), two).shape,
    "embed": lambda two: PF.embed(nn.Variable((3,)), 5, two).shape,
    "window": lambda two: F.max_pooling(nn.Variable(X), (two, two)).shape,
    "axis": lambda two: F.sum(nn.Variable(X), axis=two).shape,
    "shape": lambda two: F.reshape(nn.Variable(X), (two, -1)).shape,
    "n_outputs": lambda two: len(F.split(nn.Variable(X), axis=two)),
    "Variable": lambda two: nn.Variable((two, 3)).shape,
    "NdArray": lambda two: nn.NdArray((two, 3)).shape,
    "parameter": lambda two: nn.parameter.get_parameter_or_create("w", (two, 3)).shape,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_float_without_fraction_is_a_whole_number(name):
    expected = CALLS[name](2)
    nn.clear_parameters()
    for two in (4 / 2, np.float64(2), np.float32(2), np.int8(2)):
        assert CALLS[name](two) == expected
        nn.clear_parameters()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [2.5, float("inf"), float("nan"), "2", None, True], ids=str)
def test_what_is_no_whole_number_is_refused(name, value):
    if name == "axis" and value is None:
        return  # all axes
    with pytest.raises(TypeError):
        CALLS[name](value)


def test_the_reason_is_told():
    with pytest.raises(TypeError, match=r"outmaps is 2\.5 \(it has a fraction\)"):
        CALLS["outmaps"](2.5)
    with pytest.raises(TypeError, match="a bool is not"):
        whole(np.True_)


def test_the_second_call_on_arrays_takes_it_too():
    x = nn.NdArray.from_numpy_array(np.arange(6.0).reshape(2, 3))
    for axis in (1, 1.0, np.float64(1)):
        assert F.sum(x, axis=axis).shape == (2,)
    with pytest.raises(TypeError):
        F.sum(x, axis=1.5)
