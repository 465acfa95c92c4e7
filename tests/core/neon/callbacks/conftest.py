"""A model that trains nothing: its costs are given, its saved files are text."""

from types import SimpleNamespace

import numpy as np
import pytest

from atled.neon.callbacks import Callbacks


class Batches:
    """Data of batches of 4, of which `ndata` examples count."""

    def __init__(self, be, values, ndata):
        self.values = [be.array(np.full((2, 4), value)) for value in values]
        self.ndata = ndata
        self.nbatches = len(values)

    def reset(self):
        """They begin anew with each iteration."""

    def __iter__(self):
        return iter([(each, each) for each in self.values])


class Cost:
    """The first row of the outputs is the cost of the columns."""

    cost = outputs = None

    def get_cost(self, y, t):
        self.outputs = y[:1]
        self.cost = np.array([[y[:1].get().mean()]])


class StandIn:
    """What callbacks use of a Model; the cost of batch m of epoch e is 10 * e + m."""

    def __init__(self):
        self.cost = Cost()
        self.finished = False
        self.epoch_index = 0
        self.loaded = []
        self.saved = []
        self.layers_to_optimize = []

    def fprop(self, x, inference=False):
        assert inference
        return x

    def eval(self, dataset, metric):
        return np.array([0.25 * (self.epoch_index + 1)])

    def save_params(self, path):
        self.saved.append(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(self.epoch_index))

    def load_params(self, path):
        self.loaded.append(path)

    def fit(self, callbacks, epochs=3, batches=2):
        """The calls of Model.fit."""
        self.epoch_index = 0
        callbacks.on_train_begin(epochs)
        while self.epoch_index < epochs and not self.finished:
            callbacks.on_epoch_begin(self.epoch_index)
            for minibatch in range(batches):
                callbacks.on_minibatch_begin(self.epoch_index, minibatch)
                self.cost.cost = np.array([[10.0 * self.epoch_index + minibatch]])
                callbacks.on_minibatch_end(self.epoch_index, minibatch)
            callbacks.on_epoch_end(self.epoch_index)
            self.epoch_index += 1
        callbacks.on_train_end()


@pytest.fixture
def model(cpu):
    return StandIn()


@pytest.fixture
def metric():
    return SimpleNamespace(metric_names=("Accuracy",))


@pytest.fixture
def fitted(model):
    """Fit with Callbacks of these arguments, without a bar; gives them."""

    def fit(epochs=3, **given):
        made = Callbacks(model, **{"progress_bar": False} | given)
        model.fit(made, epochs)
        return made

    return fit


@pytest.fixture
def losses(cpu):
    """Data whose loss is 1 over its 6 examples, of which 4 have loss 0, and 2 loss 3."""
    return Batches(cpu, [0.0, 3.0], 6)
