"""Adjoints of 1 x 1 convolutions, drawn from a seed, against NumPy's products in float64.

Their weights are stored by columns, and those of many positions are transposed first.
"""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool

# Of the sum of the terms' sizes; half is rounded once more, and double to the float32 of x.
TOLERANCE = {"float": 1e-5, "half": 4e-3, "double": 1e-7}


def drawn(rng):
    """Shapes of x and weight, and groups."""
    groups = int(rng.choice([1, 1, 2]))
    channels, maps = int(rng.integers(20, 700)), int(rng.integers(20, 100))
    size = rng.integers(1, 20, size=2).tolist()
    return (int(rng.integers(1, 5)), groups * channels, *size), (groups * maps, channels, 1, 1), groups


def gradient(context, x, weight, gy, groups):
    """That of x."""
    with nn.context_scope(Context([context], fallback="raise")):
        given = nn.Variable.from_numpy_array(x, need_grad=True)
        y = F.convolution(given, nn.Variable.from_numpy_array(weight), group=groups)
        y.forward()
        given.grad.zero()
        y.backward(gy)
        return given.g.astype("d")


@pytest.mark.parametrize("config, seed", [*(("float", seed) for seed in range(3)), ("half", 3), ("double", 4)])
def test_adjoints_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    before = pool.thread_count()
    try:
        for _ in range(12):
            x_shape, w_shape, groups = drawn(rng)
            images, _, *size = x_shape
            arrays = x_shape, w_shape, (images, w_shape[0], *size)
            x, weight, gy = (rng.standard_normal(shape).astype("f") for shape in arrays)
            of_groups = (
                weight.reshape(groups, -1, w_shape[1]).swapaxes(1, 2),
                gy.reshape(images, groups, -1, size[0] * size[1]),
            )
            wanted, sizes = (np.matmul(*map(each, of_groups)).reshape(x_shape) for each in (_wide, _size))
            found = []
            for count in (1, 3):
                pool.set_thread_count(count)
                found.append(gradient(f"cpu:{config}", x, weight, gy, groups))
            what = f"x {x_shape}, weight {w_shape}, {groups} groups"
            np.testing.assert_array_equal(*found, f"on 1 and 3 threads, {what}")
            assert (np.abs(found[0] - wanted) <= TOLERANCE[config] * sizes).all(), what
    finally:
        pool.set_thread_count(before)


def _wide(array):
    return array.astype("d")


def _size(array):
    return np.abs(array).astype("d")
