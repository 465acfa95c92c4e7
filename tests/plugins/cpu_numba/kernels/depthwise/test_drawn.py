"""Depthwise and grouped convolutions, and transposed ones, drawn from a seed, with their gradients."""

import numpy as np

import atled.functions as F
from drawn_calls import CASES, check

LARGEST = {1: 90, 2: 30, 3: 9}  # sizes by the number of axes
FUNCTIONS = {
    "depthwise": F.depthwise_convolution,
    "grouped": F.convolution,
    "transposed": F.deconvolution,
    "transposed depthwise": F.depthwise_deconvolution,
}


def drawn(rng):
    """Name of the function, shapes of x, weight and maybe bias, and the attributes."""
    axes = int(rng.choice([1, 2, 2, 2, 3]))
    kernel = rng.choice([1, 2, 3, 3, 3, 4, 5, 7], size=axes)
    if rng.random() < 0.6:
        kernel[:] = kernel[0]
    stride = rng.choice([1, 1, 2, 3], size=axes) if rng.random() < 0.5 else np.full(axes, rng.choice([1, 1, 2, 3]))
    dilation = np.full(axes, rng.choice([1, 1, 1, 2, 3])) if rng.random() < 0.8 else rng.integers(1, 4, size=axes)
    reach = (kernel - 1) * dilation
    pad = reach // 2 if rng.random() < 0.5 else rng.integers(0, reach + 1)
    size = rng.integers(1, LARGEST[axes], size=axes)
    if rng.random() < 0.2:
        size[rng.integers(axes)] = 1
    name = str(rng.choice(["depthwise", "depthwise", "depthwise", "grouped", "transposed", "transposed depthwise"]))
    is_transposed = name.startswith("transposed")
    size = np.maximum(size, (2 * pad - reach) // stride + 2 if is_transposed else reach + 1 - 2 * pad)
    geometry = {"pad": pad, "stride": stride, "dilation": dilation}
    geometry = {key: tuple(values.tolist()) for key, values in geometry.items()}
    channels, times, group = int(rng.integers(1, 20)), int(rng.choice([1, 1, 1, 2, 3])), int(rng.integers(1, 4))
    inner, outer = (int(rng.integers(1, 12)) for _ in range(2))
    x_channels, w_shape, y_channels, more = {
        "depthwise": (channels, (channels * times,), channels * times, {"multiplier": times}),
        "grouped": (group * inner, (group * outer, inner), group * outer, {"group": group}),
        "transposed": (group * inner, (group * inner, outer), group * outer, {"group": group}),
        "transposed depthwise": (channels * times, (channels * times,), channels, {"divisor": times}),
    }[name]
    shapes = [(int(rng.integers(1, 4)), x_channels, *size.tolist()), (*w_shape, *kernel.tolist()), (y_channels,)]
    return name, shapes[: int(rng.choice([2, 3]))], geometry | more


def attempt(rng, config):
    name, shapes, attributes = drawn(rng)
    arrays = [rng.standard_normal(shape).astype("f") for shape in shapes]
    # Winograd's algorithm, where groups have it, errs by some 1e-5.
    tolerance = 3e-4 if config == "float" else None
    what = f"{name} of {shapes}, {attributes}"
    check(lambda *given: FUNCTIONS[name](*given, **attributes), arrays, what, config, tolerance)


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        attempt(rng, config)
