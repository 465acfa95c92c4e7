"""What all recurrent layers do: nothing falls back, every call does the same, sizes that are none are refused."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import BATCH, ROWS, STEPS, UNITS, Draws, made, normal, ready

import atled as nn
from atled.neon.initializers import Constant
from atled.neon.layers.recurrent import GRU, LSTM, BiBNRNN, BiLSTM, BiRNN, Recurrent
from atled.neon.transforms import Tanh
from atled.sequences import recorded

KINDS = [Recurrent, LSTM, GRU, BiRNN, BiLSTM, BiBNRNN]
all_kinds = pytest.mark.parametrize("kind", KINDS)


@all_kinds
def test_nothing_falls_back(be, kind):
    layer, x = made(kind), be.array(normal(ROWS, STEPS * BATCH))
    nn.reset_fallback_counts()
    layer.fprop(x)
    layer.bprop(be.array(normal(*layer.outputs.shape)))
    assert nn.fallback_counts() == {}


@all_kinds
def test_outputs_that_are_overwritten_leave_the_state(cpu, kind):
    first, second = made(kind), made(kind)
    for number in range(3):
        x = normal(ROWS, STEPS * BATCH, seed=number)
        y = first.fprop(cpu.array(x)).get()
        np.testing.assert_array_equal(second.fprop(cpu.array(x)).get(), y)
        second.outputs[:] = 0


@pytest.mark.parametrize("reset_cells", [False, True])
@all_kinds
def test_a_step_is_made_of_recorded_calls_alone(cpu, kind, reset_cells):
    x, found = cpu.array(normal(ROWS, STEPS * BATCH)), []
    for is_replayed in (False, True):
        layer = made(kind, reset_cells=reset_cells)
        given = cpu.array(normal(*layer.outputs.shape))
        error = cpu.array(given)

        def step(layer=layer, given=given, error=error):
            cpu.fprop_skipnode(given, error)
            layer.fprop(x)
            layer.bprop(error)

        step()
        with recorded() as recording:
            step()
        again = recording.replay().run if is_replayed else step
        again()
        again()
        found.append([layer.outputs.get(), layer.deltas.get(), layer.dW.get()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@all_kinds
def test_one_row_of_features_is_one_step(cpu, kind):
    layer = made(kind, steps=1)
    layer.configure(ROWS)
    layer.allocate()
    assert layer.out_shape == (layer.directions * UNITS, 1)
    assert layer.fprop(cpu.array(normal(ROWS, BATCH))).shape == (layer.directions * UNITS, BATCH)


@all_kinds
def test_another_batch_needs_other_memory(cpu, kind):
    layer, x = made(kind, name="this"), normal(ROWS, STEPS * (BATCH + 1))
    cpu.bsz = BATCH + 1
    with pytest.raises(ValueError, match=r"(?s)this.*configure and allocate it anew"):
        layer.fprop(cpu.array(x))
    ready(layer)
    assert layer.fprop(cpu.array(x)).shape == (layer.directions * UNITS, STEPS * (BATCH + 1))
    layer.bprop(cpu.array(normal(*layer.outputs.shape)))


@all_kinds
def test_w_may_come_before_memory(cpu, kind):
    layer = made(kind, reset_cells=True)
    other = made(kind, reset_cells=True)
    described = layer.get_params_serialize(keep_states=False)
    fresh = kind.gen_class({**other.get_description()["config"], "init": Draws(9)} | _activations(other))
    fresh.load_weights(described, load_states=False)
    x = cpu.array(normal(ROWS, STEPS * BATCH))
    np.testing.assert_array_equal(ready(fresh).fprop(x).get(), layer.fprop(x).get())


def _activations(layer):
    return {name: getattr(layer, name) for name in ("activation", "gate_activation") if hasattr(layer, name)}


@pytest.mark.parametrize("sizes", [(0, 4), (2, 0)])
def test_sizes_that_are_none_are_refused(cpu, sizes):
    with pytest.raises(ValueError, match="they have no elements"):
        Recurrent(UNITS, Draws(), name="one").configure(sizes)


@pytest.mark.parametrize("size", [0, -1, 2.5, "2"])
def test_a_count_of_units_that_is_none_is_refused(size):
    with pytest.raises(ValueError, match=r"(?s)BiRNN 'r'.*output_size is.*from 1 on"):
        BiRNN(size, None, name="r")


@pytest.mark.parametrize("given", [{"init": "ones"}, {"init": Constant(1.0), "init_inner": Constant}])
def test_what_is_no_initializer_is_refused(cpu, given):
    layer = BiRNN(2, activation=Tanh(), name="r", **given).configure((3, 2))
    with pytest.raises(TypeError, match=r"(?s)BiRNN 'r'.*no initializer"):
        layer.allocate()
    assert layer.W is None
