"""Softmax regression by mini-batches: data stay in variables, a batch is gathered by givens, momentum by updates."""

from collections import OrderedDict

import natural_bm.backend as B
import numpy as np


class SGD:
    """Gradient descent with momentum."""

    def __init__(self, lr=0.1, momentum=0.9):
        self.lr = B.variable(lr, name="lr")
        self.momentum = B.variable(momentum)

    def get_updates(self, params, loss):
        updates = OrderedDict()
        for param, grad in zip(params, B.gradients(loss, params), strict=True):
            velocity = B.zeros(B.get_variable_shape(param))
            moved = self.momentum * velocity - self.lr * grad
            updates[velocity] = moved
            updates[param] = param + moved
        return updates


rng = np.random.RandomState(1)
nb_data, nb_in, nb_classes, batch_size = 120, 8, 3, 20
centers = rng.normal(size=(nb_classes, nb_in))
labels = rng.randint(0, nb_classes, nb_data)
data = B.variable(centers[labels] + 0.3 * rng.normal(size=(nb_data, nb_in)), name="data")
targets = B.variable(labels, dtype="int32", name="targets")

x = B.placeholder(shape=(None, nb_in), name="x")
t = B.placeholder(ndim=1, dtype="int32", name="t")
index = B.placeholder(ndim=1, dtype="int32", name="index")
start = B.placeholder(ndim=0, dtype="int32", name="start")

W = B.variable(np.zeros((nb_in, nb_classes)), name="W")
b = B.zeros((nb_classes,), name="b")
energies = B.dot(x, W) + b
log_p = energies - B.logsumexp(energies, axis=1, keepdims=True)
loss = -B.mean(B.sum(B.one_hot(t, nb_classes) * log_p, axis=1))
wrong = B.mean(B.cast(B.not_equal(B.argmax(log_p, axis=1), t), B.floatx()))

sgd = SGD()
train = B.function([index], loss, updates=sgd.get_updates([W, b], loss), givens={x: data[index], t: targets[index]})
test = B.function(
    [start], [loss, wrong], givens=[(x, data[start : start + batch_size]), (t, targets[start : start + batch_size])]
)

for epoch in range(5):
    order = rng.permutation(nb_data)
    losses = [train(order[i : i + batch_size]) for i in range(0, nb_data, batch_size)]
    print("epoch", epoch, np.mean(losses))
    B.set_value(sgd.lr, 0.8 * B.get_value(sgd.lr))
results = [test(i) for i in range(0, nb_data, batch_size)]
print("test", *np.mean(results, axis=0))
print("last", train(order[:7]))
