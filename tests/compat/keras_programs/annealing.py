"""Annealed importance sampling: the partition function of a small machine, whose temperature an object carries."""

import natural_bm.backend as B
import numpy as np


class Machine:
    """An RBM whose free energy depends on an inverse temperature, which the step of the loop sets."""

    def __init__(self, nb_vis=6, nb_hid=5):
        nprng = np.random.RandomState(11)
        self.W = B.variable(0.8 * nprng.normal(size=(nb_vis, nb_hid)), name="W")
        self.bv = B.variable(0.3 * nprng.normal(size=nb_vis), name="bv")
        self.bh = B.variable(0.3 * nprng.normal(size=nb_hid), name="bh")
        self.beta = 1.0

    def up(self, v):
        return self.beta * (B.dot(v, self.W) + self.bh)

    def log_p(self, v):
        """The logarithm of the unnormalized probability of v."""
        return self.beta * B.dot(v, self.bv) + B.sum(B.log(1 + B.exp(self.up(v))), axis=1)

    def gibbs(self, v, rng):
        h = B.random_binomial(shape=(v.shape[0], self.bh.shape[0]), p=B.sigmoid(self.up(v)), rng=rng)
        down = self.beta * (B.dot(h, self.W.T) + self.bv)
        return B.random_binomial(shape=v.shape, p=B.sigmoid(down), rng=rng)


machine = Machine()
rng = B.make_rng(seed=20)
nb_runs = 400
betas = B.variable(np.linspace(0, 1, 301), name="betas")


def step(beta, beta_next, v, log_w):
    machine.beta = beta
    before = machine.log_p(v)
    machine.beta = beta_next
    log_w = log_w + machine.log_p(v) - before
    return machine.gibbs(v, rng), log_w


v0 = B.random_binomial(shape=(nb_runs, 6), p=0.5, rng=rng)
outputs, updates = B.scan(
    step, sequences=[betas[:-1], betas[1:]], outputs_info=[v0, B.zeros((nb_runs,))], name="annealing"
)
log_w = outputs[1][-1]
log_z0 = (6 + 5) * np.log(2.0)
ais = B.function([], B.logsumexp(log_w) - np.log(nb_runs) + log_z0, updates=updates)

machine.beta = 1.0
v = B.placeholder(ndim=2)
states = np.array([[(i >> j) & 1 for j in range(6)] for i in range(64)])
exact = B.function([v], B.logsumexp(machine.log_p(v)))(states)
first, second = ais(), ais()
print("exact", exact)
print("off", abs(first - exact), abs(second - exact))
print("new", bool(first != second))
