"""Layers with weights: first values, gradients that add up, saved parameters."""

import numpy as np
import pytest
from tests.core.neon.layers.running import ready

from atled.neon.initializers import Constant
from atled.neon.layers import Activation, Convolution, Linear, ParameterLayer
from atled.neon.transforms import Rectlin


class Ones:
    def fill(self, param):
        param[:] = 1


class Summing(ParameterLayer):
    def configure(self, in_obj):
        super().configure(in_obj)
        self.out_shape, self.weight_shape = 2, (2, self.in_shape)
        return self

    @ParameterLayer.accumulates
    def bprop(self, error, alpha=1.0, beta=0.0):
        self.dW[:] = error
        return self.deltas


def allocated(init, **keywords):
    layer = Summing(init, "one").configure(4)
    layer.allocate(**keywords)
    return layer


def test_weights_are_filled_once(be):
    layer = allocated(Ones())
    layer.W[:] = 3
    layer.allocate()
    (weights, gradient), states = layer.get_params()
    assert (weights.get() == 3).all()
    assert gradient.shape == weights.shape == (2, 4)
    assert states == []


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_first_values_may_be_given(be, kind):
    values = np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(allocated(values if kind == "array" else be.array(values)).W.get(), values)


def test_no_or_wrong_first_values_are_refused(cpu):
    with pytest.raises(ValueError, match=r"(?s)weights of Summing 'one'.*no initializer"):
        allocated(None)
    with pytest.raises(ValueError, match=r"(?s)weights of Summing 'one'.*\[4, 2\].*\[2, 4\]"):
        allocated(np.ones((4, 2)))


def test_gradients_add_up_while_asked_to(be):
    layer, error = allocated(Ones(), accumulate_updates=True), be.ones((2, 4))
    for is_on, expected in [(False, 1), (True, 2), (True, 3), (False, 1)]:
        layer.set_acc_on(is_on)
        layer.bprop(error)
        assert (layer.dW.get() == expected).all()


@pytest.mark.parametrize("init", ["ones", Ones])
def test_what_is_no_initializer_is_refused(cpu, init):
    with pytest.raises(TypeError, match=r"(?s)weights of Summing 'one'.*no initializer"):
        allocated(init)


def test_gradients_do_not_add_up_without_memory_for_that(cpu):
    with pytest.raises(BufferError, match="accumulate_updates=True"):
        allocated(Ones()).set_acc_on(True)


def test_saved_parameters_and_states_come_back(be):
    layer = allocated(np.arange(8).reshape(2, 4))
    layer.states.append(be.ones((2, 4)))
    saved = layer.get_params_serialize()
    assert "states" not in layer.get_params_serialize(keep_states=False)
    other = Summing(Ones(), "other").configure(4)
    other.load_weights(saved)
    other.allocate()
    np.testing.assert_array_equal(other.W.get(), layer.W.get())
    np.testing.assert_array_equal(other.states[0].get(), 1)


def test_saved_parameters_of_another_shape_are_refused(cpu):
    layer = allocated(Ones())
    with pytest.raises(ValueError, match=r"(?s)Summing 'one'.*values of W.*\[3, 4\]"):
        layer.set_params({"params": {"W": np.zeros((3, 4))}})
    with pytest.raises(KeyError, match="W are missing"):
        layer.set_params({"params": {"V": np.zeros((3, 4))}})
    assert (layer.W.get() == 1).all()


def test_a_layer_is_made_again_from_its_description():
    described = Activation(Rectlin(0.5), name="a").get_description()
    made = Activation.gen_class(described["config"])
    assert (made.name, type(made.transform), made.transform.slope) == ("a", Rectlin, 0.5)
    assert made.get_description() == described
    convolution = Convolution((3, 3, 2), strides={"str_h": 2}, init=Constant(0.5), name="c")
    made = Convolution.gen_class(convolution.get_description()["config"])
    assert made.convparams == convolution.convparams
    assert made.init.get_description() == convolution.init.get_description()


def test_an_array_in_the_place_of_a_tensor_is_refused(cpu):
    layer = ready(Linear(3, np.ones((3, 5)), name="top"), 5)
    with pytest.raises(TypeError, match=r"(?s)Linear 'top'\.fprop: inputs are.* ndarray.*Tensor of shape \[5, 4\]"):
        layer.fprop(np.ones((5, 4)))
