"""Reductions drawn from a seed, with their gradients: any axes, with steps before and behind, and softmax."""

import numpy as np

import atled.functions as F
from drawn_calls import CASES, check

# Sums of some thousand terms; the sum's gradient is spread before it is cast.
TOLERANCE = {"float": 1e-4, "half": 5e-2, "bf16": 4e-1, "double": 1e-10}
MOST = 1 << 16  # elements
PLAIN = ("sum", "mean", "max", "min", "prod")


def drawn_shape(rng):
    shape = [int(rng.choice([1, 1, 2, 3, 5, 8, 17, 40, 130, 1000])) for _ in range(rng.integers(1, 6))]
    while np.prod(shape) > MOST:
        shape[int(rng.integers(len(shape)))] = 2
    return tuple(shape)


def attempt(rng, config):
    shape = drawn_shape(rng)
    axes = tuple(sorted(rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False).tolist()))
    keepdims = bool(rng.random() < 0.5)
    name = str(rng.choice([*PLAIN, "squares", "steps", "transposed", "softmax", "cross entropy"]))
    x, more = rng.standard_normal(shape), []
    if name in ("max", "min"):
        x = rng.integers(-9, 9, shape)  # many are equal
    elif name == "prod":
        x = rng.choice([-1.0, 1.0], shape)  # products of any count are within range
    elif name == "steps":
        more = [rng.standard_normal([1 if axis in axes else size for axis, size in enumerate(shape)])]
    elif name == "cross entropy":
        more = [rng.integers(0, shape[axes[0]], [1 if axis == axes[0] else size for axis, size in enumerate(shape)])]
    order = rng.permutation(len(shape)).tolist()
    build = {
        **dict.fromkeys(PLAIN, lambda x: getattr(F, name)(x, axis=axes, keepdims=keepdims)),
        "squares": lambda x: F.mean(x * x * 0.5, axis=axes, keepdims=keepdims) * 3,
        "steps": lambda x, y: F.tanh(F.mean(x * y, axis=axes, keepdims=True)) * x + y,
        "transposed": lambda x: F.mean(F.transpose(x, order), axis=axes, keepdims=keepdims),
        "softmax": lambda x: F.softmax(x, axis=axes[0]),
        "cross entropy": lambda x, t: F.softmax_cross_entropy(x, t, axis=axes[0]),
    }[name]
    arrays = [x.astype("f"), *(array.astype("f") if array.dtype.kind == "f" else array for array in more)]
    check(build, arrays, f"{name} of {shape} along {axes}, keepdims={keepdims}", config, TOLERANCE[config])


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        attempt(rng, config)
