"""What the programs of `keras_programs` print, computed with NumPy: a function for each, that yields lines of words.

Where a program draws, a range stands for what no other generator gives.
"""

from typing import NamedTuple

import numpy as np


class Within(NamedTuple):
    """A number in a range."""

    low: float
    high: float


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _states(count):
    return np.array([[(i >> j) & 1 for j in range(count)] for i in range(2**count)], float)


def logistic_regression():
    rng = np.random.RandomState(0)
    x, y = rng.randn(200, 30).astype("float32").astype(float), rng.randint(size=200, low=0, high=2).astype(float)
    w, b, costs = rng.randn(30) * 0.1, 0.0, []
    for _ in range(300):
        p = _sigmoid(x @ w + b)
        costs.append(np.mean(-y * np.log(p) - (1 - y) * np.log(1 - p)) + 0.01 * np.sum(w**2))
        w, b = w - 0.1 * (x.T @ (p - y) / 200 + 0.02 * w), b - 0.1 * np.mean(p - y)
    yield ["costs", costs[0], costs[-1]]
    yield ["right", np.sum((_sigmoid(x @ w + b) > 0.5) == y)]
    yield ["w", *w[:4]]
    yield ["b", b]


def minibatches():
    rng = np.random.RandomState(1)
    centers = rng.normal(size=(3, 8))
    t = rng.randint(0, 3, 120)
    x = centers[t] + 0.3 * rng.normal(size=(120, 8))
    W, b, vW, vb, rate = np.zeros((8, 3)), np.zeros(3), np.zeros((8, 3)), np.zeros(3), 0.1

    def train(chosen):
        nonlocal W, b, vW, vb
        energies = x[chosen] @ W + b
        p = np.exp(energies) / np.exp(energies).sum(1, keepdims=True)
        errors = (p - np.eye(3)[t[chosen]]) / len(chosen)
        vW, vb = 0.9 * vW - rate * x[chosen].T @ errors, 0.9 * vb - rate * errors.sum(0)
        W, b = W + vW, b + vb
        return -np.mean(np.log(p[np.arange(len(chosen)), t[chosen]]))

    for epoch in range(5):
        order = rng.permutation(120)
        yield ["epoch", epoch, np.mean([train(order[i : i + 20]) for i in range(0, 120, 20)])]
        rate *= 0.8
    energies = x @ W + b
    log_p = energies - np.log(np.exp(energies).sum(1, keepdims=True))
    yield ["test", -np.mean(log_p[np.arange(120), t]), np.mean(log_p.argmax(1) != t)]
    yield ["last", train(order[:7])]


def rbm_cd():
    yield ["reconstruction", Within(0.2, 0.3), Within(0, 0.01)]
    yield ["log_likelihood", Within(-3.5, -np.log(14)), "of", -np.log(14)]


def dbm_mean_field():
    rng = np.random.RandomState(4)
    W1, W2 = 0.4 * rng.normal(size=(12, 10)), 0.4 * rng.normal(size=(10, 6))
    b1, b2 = 0.1 * rng.normal(size=10), 0.1 * rng.normal(size=6)
    data = rng.randint(0, 2, (5, 12))

    def mean_field(v, tolerance):
        h1, h2, moved, steps = np.full((len(v), 10), 0.5), np.full((len(v), 6), 0.5), np.inf, 0
        while not moved < tolerance:
            new1 = _sigmoid(v @ W1 + b1 + h2 @ W2.T)
            new2 = _sigmoid(new1 @ W2 + b2)
            moved, steps = max(np.abs(new1 - h1).max(), np.abs(new2 - h2).max()), steps + 1
            h1, h2 = new1, new2
        entropy = -sum(np.sum(h * np.log(h) + (1 - h) * np.log(1 - h), axis=1) for h in (h1, h2))
        bound = entropy + np.sum(v @ W1 * h1, axis=1) + np.sum(h1 @ W2 * h2, axis=1) + h1 @ b1 + h2 @ b2
        return h1, h2, steps, np.mean(bound)

    for tolerance in (1e-1, 1e-3, 1e-5):
        h1, h2, steps, bound = mean_field(data, tolerance)
        yield ["tolerance", tolerance, "steps", steps, "bound", bound]
    yield ["h1", *h1[0, :5]]
    yield ["h2", *h2[0]]
    yield ["at_once", 1]


def annealing():
    rng = np.random.RandomState(11)
    W, bv, bh = 0.8 * rng.normal(size=(6, 5)), 0.3 * rng.normal(size=6), 0.3 * rng.normal(size=5)
    v = _states(6)
    yield ["exact", np.log(np.sum(np.exp(v @ bv) * np.prod(1 + np.exp(v @ W + bh), axis=1)))]
    yield ["off", Within(0, 0.1), Within(0, 0.1)]
    yield ["new", "True"]


def recurrences():
    yield ["power", 0, 1, 4, 9, 16, 1, 16]
    yield ["polynomial", 1 + 2 * 3**2]
    yield ["fibonacci", 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    rng = np.random.RandomState(2)
    W_in, W = rng.normal(size=(3, 4)), 0.5 * rng.normal(size=(4, 4))
    inputs = np.linspace(-1, 1, 36).reshape(6, 2, 3)
    for steps in (inputs, inputs[::-1]):
        h = np.zeros((2, 4))
        for x in steps:
            h = _sigmoid(x @ W_in + h @ W)
        yield ["layer", 6, *h[0]]
        yield ["steps", 3]
    yield ["slope", 5 * 2.0**4, 1]
    yield ["count", 14]


def rnn_training():
    rng = np.random.RandomState(7)
    W_x, W_h, W_o = 0.3 * rng.normal(size=(1, 6)), 0.9 * np.eye(6), 0.3 * rng.normal(size=(6, 1))
    params = [W_x, W_h, W_o, np.zeros(6)]
    squares, losses = [np.zeros(each.shape) for each in params], []
    for _ in range(60):
        x = rng.uniform(-0.5, 0.5, size=(16, 8)).astype("float32")
        y = x.sum(axis=1)
        W_x, W_h, W_o, b = params
        hs = [np.zeros((16, 6))]
        for column in x.T:
            hs.append(np.tanh(column[:, None] * W_x + hs[-1] @ W_h + b))
        error = (hs[-1] @ W_o)[:, 0] - y
        losses.append(np.mean(error**2))
        gy = 2 * error[:, None] / 16
        grads = [0, 0, hs[-1].T @ gy, 0]
        gh = gy @ W_o.T
        for step in range(8, 0, -1):
            gz = gh * (1 - hs[step] ** 2)
            grads = [grads[0] + x[:, step - 1] @ gz, grads[1] + hs[step - 1].T @ gz, grads[2], grads[3] + gz.sum(0)]
            gh = gz @ W_h.T
        squares = [0.9 * a + 0.1 * g**2 for a, g in zip(squares, grads, strict=True)]
        rates = [0.01 * g / (np.sqrt(a) + 2.0**-23) for a, g in zip(squares, grads, strict=True)]
        params = [p - rate.reshape(p.shape) for p, rate in zip(params, rates, strict=True)]
    yield ["first", losses[0]]
    yield ["later", losses[1], losses[4], losses[9]]
    yield ["last", Within(0, 0.1 * losses[0])]
    yield ["shape", 6, 6]


def state():
    yield ["old", 0, 1, "new", 301]
    yield ["swapped", 3, 4, 1, 2, "from", 4, 6, -2, -2]
    yield ["givens", 8, 301]
    yield ["larger", 1, 2, 5]
    yield ["rate", 0.125]
    yield ["set", 7, 8]
    yield ["shapes", 2, 2, 1, "float32", 2]
    yield ["wide", "float64", "float64", "float64", "float64"]
    yield ["rows", 38, 6, 38]
    matrix = np.arange(12).reshape(3, 4)
    yield ["built", *(matrix[0] + matrix[-1] + matrix[:, :3][0] @ matrix)]


def whitening():
    rng = np.random.RandomState(9)
    x = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    covariance = np.cov(x.T)
    values = np.linalg.svd(covariance)[1]
    yield ["values", *values]
    yield ["white", "True"]
    yield ["ridge", *np.linalg.solve(x.T @ x + 0.1 * np.eye(4), x.T @ (x[:, 0] - 2 * x[:, 3]))]
    yield ["loaded", 1, 2, 3, 4]
    yield ["numpy", "True", *values]


def gibbs_chains():
    for _ in range(3):
        yield ["means", *[Within(-0.05, 0.05)] * 3]  # four standard errors
    yield ["new", "True", "again", "True"]
    yield ["normal", Within(2.94, 3.06), Within(1.95, 2.05), "float32"]
    yield ["uniform", "True", "True", Within(2.92, 3.08)]


def units():
    x = np.random.RandomState(12).normal(size=(4, 5)).astype("float32").astype(float) * 3
    exps = np.exp(x)
    found = {
        "softplus": np.log1p(exps),
        "softmax": exps / exps.sum(1, keepdims=True),
        "logistic": _sigmoid(x) * (1 - _sigmoid(x)),
        "hard": np.clip(0.2 * x + 0.5, 0, 1),
        "moments": np.concatenate([x.mean(0), x.std(0), x.var(0)]),
        "ends": np.stack([x.min(1), x.max(1)], axis=1),
        "places": x.argmax(1) + x.argmin(1),
        "swing": np.ones((4, 5)),
        "signs": np.sign(x) * np.sqrt(np.maximum(x, 0)) + np.round(x),
        "sums": np.cumsum(x, axis=1) + np.cumprod(x / 4, axis=0),
        "turned": x.T[::-1],
        "spread": np.tile(np.repeat(x, 2, axis=1), (1, 2)),
        "rows": np.repeat(x[:, None], 3, axis=1),
        "above": (x > 4).any(axis=1),
        "powers": np.abs(x) ** 1.5 + np.prod(x, axis=0, keepdims=True),
    }
    for name, value in found.items():
        yield [name, *value.shape, "True", value.sum()]
    yield ["slope", "True"]
