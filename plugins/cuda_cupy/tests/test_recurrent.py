"""Recurrent layers: whole networks in each type config, as on the reference, and as one program."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import get_extension_context

RNG = np.random.default_rng(0)
STEPS, BATCH, INPUTS, SIZE = 5, 6, 7, 16
TOLERANCES = {"float": 1e-5, "double": 1e-12, "half": 2e-2, "bf16": 2e-1}


def network(kind):
    """Two layers in both directions: inputs as arrays, and the function of them."""
    gates, states = {"lstm": (4, 2), "gru": (3, 1), "rnn": (1, 1)}[kind]
    arrays = [RNG.standard_normal((STEPS, BATCH, INPUTS))]
    arrays += [RNG.standard_normal((2, 2, BATCH, SIZE)) for _ in range(states)]
    rows = (gates,) if kind != "rnn" else ()
    arrays.append(RNG.uniform(-0.3, 0.3, (2, *rows, SIZE, INPUTS + SIZE)))
    arrays.append(RNG.uniform(-0.3, 0.3, (1, 2, *rows, SIZE, 3 * SIZE)))
    arrays.append(RNG.uniform(-0.3, 0.3, (2, 2, *((4,) if kind != "rnn" else ()), SIZE)))
    return arrays, lambda *inputs: getattr(F, kind)(*inputs, num_layers=2, bidirectional=True)


def results(context, kind, arrays, function):
    """Sums weighted over all outputs make a loss: the outputs and all gradients."""
    with nn.context_scope(context):
        inputs = [nn.Variable.from_numpy_array(array.astype(np.float32), need_grad=True) for array in arrays]
        outputs = function(*inputs)
        loss = sum((F.sum(y * y) for y in outputs), start=F.sum(outputs[0]))
        loss.forward()
        loss.backward()
        return [y.d.copy() for y in outputs] + [x.g.copy() for x in inputs], loss


@pytest.mark.parametrize("type_config", TOLERANCES)
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_networks_compute_what_the_reference_does(kind, type_config):
    made = network(kind)
    context = get_extension_context("cuda", type_config=type_config, fallback="raise")
    found, _ = results(context, kind, *made)
    expected, _ = results(nn.Context(["reference:double"]), kind, *made)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=TOLERANCES[type_config] * np.abs(other).max())


def test_a_step_of_training_is_one_program(cuda):
    """Nothing of it waits for the host."""
    arrays, function = network("lstm")
    with nn.context_scope(cuda):
        inputs = [nn.Variable.from_numpy_array(array.astype(np.float32), need_grad=True) for array in arrays]
        loss = F.sum(function(*inputs)[0])
        losses = []
        for _ in range(4):
            loss.forward()
            loss.backward()
            losses.append(loss.d.item())
            text = str(loss.plan)
    assert len(set(losses)) == 1
    assert "device program" in text
    assert "Python steps" not in text


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_batches_of_nothing(cuda, kind):
    arrays, function = network(kind)
    arrays = [
        array if number > (2 if kind == "lstm" else 1) else array[..., :0, :] for number, array in enumerate(arrays)
    ]
    found, _ = results(cuda, kind, arrays, function)
    assert found[0].shape == (STEPS, 0, 2 * SIZE)
    assert not any(array.any() for array in found)
