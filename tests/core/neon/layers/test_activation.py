"""Layers that apply a transform."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import Activation, DataTransform
from atled.neon.transforms import Logistic, Normalizer, Rectlin, Tanh, Transform


class Cubed(Transform):
    def __call__(self, x):
        return x * x * x

    def bprop(self, y):
        return 3 * self.be.absolute(y) ** (2 / 3)


def test_inputs_and_errors_are_written(be):
    layer, x, error = ready(Activation(Tanh()), 3), drawn(be, (3, 4)), drawn(be, (3, 4), seed=1)
    y, expected = np.tanh(x.get()), error.get()
    assert layer.fprop(x) is x
    np.testing.assert_allclose(x.get(), y, rtol=1e-5, atol=1e-6)
    assert layer.bprop(error) is error
    np.testing.assert_allclose(error.get(), expected * (1 - y**2), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("transform", [Tanh, Logistic, Rectlin, Cubed])
def test_gradients_are_those_of_differences(exact, transform):
    layer = ready(Activation(transform()), (2, 3, 1))
    x = drawn(exact, (6, 4)).get()
    check_gradients(layer, np.where(abs(x) < 0.1, 0.1, x))  # off the kinks


def test_data_is_transformed_and_gets_no_error(be):
    layer = ready(DataTransform(Normalizer(2.0)), 3)
    assert (layer.fprop(be.ones((3, 4))).get() == 0.5).all()
    assert layer.bprop(be.ones((3, 4))) is None


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(Activation(Rectlin()), 3)
    layer.fprop(cpu.ones((3, 4)))
    layer.bprop(cpu.ones((3, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    layer = Activation(Tanh(), name="a")
    with pytest.raises(RuntimeError, match=r"(?s)Activation 'a'\.fprop.*not configured"):
        layer.fprop(cpu.ones((3, 4)))
    ready(layer, 3)
    with pytest.raises(RuntimeError, match=r"(?s)Activation 'a'\.bprop"):
        layer.bprop(cpu.ones((3, 4)))
    with pytest.raises(ValueError, match=r"(?s)Activation 'a'\.fprop: inputs have shape \[2, 4\]"):
        layer.fprop(cpu.ones((2, 4)))
    layer.fprop(cpu.ones((3, 4)))
    with pytest.raises(ValueError, match=r"(?s)Activation 'a'\.bprop: errors have shape \[3, 8\]"):
        layer.bprop(cpu.ones((3, 8)))
