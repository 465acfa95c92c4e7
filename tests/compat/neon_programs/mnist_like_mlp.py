"""The classic of neon: a network for images of digits by Model, with a cost, an optimizer and metrics."""

import logging

import numpy as np
from neon import logger as neon_logger
from neon.backends import gen_backend
from neon.data import ArrayIterator
from neon.initializers import Gaussian
from neon.layers import Affine, GeneralizedCost
from neon.models import Model
from neon.optimizers import GradientDescentMomentum
from neon.transforms import CrossEntropyBinary, Logistic, Misclassification, Rectlin

logging.basicConfig(level=logging.WARNING)
be = gen_backend(backend="cpu", rng_seed=41, batch_size=16)
data = np.random.RandomState(42)
y_train, y_test = data.randint(4, size=60), data.randint(4, size=20)
prototypes = data.uniform(size=(4, 25))
X_train = prototypes[y_train] + data.normal(0, 0.2, (60, 25))
X_test = prototypes[y_test] + data.normal(0, 0.2, (20, 25))

train_set = ArrayIterator(X_train, y_train, nclass=4, lshape=(1, 5, 5), name="train")
valid_set = ArrayIterator(X_test, y_test, nclass=4, lshape=(1, 5, 5), name="valid")

init_norm = Gaussian(loc=0.0, scale=0.3)
layers = [
    Affine(nout=12, init=init_norm, activation=Rectlin()),
    Affine(nout=4, init=init_norm, activation=Logistic(shortcut=True)),
]
mlp = Model(layers=layers)
cost = GeneralizedCost(costfunc=CrossEntropyBinary())
optimizer = GradientDescentMomentum(0.1, momentum_coef=0.9, stochastic_round=False)

mlp.initialize(train_set, cost=cost)
print("before", mlp.eval(valid_set, metric=Misclassification())[0])
mlp.fit(train_set, optimizer=optimizer, num_epochs=3, cost=cost)
print("epochs", mlp.epoch_index)
print("cost", float(np.asarray(mlp.total_cost.get()).ravel()[0]))
error_rate = mlp.eval(valid_set, metric=Misclassification())
neon_logger.info("Misclassification error = %.1f%%", error_rate[0] * 100)
print("error", error_rate[0])
print("outputs", *mlp.get_outputs(valid_set)[:3].ravel())
