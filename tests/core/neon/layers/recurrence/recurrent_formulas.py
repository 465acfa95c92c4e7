"""Recurrent layers in NumPy, step by step; and what the tests of all of them make and ask."""

import numpy as np

from atled.neon.layers import DeltasTree
from atled.neon.transforms import Logistic, Tanh

ROWS, STEPS, UNITS, BATCH = 2, 4, 3, 4


class Draws:
    """An initializer."""

    def __init__(self, seed=3):
        self.rng = np.random.default_rng(seed)

    def fill(self, param):
        param[:] = self.rng.normal(size=param.shape) / 2


def made(kind, rows=ROWS, steps=STEPS, **keywords):
    """A layer with memory for everything, below which there is one."""
    if kind.__name__ in ("LSTM", "GRU", "BiLSTM"):
        keywords.setdefault("gate_activation", Logistic())
    return ready(kind(UNITS, Draws(), activation=Tanh(), **keywords), rows, steps)


def ready(layer, rows=ROWS, steps=STEPS, **keywords):
    """A layer, configured and allocated."""
    layer.configure((rows, steps))
    layer.prev_layer = True
    layer.allocate(**keywords)
    pool = DeltasTree()
    layer.allocate_deltas(pool)
    pool.allocate_buffers()
    layer.set_deltas(pool)
    return layer


def normal(*shape, seed=5):
    return np.random.default_rng(seed).normal(size=shape)


def cut(array):
    """The steps of columns."""
    return np.split(np.asarray(array), array.shape[1] // BATCH, axis=1)


def plain(x, w, u, b, h):
    """`tanh(w x + u h + b)` of all steps."""
    states = []
    for step in cut(x):
        h = np.tanh(w @ step + u @ h + b)
        states.append(h)
    return np.hstack(states)


def backwards(formula, x, *rest):
    """The same with the last step first."""
    turned = np.hstack(cut(x)[::-1])
    return np.hstack(cut(formula(turned, *rest))[::-1])


def logistic(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, w, u, b, h, c):
    """States of an LSTM whose gates are i, f, o, g."""
    states = []
    for step in cut(x):
        i, f, o, g = np.split(w @ step + u @ h + b, 4)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        h = logistic(o) * np.tanh(c)
        states.append(h)
    return np.hstack(states)


def gru(x, w, u, b, h):
    """States of a GRU whose gates are r, z and the new content."""
    states = []
    both = 2 * UNITS
    for step in cut(x):
        r, z = np.split(logistic(w[:both] @ step + u[:both] @ h + b[:both]), 2)
        new = np.tanh(w[both:] @ step + u[both:] @ (r * h) + b[both:])
        h = (1 - z) * h + z * new
        states.append(h)
    return np.hstack(states)


def check_slopes(tensor, gradient, loss, atol, name=""):
    """Compare a gradient with central differences of a loss: of all elements of a tensor, or of 40 of many."""
    values = tensor.get()
    for place in np.random.default_rng(7).permutation(values.size)[:40]:
        slope = 0
        for sign in (1, -1):
            moved = values.copy()
            moved.flat[place] += sign * 1e-5
            tensor[:] = moved
            slope += sign * loss() / 2e-5
        np.testing.assert_allclose(gradient.flat[place], slope, rtol=0, atol=atol, err_msg=f"{name} {place}")
    tensor[:] = values


def check_gradients(be, layer, parameters, rows=ROWS, steps=STEPS, **keywords):
    """Compare `bprop` with differences of sum(error * outputs), from a start of zeros."""
    x = be.array(normal(rows, steps * BATCH), dtype=np.float64)
    error = normal(*layer.fprop(x, **keywords).shape, seed=6)

    def loss():
        layer.reset_state()
        return float((error * layer.fprop(x, **keywords).get()).sum())

    loss()
    deltas = layer.bprop(be.array(error)).get()
    found = {name: tensor.get() for name, (_, tensor) in parameters.items()}
    check_slopes(x, deltas, loss, 1e-8, "x")
    for name, (tensor, _) in parameters.items():
        check_slopes(tensor, found[name], loss, 2e-6, name)
