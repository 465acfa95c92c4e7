"""Lists of layers of two directions."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import BATCH, ROWS, STEPS, UNITS, Draws, normal, ready

from atled.neon.layers.recurrent import BiBNRNN, BiLSTM, BiRNN, BiSum, DeepBiLSTM, DeepBiRNN
from atled.neon.transforms import Logistic, Tanh


def test_each_direction_goes_on_with_its_half():
    first, second = DeepBiRNN(UNITS, Draws(), activation=Tanh(), depth=2, reset_cells=True)
    assert type(first) is type(second) is BiRNN
    assert (first.split_inputs, second.split_inputs) == (False, True)
    assert first.reset_cells
    assert second.reset_cells


def test_sums_are_behind_each_layer():
    layers = DeepBiRNN(UNITS, Draws(), activation=Tanh(), depth=2, batch_norm=True, bi_sum=True)
    assert [type(each) for each in layers] == [BiBNRNN, BiSum, BiBNRNN, BiSum]
    assert not layers[2].split_inputs


@pytest.mark.parametrize("bi_sum", [False, True])
def test_they_fit_on_each_other(cpu, bi_sum):
    x, shape = cpu.array(normal(ROWS, STEPS * BATCH)), (ROWS, STEPS)
    for layer in DeepBiRNN(UNITS, Draws(), activation=Tanh(), depth=3, bi_sum=bi_sum):
        x = ready(layer, *shape).fprop(x)
        shape = layer.out_shape
    assert x.shape == (UNITS if bi_sum else 2 * UNITS, STEPS * BATCH)
    assert np.isfinite(x.get()).all()


def test_lstms_too():
    layers = DeepBiLSTM(UNITS, Draws(), activation=Tanh(), gate_activation=Logistic(), depth=2)
    assert [(type(each), each.split_inputs) for each in layers] == [(BiLSTM, False), (BiLSTM, True)]
    with pytest.raises(ValueError, match="it has no layers"):
        DeepBiLSTM(UNITS, Draws(), depth=0)
