"""Batch normalization drawn from a seed: any axis, statistics of the batch or running ones, with a step behind it."""

import numpy as np

import atled as nn
import atled.functions as F
from drawn_calls import CASES, check

# Of the gradients' terms some cancel.
TOLERANCE = {"float": 3e-4, "half": 1e-1, "bf16": 5e-1, "double": 1e-10}
SIZES = [1, 2, 3, 5, 8, 13, 17, 33]


def attempt(rng, config):
    axes = int(rng.integers(1, 6))
    shape = [int(rng.choice(SIZES[: (8, 8, 8, 6, 4)[axes - 1]])) for _ in range(axes)]
    if axes > 1 and rng.random() < 0.5:
        shape[-1] = int(rng.integers(1, 80))
    axis = int(rng.integers(axes)) if rng.random() < 0.5 else min(1, axes - 1)
    batch_stat = bool(np.prod(shape) >= 8 * shape[axis] and rng.random() < 0.6)
    attributes = {"axes": (axis,), "batch_stat": batch_stat, "decay_rate": 0.7, "eps": 1e-2}
    of_channels = [size if number == axis else 1 for number, size in enumerate(shape)]
    mean, variance = rng.standard_normal(of_channels), rng.uniform(0.5, 2, of_channels)
    step, with_statistics = bool(rng.random() < 0.5), batch_stat and bool(rng.random() < 0.3)

    def build(x, beta, gamma):
        running = [nn.Variable.from_numpy_array(values.astype("f")) for values in (mean, variance)]
        if with_statistics:
            return F.batch_normalization(x, beta, gamma, *running, output_stat=True, **attributes)
        y = F.batch_normalization(x, beta, gamma, *running, **attributes)
        return F.tanh(y * 0.5) if step else y

    arrays = [2 * rng.standard_normal(shape) + 1, rng.standard_normal(of_channels), rng.standard_normal(of_channels)]
    what = f"normalization of {shape}, {attributes}, a step behind: {step}, statistics: {with_statistics}"
    check(build, [array.astype("f") for array in arrays], what, config, TOLERANCE[config])


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        attempt(rng, config)
