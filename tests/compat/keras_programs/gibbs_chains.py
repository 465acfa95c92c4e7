"""Many chains of a tiny machine, by streams of random numbers: means of the chains are those of the machine."""

import natural_bm.backend as B
import numpy as np

W_value = np.array([[2.0, -1.0], [-1.5, 1.0], [0.5, 0.5]])
W = B.variable(W_value)
rng = B.make_rng(seed=42)
chains = B.variable(np.zeros((2000, 3)), name="chains")


def gibbs(v):
    p_h = B.sigmoid(B.dot(v, W))
    h = rng.binomial(size=p_h.shape, n=1, p=p_h, dtype=B.floatx())
    p_v = B.sigmoid(B.dot(h, W.T))
    return B.cast(rng.uniform(size=v.shape) < p_v, B.floatx())


v, updates = B.scan(gibbs, outputs_info=[chains], n_steps=20)
updates[chains] = v[-1]
sample = B.function([], B.mean(v[-1], axis=0), updates=updates)

states = np.array([[(i >> j) & 1 for j in range(3)] for i in range(8)])
weights = np.prod(1 + np.exp(states.dot(W_value)), axis=1)
expected = weights.dot(states) / weights.sum()
for _ in range(3):
    print("means", *(sample() - expected))

draws = B.function([], rng.uniform(size=(3,), low=-1.0, high=1.0))
first, second = draws(), draws()
rng.seed(42)
third = draws()
rng.seed(42)
print("new", bool(np.all(first != second)), "again", bool(np.all(third == draws())))
normal = B.function([], rng.normal(size=(400, 50), avg=3.0, std=2.0))()
print("normal", normal.mean(), normal.std(), normal.dtype)
picked = B.function([], B.random_uniform((1000,), minval=2.0, maxval=4.0, rng=B.make_rng(1)))()
print("uniform", picked.min() > 2, picked.max() < 4, picked.mean())
