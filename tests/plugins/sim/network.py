"""A small convolutional network with everything that keeps state: statistics, masks, moments."""

from __future__ import annotations

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S

BATCH = 8
BATCH_BYTES = BATCH * 64 * 4 + BATCH * 4  # images and labels, float32


def predict(x, train=True):
    """Scores of 10 classes for images of 8 x 8."""
    h = PF.convolution(x, 4, (3, 3), stride=(2, 2), pad=(1, 1), name="conv1")
    h = F.tanh(PF.batch_normalization(h, batch_stat=train, name="conv1"))
    h = PF.convolution(h, 8, (3, 3), pad=(1, 1), name="conv2")
    h = F.tanh(PF.batch_normalization(h, batch_stat=train, name="conv2"))
    h = F.average_pooling(h, (2, 2))
    h = F.tanh(PF.affine(h, 16, name="fc1"))
    if train:
        h = F.dropout(h, 0.2, seed=5)
    return PF.affine(h, 10, name="fc2")


class Training:
    """The network, a loss, Adam, and random batches; all from fixed seeds.

    context: for everything, or for the network alone where solver_context is given.
    """

    def __init__(self, context, solver_context=None):
        nn.clear_parameters()
        np.random.seed(3)
        self.batches = np.random.default_rng(0)
        self.context = context
        self.solver_context = solver_context or context
        self.x = nn.Variable((BATCH, 1, 8, 8))
        self.t = nn.Variable((BATCH, 1))
        with nn.context_scope(context):
            self.loss = self.build()
        self.solver = S.Adam(0.01)
        self.solver.set_parameters(nn.get_parameters())

    def build(self):
        self.y = predict(self.x)
        return F.mean(F.softmax_cross_entropy(self.y, self.t))

    def feed(self):
        self.x.d = self.batches.standard_normal(self.x.shape)
        self.t.d = self.batches.integers(0, 10, self.t.shape)

    def step(self):
        """One step on a new batch; the loss."""
        self.feed()
        self.loss.forward()
        self.solver.zero_grad()
        self.loss.backward()
        with nn.context_scope(self.solver_context):
            self.solver.weight_decay(1e-4)
            self.solver.update()
        return float(self.loss.d)

    def dynamic_step(self):
        """The same, with the graph built anew."""
        self.feed()
        with nn.context_scope(self.context), nn.auto_forward():
            loss = self.build()
        self.solver.zero_grad()
        loss.backward()
        with nn.context_scope(self.solver_context):
            self.solver.weight_decay(1e-4)
            self.solver.update()
        return float(loss.d)

    def run(self, steps, dynamic=False):
        """The losses, then all parameters by name; running statistics are parameters, too."""
        losses = [self.dynamic_step() if dynamic else self.step() for _ in range(steps)]
        return losses, {name: v.d.copy() for name, v in nn.get_parameters(grad_only=False).items()}


def assert_same_bits(found, wanted):
    """Both losses and parameters agree exactly."""
    assert found[0] == wanted[0]
    assert found[1].keys() == wanted[1].keys()
    for name, values in wanted[1].items():
        assert found[1][name].dtype == values.dtype, name
        np.testing.assert_array_equal(found[1][name], values, err_msg=name)
