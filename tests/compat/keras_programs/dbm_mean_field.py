"""Mean field in a deep Boltzmann machine of two hidden layers: a loop that ends when nothing moves any more."""

import natural_bm.backend as B
import numpy as np

rng = np.random.RandomState(4)
nb_vis, nb_hid1, nb_hid2 = 12, 10, 6
W1 = B.variable(0.4 * rng.normal(size=(nb_vis, nb_hid1)), name="W1")
W2 = B.variable(0.4 * rng.normal(size=(nb_hid1, nb_hid2)), name="W2")
b1 = B.variable(0.1 * rng.normal(size=nb_hid1), name="b1")
b2 = B.variable(0.1 * rng.normal(size=nb_hid2), name="b2")

v = B.placeholder(shape=(None, nb_vis), name="v")
tol = B.placeholder(ndim=0, name="tol")


def step(h1, h2, from_v, tol):
    """One sweep, and whether it moved anything."""
    new_h1 = B.sigmoid(from_v + B.dot(h2, W2.T))
    new_h2 = B.sigmoid(B.dot(new_h1, W2) + b2)
    moved = B.maximum(B.max(B.abs(new_h1 - h1)), B.max(B.abs(new_h2 - h2)))
    return [new_h1, new_h2], B.until(moved < tol)


start = [B.zeros_like(B.dot(v, W1)) + 0.5, B.ones_like(B.dot(B.dot(v, W1), W2)) * 0.5]
(h1s, h2s), updates = B.scan(step, outputs_info=start, non_sequences=[B.dot(v, W1) + b1, tol], n_steps=200)
h1, h2 = h1s[-1], h2s[-1]
energy = -B.sum(B.dot(v, W1) * h1, axis=1) - B.sum(B.dot(h1, W2) * h2, axis=1) - B.dot(h1, b1) - B.dot(h2, b2)
entropy = -sum(B.sum(h * B.log(h) + (1 - h) * B.log(1 - h), axis=1) for h in (h1, h2))
bound = entropy - energy
mean_field = B.function([v, tol], [h1, h2, h1s.shape[0], bound], updates=updates)

data = rng.randint(0, 2, (5, nb_vis))
for tolerance in (1e-1, 1e-3, 1e-5):
    p1, p2, steps, bounds = mean_field(data, tolerance)
    print("tolerance", tolerance, "steps", steps, "bound", np.mean(bounds))
print("h1", *p1[0, :5])
print("h2", *p2[0])
print("at_once", mean_field(data[:2], 2.0)[2])
