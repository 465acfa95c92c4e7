"""Kernels that carry elementwise steps: on whatever way a call is computed, each element is passed on exactly once."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.compile.plans import PLANS
from atled_cpu_numba import pool

CPU = nn.Context(["cpu:float"], fallback="raise")


def uniform(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values, need_grad=True)


def convolution(x, w, bias=False, **attributes):
    b = uniform(w[0], seed=2) if bias else None
    return lambda: F.convolution(uniform(*x), uniform(*w, seed=1), b, **attributes)


CASES = {
    "affine": lambda: F.affine(uniform(70, 90), uniform(90, 200, seed=1), uniform(200, seed=2)),
    "affine, few columns": lambda: F.affine(uniform(130, 90), uniform(90, 3, seed=1)),  # fewer than any vector holds
    "affine, one row": lambda: F.affine(uniform(1, 90), uniform(90, 200, seed=1)),
    "affine, one short row": lambda: F.affine(uniform(1, 300), uniform(300, 50, seed=1), uniform(50, seed=2)),
    "batch_matmul": lambda: F.batch_matmul(uniform(3, 40, 50), uniform(3, 50, 60, seed=1)),
    "batch_matmul, B transposed": lambda: F.batch_matmul(
        uniform(2, 20, 500), uniform(2, 300, 500, seed=1), transpose_b=True
    ),
    "convolution, winograd": convolution((5, 16, 17, 19), (32, 16, 3, 3), pad=(1, 1)),
    "convolution, direct": convolution((5, 3, 30, 31), (70, 3, 3, 3), bias=True),
    "convolution, maps in lanes": convolution((5, 1, 28, 28), (16, 1, 5, 5), bias=True),
    "convolution, strided": convolution((5, 16, 16, 16), (32, 16, 3, 3), pad=(1, 1), stride=(2, 2)),
    "convolution, groups": convolution((5, 8, 15, 15), (24, 4, 3, 3), group=2),
    "convolution, rows": convolution((5, 3, 20, 32), (70, 3, 3, 3), bias=True, pad=(1, 1)),
    "convolution, group by group": convolution((5, 64, 12, 12), (64, 32, 3, 3), bias=True, group=2),
    "convolution, three axes": convolution((3, 16, 5, 12, 11), (32, 16, 3, 3, 3), bias=True, pad=(1, 1, 1)),
    "convolution, three axes that see nothing": convolution((2, 3, 3, 5, 6), (7, 3, 1, 2, 2), bias=True, pad=(1, 0, 0)),
    "convolution, 1x1": convolution((5, 64, 14, 14), (48, 64, 1, 1)),
    "convolution, 1x1, one image": convolution((1, 64, 14, 14), (48, 64, 1, 1), bias=True),
    "depthwise": lambda: F.depthwise_convolution(uniform(5, 20, 13, 14), uniform(20, 3, 3, seed=1), pad=(1, 1)),
    "max_pooling, tiles": lambda: F.max_pooling(uniform(40, 16, 24, 24), (2, 2)),
    "max_pooling": lambda: F.max_pooling(uniform(20, 16, 24, 24), (3, 3), stride=(2, 2)),
    "average_pooling": lambda: F.average_pooling(uniform(20, 16, 24, 24), (3, 3), stride=(2, 2)),
    "average_pooling, tiles": lambda: F.average_pooling(uniform(20, 16, 24, 24), (2, 2)),
    "global_average": lambda: F.average_pooling(uniform(200, 32, 8, 8), (8, 8)),
    "batch_normalization, rows": lambda: F.batch_normalization(
        uniform(6, 20, 13, 13), *(uniform(1, 20, 1, 1, seed=i) for i in range(2)), *ones(1, 20, 1, 1)
    ),
    "batch_normalization, columns": lambda: F.batch_normalization(
        uniform(60, 150, 2, 2), *(uniform(1, 150, 1, 1, seed=i) for i in range(2)), *ones(1, 150, 1, 1)
    ),
}


CARRYING_NONE = {"affine, few columns"}


def ones(*shape):
    return [nn.Variable.from_numpy_array(np.ones(shape, np.float32), need_grad=False) for _ in range(2)]


def results(case):
    """The op with an activation and the gradients of its inputs; whether any step carried another one."""
    with nn.context_scope(CPU):
        y = CASES[case]()
        inputs = [x for x in y.parent.inputs if x is not None and x.need_grad]
        # Not idempotent: an element that is passed on twice, or never, is wrong.
        z = F.tanh(y * 2.0 + 0.25)
        z.forward()
        for x in inputs:
            x.grad.zero()
        z.backward(uniform(*z.shape, seed=9).d)
    return [z.d.copy(), *(x.g.copy() for x in inputs)], any(step.carried for step in z.plan.steps)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_carried_elements_are_those_of_single_steps(case, threads, monkeypatch):
    pool.set_thread_count(threads)
    try:
        found, has_carried = results(case)
        monkeypatch.setattr("atled.graph.compile.lowering.attach", lambda slots, steps, **_: list(steps))
        PLANS.clear()
        wanted, _ = results(case)
    finally:
        pool.set_thread_count(None)
        PLANS.clear()
    assert has_carried == (case not in CARRYING_NONE)
    for want, got in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(got, want)
