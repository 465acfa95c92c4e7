"""A restricted Boltzmann machine on bars and stripes, by persistent contrastive divergence and free energies."""

import natural_bm.backend as B
import numpy as np


class RBM:
    """Binary units, weights W and biases."""

    def __init__(self, nb_vis, nb_hid, seed):
        nprng = np.random.RandomState(seed)
        self.rng = B.make_rng(seed=seed)
        self.W = B.variable(0.05 * nprng.normal(size=(nb_vis, nb_hid)), name="W")
        self.bh = B.zeros((nb_hid,), name="bh")
        self.bv = B.zeros((nb_vis,), name="bv")
        self.trainable = [self.W, self.bh, self.bv]

    def prob_h_given_v(self, v):
        return B.sigmoid(B.dot(v, self.W) + self.bh)

    def prob_v_given_h(self, h):
        return B.sigmoid(B.dot(h, self.W.T) + self.bv)

    def sample(self, p):
        return B.random_binomial(shape=p.shape, p=p, dtype=B.floatx(), rng=self.rng)

    def gibbs_vhv(self, v):
        h = self.sample(self.prob_h_given_v(v))
        return self.sample(self.prob_v_given_h(h))

    def free_energy(self, v):
        visible = -B.dot(v, self.bv)
        hidden = -B.sum(B.log(1 + B.exp(B.dot(v, self.W) + self.bh)), axis=1)
        return visible + hidden


def bars_and_stripes(n):
    rows = np.array([[(i >> j) & 1 for j in range(n)] for i in range(2**n)], dtype="float32")
    bars = np.repeat(rows[:, :, None], n, axis=2).reshape(-1, n * n)
    stripes = np.repeat(rows[:, None, :], n, axis=1).reshape(-1, n * n)
    return np.unique(np.concatenate([bars, stripes]), axis=0)


patterns = bars_and_stripes(3)
data = B.variable(np.tile(patterns, (10, 1)), name="data")
nb_data = B.get_variable_shape(data)[0]
rbm = RBM(nb_vis=9, nb_hid=16, seed=3)

x = B.placeholder(ndim=2, name="x")
index = B.placeholder(ndim=1, dtype=B.intx(), name="index")
lr = B.placeholder(ndim=0, name="lr")
chain = B.variable(np.random.RandomState(0).randint(0, 2, (28, 9)), name="chain")

samples, scan_updates = B.scan(rbm.gibbs_vhv, outputs_info=[chain], n_steps=5)
model = B.stop_gradient(samples[-1])
loss = B.mean(rbm.free_energy(x)) - B.mean(rbm.free_energy(model))
updates = [(p, p - lr * g) for p, g in zip(rbm.trainable, B.gradients(loss, rbm.trainable), strict=True)]
updates += [(chain, samples[-1]), *scan_updates.items()]
train = B.function([index, lr], loss, updates=updates, givens={x: data[index]})
reconstruction = B.function([x], B.mean(B.square(x - rbm.prob_v_given_h(rbm.prob_h_given_v(x)))))

before = reconstruction(patterns)
shuffle = np.random.RandomState(5)
for epoch in range(400):
    order = shuffle.permutation(nb_data)
    for i in range(0, nb_data, 28):
        train(order[i : i + 28], 0.2 if epoch < 270 else 0.02)

states = np.array([[(i >> j) & 1 for j in range(9)] for i in range(2**9)], dtype="float32")
free_energies = B.function([x], -rbm.free_energy(x))
log_z = B.eval(B.logsumexp(B.variable(free_energies(states))))
log_likelihood = np.mean(free_energies(patterns)) - log_z
print("reconstruction", before, reconstruction(patterns))
print("log_likelihood", log_likelihood, "of", -np.log(len(patterns)))
