"""Where calls of a backend are computed: on the host's best backend all of them, with no fallback."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled_contexts import fallback_counts, reset_fallback_counts

ONE = ["absolute", "fabs", "negative", "sgn", "sqrt", "square", "exp", "exp2", "log", "log2", "safelog", "sig", "sig2"]
ONE += ["tanh", "tanh2", "rint", "finite", "reciprocal"]
TWO = ["add", "subtract", "multiply", "divide", "true_divide", "power", "maximum", "minimum", "equal", "not_equal"]
TWO += ["less", "less_equal", "greater", "greater_equal", "shift"]
REDUCTIONS = ["sum", "max", "min", "mean", "var", "std", "argmax", "argmin"]

CALLS = {}
"""A few uses of each call by its name: functions of a backend."""


def use(function):
    """Enter a function under the name of the call that it uses."""
    CALLS[function.__name__] = function
    return function


def uniform(be, *shape):
    return be.array(np.random.RandomState(3).uniform(0.25, 0.75, shape))


def integers(be, *values):
    return be.array(values, dtype=np.int32)


def use_one(name):
    def run(be):
        x, out = uniform(be, 6, 8), be.empty((6, 8))
        out[:] = getattr(be, name)(x)
        getattr(be, name)(x[::2, 1:], out=out[::2, :-1])

    return run


def use_two(name):
    def run(be):
        x, out = uniform(be, 6, 8), be.empty((6, 8))
        out[:] = getattr(be, name)(x, uniform(be, 6, 1))
        getattr(be, name)(x[::2, 1:], 0.5, out=out[::2, :-1])

    return run


def use_reduction(name):
    def run(be):
        x, rows, columns = uniform(be, 6, 8), be.empty((1, 8)), be.empty((6, 1))
        rows[:] = getattr(be, name)(x, axis=0)
        columns[:] = getattr(be, name)(x, axis=1)
        rows[:] = getattr(be, name)(x.T, axis=1).T
        columns[:, :] = getattr(be, name)(x[:, ::2], axis=1)

    return run


CALLS |= {name: use_one(name) for name in ONE}
CALLS |= {name: use_two(name) for name in TWO}
CALLS |= {name: use_reduction(name) for name in REDUCTIONS}


@use
def dot(be):
    x, out = uniform(be, 6, 8), be.empty((6, 6))
    out[:] = be.dot(x, x.T) + 1
    be.dot(x, x.T, out=out.T)
    out[:3] = be.dot(x[:3], x.T)


@use
def take(be):
    x, out = uniform(be, 6, 8), be.empty((3, 8))
    out[:] = be.take(x, integers(be, 0, 5, 1), 0) * 2


@use
def onehot(be):
    be.onehot(integers(be, 0, 2, 1, 1), axis=1, out=be.empty((4, 3)))
    be.onehot(integers(be, 0, 2, 1, 1), axis=0, out=be.empty((3, 4)))


@use
def clip(be):
    be.clip(uniform(be, 6, 8), 0.3, 0.5, out=be.empty((6, 8)))


@use
def binarize(be):
    out = be.empty((6, 8))
    out[:] = be.binarize(uniform(be, 6, 8), stochastic=False)
    be.binarize(uniform(be, 6, 8), out)


@use
def make_binary_mask(be):
    be.make_binary_mask(be.empty((6, 8))[:, ::2])


@use
def fill_normal(be):
    be.fill_normal(be.empty((6, 8)))


@pytest.fixture(params=[np.float32, np.float64])
def be(request):
    """The best backend on the host."""
    yield gen_backend("cpu", rng_seed=1, datatype=request.param, batch_size=4)
    cleanup_backend()


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_computed_elsewhere(be, name):
    reset_fallback_counts()
    CALLS[name](be)
    assert not fallback_counts()
