"""Matrix products that are drawn from a seed, against NumPy's in float64.

Lists of cases have what somebody thought of. Drawn ones have every count of last rows and columns beside first matrices
that are too large for a cache.
"""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool

# Of the sum of the terms' sizes, whatever their order; half is rounded once more.
TOLERANCE = {"float": 1e-5, "half": 2e-3, "double": 1e-14}


def drawn(rng):
    """Shapes of A (items, m, k) and B (items, k, n), and which of them lie transposed."""
    large = rng.random() < 0.3
    items = 1 if large else int(rng.choice([1, 1, 2, 3]))
    m = int(rng.integers(400, 700) if large else rng.choice([rng.integers(1, 30), rng.integers(1, 200)]))
    k = int(rng.integers(300, 700) if large else rng.choice([rng.integers(1, 40), rng.integers(1, 700)]))
    n = int(rng.choice([rng.integers(1, 40), rng.integers(1, 150)]))
    return (
        (items, m, k),
        (items, k, n),
        {"transpose_a": bool(rng.random() < 0.3), "transpose_b": bool(rng.random() < 0.3)},
    )


def products(context, a, b, bias, transposed):
    """By `batch_matmul`, and of single matrices by `affine` with a weight that is kept from run to run."""
    stored = [
        np.ascontiguousarray(x.transpose(0, 2, 1) if t else x) for x, t in zip((a, b), transposed.values(), strict=True)
    ]
    with nn.context_scope(Context([context], fallback="raise")):
        product = F.batch_matmul(*map(nn.Variable.from_numpy_array, stored), **transposed)
        given = [nn.Variable.from_numpy_array(x) for x in (a[0], b[0], bias)]
        affine = F.affine(*given)
        found = []
        for y in (product, affine, affine):
            y.forward()
            found.append(y.d.copy())
        return found


@pytest.mark.parametrize("config, seed", [*(("float", seed) for seed in range(4)), ("half", 4), ("double", 5)])
def test_values_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    before = pool.thread_count()
    try:
        for _ in range(40):
            a_shape, b_shape, transposed = drawn(rng)
            a, b, bias = (rng.standard_normal(shape).astype("f") for shape in (a_shape, b_shape, b_shape[2:]))
            wide = a.astype("d"), b.astype("d")
            expected, sizes = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
            found = []
            for count in (1, 3):
                pool.set_thread_count(count)
                found.append(products(f"cpu:{config}", a, b, bias, transposed))
            what = f"A {a_shape}, B {b_shape}, {transposed}"
            for wanted, one, other in zip((expected, expected[0] + bias, expected[0] + bias), *found, strict=True):
                np.testing.assert_array_equal(one, other, f"on 1 and 3 threads, {what}")
                bound = TOLERANCE[config] * (sizes if one.ndim == 3 else sizes[0] + np.abs(bias))
                assert (np.abs(one - wanted) <= bound).all(), what
            np.testing.assert_array_equal(found[0][1], found[0][2], f"of a kept weight, {what}")
    finally:
        pool.set_thread_count(before)
