"""Callbacks of a Model that is trained."""

import signal

import h5py
import numpy as np
import pytest

from atled.neon.callbacks import Callback, Callbacks
from atled.neon.data import ArrayIterator
from atled.neon.initializers import Gaussian
from atled.neon.layers import Affine, GeneralizedCost
from atled.neon.models import Model
from atled.neon.optimizers import GradientDescentMomentum
from atled.neon.transforms import CrossEntropyMulti, Misclassification, Softmax
from atled.neon.util.persist import load_obj


@pytest.fixture
def data(be):
    """18 points: four batches, and half a batch."""
    points = np.random.RandomState(0).normal(size=(18, 3))
    return ArrayIterator(points, (points[:, 0] > 0).astype(int), nclass=2)


def network():
    return Model([Affine(2, Gaussian(0, 0.1), activation=Softmax())])


def trained(model, data, epochs, callbacks):
    model.fit(data, GeneralizedCost(CrossEntropyMulti()), GradientDescentMomentum(0.1, 0.9), epochs, callbacks)


def test_loss_and_metric_are_those_of_all_outputs(data):
    model = network()
    callbacks = Callbacks(model, eval_set=data, eval_freq=1, metric=Misclassification(), progress_bar=False)
    trained(model, data, 2, callbacks)
    outputs, classes = model.get_outputs(data), np.random.RandomState(0).normal(size=(18, 3))[:, 0] > 0
    wanted = -np.log(outputs[np.arange(18), classes.astype(int)]).mean()
    np.testing.assert_allclose(callbacks.callback_data["cost/loss"][-1], wanted, rtol=1e-4)
    wrong = np.mean(outputs.argmax(axis=1) != classes)
    np.testing.assert_allclose(callbacks.callback_data["metrics/Top1Misclass"][-1], wrong, atol=1e-6)


def test_count_of_batches_is_the_data_s(data):
    model = network()
    callbacks = Callbacks(model, progress_bar=False)
    trained(model, data, 2, callbacks)
    assert callbacks.callback_data["config"].attrs["total_minibatches"] == 2 * data.nbatches


def test_file_is_whole_after_interruption(data, tmp_path, ctrl_c):
    class Interrupting(Callback):
        def on_minibatch_end(self, callback_data, model, epoch, minibatch):
            if (epoch, minibatch) == (1, 1):
                signal.raise_signal(signal.SIGINT)

    model, path = network(), tmp_path / "out.h5"
    callbacks = Callbacks(model, output_file=path, progress_bar=False)
    callbacks.add_callback(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        trained(model, data, 3, callbacks)
    with h5py.File(path) as file:
        assert len(file["cost/train"]) == file["time_markers/minibatch"][0] + 2
        assert file["time/train/end_time"][0] > 0


def test_saved_model_goes_on_behind_the_epoch(data, tmp_path):
    model, path = network(), tmp_path / "m.h5"
    trained(model, data, 2, Callbacks(model, save_path=path, progress_bar=False))
    again = network()
    callbacks = Callbacks(again, model_file=path, progress_bar=False)
    trained(again, data, 3, callbacks)
    assert load_obj(path)["epoch_index"] == 2
    markers = callbacks.callback_data["time_markers/minibatch"][:]
    assert (markers[1], markers[2]) == (0, len(callbacks.callback_data["cost/train"]))
