"""Shapes and geometries of convolutions that tests draw from a seed.

Lists of cases have what somebody thought of. Drawn ones have planes of one column, taps that reach nothing, strides
longer than the kernel, padding wider than the array.
"""

import numpy as np

LARGEST = {1: 80, 2: 28, 3: 10}  # sizes by the number of axes


def drawn(rng):
    """Shapes of x and weight, and the geometry."""
    axes = int(rng.choice([1, 2, 2, 2, 3]))
    kernel = rng.choice([1, 2, 3, 3, 3, 5, 7], size=axes)
    if rng.random() < 0.5:
        kernel[:] = kernel[0]
    stride = rng.choice([1, 1, 2, 3], size=axes) if rng.random() < 0.5 else np.full(axes, rng.choice([1, 1, 2, 3]))
    dilation = np.full(axes, rng.choice([1, 1, 1, 2, 3, 4]))
    reach = (kernel - 1) * dilation
    pad = reach // 2 if rng.random() < 0.5 else rng.integers(0, reach // 2 + 2)
    size = np.maximum(rng.integers(1, LARGEST[axes], size=axes), reach + 1 - 2 * pad)
    few = int(rng.integers(1, 40))
    groups = int(rng.integers(1, 4))
    shapes = [(few, int(rng.integers(1, 50)), 1), (few, few, few), (8 * groups, 16 * groups, groups), (64, 64, 1)]
    channels, maps, group = shapes[int(rng.integers(4))]
    x, weight = (int(rng.choice([1, 2, 3, 8])), channels, *size.tolist()), (maps, channels // group, *kernel.tolist())
    geometry = {"pad": pad, "stride": stride, "dilation": dilation}
    return x, weight, {**{name: tuple(values.tolist()) for name, values in geometry.items()}, "group": group}
