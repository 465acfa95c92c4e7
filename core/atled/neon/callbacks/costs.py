"""Callbacks that keep costs and metrics."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.callbacks.base import Callback
from atled.neon.callbacks.records import Series, of_epochs


class TrainCostCallback(Callback):
    """Keeps the cost of each batch as "cost/train": the mean of the last wsz batches."""

    def __init__(self, wsz: int = 10) -> None:
        super().__init__()
        self.wsz = self._checked("wsz", wsz)
        self.cost_history: collections.deque[Any] = collections.deque(maxlen=self.wsz)
        self._series: Any = None

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Make the dataset."""
        self.cost_history.clear()
        self._series = Series(callback_data, "cost/train")

    def on_minibatch_end(self, callback_data: Any, model: Any, epoch: int, minibatch: int) -> None:
        """Write the cost."""
        self.cost_history.append(number(model.cost.cost))
        self._series.append(sum(self.cost_history) / len(self.cost_history))

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Drop what is not written."""
        self._series.trim()

    def on_train_end(self, callback_data: Any, model: Any) -> None:
        """Drop what is not written."""
        self._series.trim()


class TrainMulticostCallback(TrainCostCallback):
    """Keeps each of the costs of a Multicost as "multicost/train", (batches, costs), without weights."""

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Make the dataset.  TypeError: the cost is one alone."""
        costs = getattr(model.cost, "costs", None)
        if costs is None:
            wrong = f"the cost, {type(model.cost).__name__}, is one alone"
            raise TypeError(four_parts(f"{self.classnm} of a model", wrong, "", "leave multicost out"))
        self.cost_history.clear()
        self._series = Series(callback_data, "multicost/train", (len(costs),))

    def on_minibatch_end(self, callback_data: Any, model: Any, epoch: int, minibatch: int) -> None:
        """Write the costs."""
        self.cost_history.append(np.array([number(each.cost) for each in model.cost.costs]))
        self._series.append(np.mean(self.cost_history, axis=0))


class LossCallback(Callback):
    """Keeps the mean cost of a dataset, which is not trained on, as "cost/loss".

    eval_set: data as `Model.eval` takes it.
    """

    def __init__(self, eval_set: Any, epoch_freq: int = 1) -> None:
        super().__init__(epoch_freq)
        self.eval_set = eval_set

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Make the dataset."""
        of_epochs(callback_data, "cost/loss", epochs, self.epoch_freq)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Compute and write; ValueError: eval_set has no batch."""
        size, total, done = self._present.bsz, 0.0, 0
        self.eval_set.reset()
        for x, t in self.eval_set:
            count = min(size, self.eval_set.ndata - done)
            if count <= 0:
                break
            model.cost.get_cost(model.fprop(x, inference=True), t)
            total += _mean(model.cost, size, count) * count
            done += count
        if not done:
            asked = f"{self.classnm} {self.name}"
            raise ValueError(four_parts(asked, "eval_set has no batch", "", "give one with examples"))
        callback_data["cost/loss"][epoch // self.epoch_freq] = total / done


class MetricCallback(Callback):
    """Keeps the numbers of a metric, each as "metrics/NAME", of a dataset.

    eval_set: data as `Model.eval` takes it.  metric: such as Misclassification().
    """

    def __init__(self, eval_set: Any, metric: Any, epoch_freq: int = 1) -> None:
        super().__init__(epoch_freq)
        self.eval_set = eval_set
        self.metric = metric

    @property
    def _keys(self) -> list[str]:
        names = getattr(self.metric, "metric_names", None) or (type(self.metric).__name__,)
        return [f"metrics/{each}" for each in names]

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Make the datasets."""
        for key in self._keys:
            of_epochs(callback_data, key, epochs, self.epoch_freq)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Compute and write.  ValueError: the metric gives another count of numbers than it has names."""
        values = np.ravel(model.eval(self.eval_set, self.metric))
        keys = self._keys
        if len(values) != len(keys):
            asked = f"{self.classnm} of {type(self.metric).__name__}"
            wrong = f"it gives {len(values)} numbers and has {len(keys)} metric_names"
            raise ValueError(four_parts(asked, wrong, "", "give the metric a name for each number"))
        for key, value in zip(keys, values, strict=True):
            callback_data[key][epoch // self.epoch_freq] = value


def _mean(cost: Any, size: int, count: int) -> float:
    """The mean cost of the first examples of the last batch; steps of a sequence stand side by side in columns."""
    if hasattr(cost, "costs"):
        pairs = zip(cost.weights, cost.costs, strict=True)
        return float(sum(weight * _mean(each, size, count) for weight, each in pairs))
    if count == size:
        return number(cost.cost)
    return float(cost.outputs.get().reshape(-1, size)[:, :count].mean(dtype=np.float64))


def number(value: Any) -> float:
    """A cost, whether it is a number, an array or a tensor with one element."""
    return float(np.ravel(value.get() if hasattr(value, "get") else value)[0])
