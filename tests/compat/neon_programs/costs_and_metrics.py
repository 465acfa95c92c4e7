"""Costs, their derivatives, and metrics, of one batch of guesses; told by the logger, too."""

import logging

import numpy as np
from neon import logger as neon_logger
from neon.backends import gen_backend
from neon.transforms import (
    Accuracy,
    CrossEntropyBinary,
    CrossEntropyMulti,
    LogLoss,
    MeanSquared,
    Misclassification,
    SmoothL1Loss,
    SumSquared,
)
from neon.transforms.cost import Metric

be = gen_backend(backend="cpu", batch_size=8)
data = np.random.RandomState(8)
guesses = data.uniform(0.05, 1, size=(4, 8))
y = be.array(guesses / guesses.sum(axis=0))
t = be.array(np.eye(4)[:, [2, 0, 1, 3, 3, 1, 0, 2]])
costs, errors = be.empty((1, 8)), be.empty((4, 8))

for cost in (CrossEntropyBinary(), CrossEntropyMulti(), CrossEntropyMulti(usebits=True), SumSquared(), MeanSquared(),
             SmoothL1Loss()):  # fmt: skip
    costs[:] = cost(y, t)
    errors[:] = cost.bprop(y, t)
    print(type(cost).__name__, *costs.get()[0], *errors.get()[:, 0])
for metric in (LogLoss(), Misclassification(), Accuracy()):
    assert isinstance(metric, Metric)
    print(metric.metric_names[0], np.asarray(metric(y, t)).ravel()[0])

logging.basicConfig(level=20)
neon_logger.setLevel(logging.INFO)
neon_logger.info("costs of %d examples", be.bsz)
neon_logger.display("done")
