"""What is added to rows, or to the maps of images."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import Bias

COLUMN = np.array([[1.0], [2.0], [4.0]])


def test_each_row_has_one_and_inputs_are_written(be):
    layer, x = ready(Bias(COLUMN), (3, 2)), drawn(be, (3, 8))
    before = x.get()
    assert layer.fprop(x) is x
    assert layer.outputs is x
    np.testing.assert_allclose(x.get(), before + COLUMN, rtol=1e-6)


def test_each_map_has_one(be):
    layer = ready(Bias(COLUMN), (3, 2, 2))
    y = layer.fprop(be.zeros((12, 4))).get()
    np.testing.assert_array_equal(y, COLUMN.repeat(4, axis=0).repeat(4, axis=1))
    error = drawn(be, (12, 4))
    assert layer.bprop(error) is error
    np.testing.assert_allclose(layer.dW.get(), error.get().reshape(3, -1).sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("shape", [3, (3, 2), (3, 2, 2)])
def test_gradients_are_those_of_differences(exact, shape):
    layer = ready(Bias(COLUMN), shape)
    check_gradients(layer, drawn(exact, exact.iobuf(shape).shape).get())


def test_gradients_add_up(be):
    layer = ready(Bias(COLUMN), 3, accumulate_updates=True)
    layer.set_acc_on(True)
    layer.fprop(be.ones((3, 4)))
    layer.bprop(be.ones((3, 4)))
    layer.bprop(be.ones((3, 4)))
    assert (layer.dW.get() == 8).all()


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(Bias(COLUMN), (3, 2, 2))
    layer.fprop(cpu.ones((12, 4)))
    layer.bprop(cpu.ones((12, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    layer = ready(Bias(COLUMN, name="b"), 3)
    with pytest.raises(ValueError, match=r"(?s)Bias 'b'\.fprop: inputs have shape \[2, 4\].*give \[3, 4\]"):
        layer.fprop(cpu.ones((2, 4)))
    with pytest.raises(ValueError, match=r"(?s)Bias 'b'\.bprop.*beta=1.*SkipNode"):
        layer.bprop(cpu.ones((3, 4)), beta=1.0)
    with pytest.raises(RuntimeError, match=r"(?s)Bias 'new'\.fprop.*no memory"):
        Bias(COLUMN, name="new").configure(3).fprop(cpu.ones((3, 4)))
