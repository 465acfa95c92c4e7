"""Convolutions that are drawn from a seed, with their gradients, against the reference in float64.

Lists of cases have what somebody thought of. Drawn ones have planes of one column, taps that reach nothing, strides
longer than the kernel, padding wider than the array.
"""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool

# Of the largest element: Winograd's algorithm errs by some 1e-5 of it, direct sums by less, a misplaced one by all.
TOLERANCE = {"float": 3e-4, "half": 2e-2, "double": 1e-11}
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


def computed(context, arrays, gradient_seed, geometry):
    """The result, and the gradients of x, weight and bias."""
    with nn.context_scope(Context([context], fallback="raise")):
        inputs = [nn.Variable.from_numpy_array(array, need_grad=True) for array in arrays]
        y = F.convolution(*inputs, **geometry)
        y.forward(clear_no_need_grad=False)
        for value in inputs:
            value.grad.zero()
        y.backward(np.random.default_rng(gradient_seed).standard_normal(y.shape).astype("f"))
        return [y.d.astype("d"), *(value.g.astype("d") for value in inputs)]


@pytest.mark.parametrize("config, seed", [*(("float", seed) for seed in range(8)), ("half", 8), ("double", 9)])
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    before = pool.thread_count()
    try:
        for number in range(40):
            x_shape, w_shape, geometry = drawn(rng)
            arrays = [rng.standard_normal(shape).astype("f") for shape in (x_shape, w_shape, w_shape[:1])]
            expected = computed("reference:double", arrays, number, geometry)
            found = []
            for count in (1, 3):
                pool.set_thread_count(count)
                found.append(computed(f"cpu:{config}", arrays, number, geometry))
            what = f"x {x_shape}, weight {w_shape}, {geometry}"
            for name, wanted, one, other in zip(("y", "gx", "gw", "gb"), expected, *found, strict=True):
                np.testing.assert_array_equal(one, other, f"{name} on 1 and 3 threads, {what}")
                bound = TOLERANCE[config] * np.abs(wanted).max(initial=0)
                assert np.abs(one - wanted).max(initial=0) <= bound, f"{name}, {what}"
    finally:
        pool.set_thread_count(before)
