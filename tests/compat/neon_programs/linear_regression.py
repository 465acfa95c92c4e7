"""Linear regression by gradient descent, all of it op-trees."""

import argparse

import numpy as np
from neon.backends import gen_backend

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=25)
parser.add_argument("--rate", type=float, default=0.2)
args = parser.parse_args()

be = gen_backend(backend="cpu", rng_seed=0)
data = np.random.RandomState(1)
inputs = data.normal(size=(3, 40)).astype(np.float32)
targets = (np.array([[2.0, -1.0, 0.5]]) @ inputs + 1).astype(np.float32)

x, t = be.array(inputs, name="x"), be.array(targets, name="t")
w, b = be.zeros((1, 3), name="w"), be.zeros((1, 1), name="b")
error, cost = be.empty((1, 40)), be.empty((1, 1))
for step in range(args.steps):
    error[:] = be.dot(w, x) + b - t
    cost[:] = be.mean(be.square(error), axis=1)
    w[:] = w - args.rate / 40 * be.dot(error, x.T)
    b[:] = b - args.rate * be.mean(error, axis=1)
    if step % 8 == 0:
        print("cost", cost.get()[0, 0])
print("w", *w.get()[0])
print("b", b.get()[0, 0])
