"""Poolings that are drawn from a seed, with their gradients."""

import numpy as np

import atled.functions as F
from drawn_calls import CASES, check

LARGEST = {1: 90, 2: 30, 3: 10}  # sizes by the number of axes
FUNCTIONS = {"max": F.max_pooling, "average": F.average_pooling, "sum": F.sum_pooling}


def drawn(rng):
    """Name of the function, shape of x, and the geometry."""
    axes = int(rng.choice([1, 2, 2, 2, 3]))
    name = str(rng.choice(["max", "average", "sum"]))
    kernel = rng.choice([1, 2, 2, 3, 3, 4, 5, 7], size=axes)
    if rng.random() < 0.6:
        kernel[:] = kernel[0]
    size = rng.integers(1, LARGEST[axes], size=axes)
    if rng.random() < 0.2:
        size[rng.integers(axes)] = 1
    if rng.random() < 0.15:
        kernel = size.copy()  # one window
    strides = [kernel, rng.integers(1, 5, size=axes), np.full(axes, 2)]
    ignore_border = bool(rng.random() < 0.6)
    pad = np.zeros(axes, int) if rng.random() < 0.5 else rng.integers(0, kernel)
    if name == "max":  # which has no value for a window that sees padding only
        pad = np.minimum(pad, kernel // 2) * ignore_border
    stride = strides[rng.integers(3)]
    if rng.random() < 0.15:  # windows that tile the array
        size, stride, pad = kernel * rng.integers(1, 5, size=axes), kernel, np.zeros(axes, int)
    geometry = {"kernel": kernel, "stride": stride, "pad": pad}
    geometry = {key: tuple(values.tolist()) for key, values in geometry.items()}
    geometry |= {"ignore_border": ignore_border, "channel_last": bool(rng.random() < 0.15)}
    if name == "average":
        geometry["including_pad"] = bool(rng.random() < 0.5)
    spatial = np.maximum(size, kernel - 2 * pad).tolist()
    leading = rng.integers(1, 6, size=rng.integers(1, 3)).tolist()
    shape = [leading[0], *spatial, int(rng.integers(1, 20))] if geometry["channel_last"] else leading + spatial
    return name, tuple(shape), geometry


def attempt(rng, config):
    name, shape, geometry = drawn(rng)
    x = rng.integers(-9, 9, shape)  # many equal maxima
    if rng.random() < 0.5:
        x = rng.permutation(x.size).reshape(shape) % 199
    check(lambda x: FUNCTIONS[name](x, **geometry), [x.astype("f")], f"{name} of {shape}, {geometry}", config)


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        attempt(rng, config)
