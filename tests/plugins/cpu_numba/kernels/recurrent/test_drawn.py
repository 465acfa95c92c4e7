"""Recurrent layers drawn from a seed, with their gradients: kinds, layers, directions, sequences of one step."""

import numpy as np
import pytest

import atled.functions as F
from drawn_calls import check

GATES = {"rnn": (), "gru": (3,), "lstm": (4,)}  # of weights; a GRU has a bias more
TOLERANCE = {"float": 3e-4, "half": 1e-1, "bf16": 5e-1, "double": 1e-10}


def attempt(rng, config):
    name = str(rng.choice(list(GATES)))
    steps, batch = int(rng.choice([1, 1, 2, 3, 5, 9])), int(rng.choice([1, 2, 3, 5, 8, 17, 33]))
    size, hidden = int(rng.choice([1, 2, 3, 7, 16, 33, 65])), int(rng.choice([1, 2, 3, 8, 13, 16, 20, 33, 64, 70]))
    layers, directions = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 3))
    has_bias, training = bool(rng.random() < 0.6), bool(rng.random() < 0.8)
    state, gates = (layers, directions, batch, hidden), (directions, *GATES[name], hidden)
    arrays = [rng.standard_normal((steps, batch, size)), rng.standard_normal(state)]
    arrays += [rng.standard_normal(state)] * (name == "lstm")
    arrays.append(rng.standard_normal((*gates, size + hidden)) / (size + hidden) ** 0.5)
    inner = (layers - 1, *gates, (directions + 1) * hidden)
    arrays += [rng.standard_normal(inner) / inner[-1] ** 0.5] * (layers > 1)
    of_bias = (4,) if name == "gru" else GATES[name]
    arrays += [0.3 * rng.standard_normal((layers, directions, *of_bias, hidden))] * has_bias
    attributes = {"num_layers": layers, "bidirectional": directions == 2, "training": training}

    def build(*given):
        count = 4 + (name == "lstm")  # x, states and weights
        weight = given[count - 1] if layers > 1 else None
        bias = given[-1] if has_bias else None
        return getattr(F, name)(*given[: count - 1], weight, bias, **attributes)

    what = f"{name} of {steps} x {batch} x {size} to {hidden}, {attributes}, bias: {has_bias}"
    check(build, [array.astype("f") for array in arrays], what, config, TOLERANCE[config])


@pytest.mark.parametrize(
    "config, seed", [("float", 0), ("float", 1), ("float", 2), ("float", 3), ("half", 4), ("bf16", 5), ("double", 6)]
)
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        attempt(rng, config)
