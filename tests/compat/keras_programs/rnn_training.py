"""A recurrent network that sums its inputs, trained through the loop; optimizer of one's own."""

import natural_bm.backend as B
import numpy as np


class RMSprop:
    """Steps by the mean square of the gradient."""

    def __init__(self, lr=0.01, rho=0.9):
        self.lr, self.rho = lr, rho

    def get_updates(self, params, loss):
        updates = []
        for p, g in zip(params, B.gradients(loss, params), strict=True):
            a = B.zeros_like(p)
            new_a = self.rho * a + (1.0 - self.rho) * B.square(g)
            updates += [(a, new_a), (p, p - self.lr * g / (B.sqrt(new_a) + B.epsilon()))]
        return updates


nb_hid, nb_steps = 6, 8
rng = np.random.RandomState(7)
W_x = B.variable(0.3 * rng.normal(size=(1, nb_hid)), name="W_x")
W_h = B.variable(0.9 * np.eye(nb_hid), name="W_h")
W_o = B.variable(0.3 * rng.normal(size=(nb_hid, 1)), name="W_o")
b = B.zeros(nb_hid, name="b")
params = [W_x, W_h, W_o, b]

x = B.placeholder(ndim=2, name="x")  # samples, steps
y = B.placeholder(ndim=1, name="y")


def step(x_t, h):
    z = B.dot(B.reshape(x_t, (-1, 1)), W_x) + B.dot(h, W_h) + b
    return 2 * B.sigmoid(2 * z) - 1


h, updates = B.scan(step, sequences=B.transpose(x), outputs_info=[B.zeros_like(B.dot(x[:, :1], W_x))])
prediction = B.flatten(B.dot(h[-1], W_o))
loss = B.mean(B.square(prediction - y))
fit = B.function([x, y], loss, updates=RMSprop().get_updates(params, loss))

losses = []
for _ in range(60):
    batch = rng.uniform(-0.5, 0.5, size=(16, nb_steps)).astype(B.floatx())
    losses.append(fit(batch, batch.sum(axis=1)))
print("first", losses[0])
print("later", losses[1], losses[4], losses[9])
print("last", np.mean(losses[-10:]))
print("shape", *B.get_variable_shape(W_h))
