"""What is kept of costs, losses and metrics."""

from types import SimpleNamespace

import numpy as np
import pytest

from atled.neon.callbacks import Callbacks, TrainCostCallback


def test_train_cost_is_the_mean_of_the_last_batches(model):
    callbacks = Callbacks(model, progress_bar=False)
    callbacks.callbacks[1] = TrainCostCallback(wsz=2)
    model.fit(callbacks)
    found = callbacks.callback_data["cost/train"][:]
    np.testing.assert_allclose(found, [0, 0.5, 5.5, 10.5, 15.5, 20.5])


def test_loss_leaves_out_what_fills_up_the_last_batch(fitted, losses):
    found = fitted(eval_set=losses, eval_freq=1).callback_data["cost/loss"][:]
    np.testing.assert_allclose(found, [1, 1, 1])


def test_loss_of_data_without_batches_is_refused(fitted):
    class Nothing(list):
        ndata = 0

        def reset(self):
            pass

    with pytest.raises(ValueError, match="no batch"):
        fitted(eval_set=Nothing(), eval_freq=1)


def test_metric_is_kept_every_second_epoch(fitted, losses, metric):
    data = fitted(epochs=5, eval_set=losses, eval_freq=2, metric=metric).callback_data["metrics/Accuracy"]
    assert (data[:].tolist(), data.attrs["epoch_freq"]) == ([0.5, 1.0], 2)


def test_metric_needs_a_name_for_each_number(fitted, losses):
    with pytest.raises(ValueError, match="2 metric_names"):
        fitted(eval_set=losses, eval_freq=1, metric=SimpleNamespace(metric_names=("a", "b")))


def test_costs_of_a_multicost_are_kept(model, fitted):
    model.cost.costs = [SimpleNamespace(cost=np.array([[1.0]])), SimpleNamespace(cost=np.array([[3.0]]))]
    assert fitted(multicost=True).callback_data["multicost/train"][:].tolist() == [[1, 3]] * 6


def test_multicost_of_one_cost_is_refused(fitted):
    with pytest.raises(TypeError, match="one alone"):
        fitted(multicost=True)
