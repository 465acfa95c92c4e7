"""Callbacks that keep what else is known of a training: its time, histograms of its parameters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from atled.neon.callbacks.base import Callback
from atled.neon.trees.tensor import Tensor


class RunTimerCallback(Callback):
    """Keeps when the training began and ended, as "time/train/start_time" and "end_time", in seconds since 1970."""

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Write the beginning."""
        group = callback_data.create_group("time/train")
        for name in ("start_time", "end_time"):
            group.create_dataset(name, (1,), np.float64).attrs["units"] = "seconds"
        group["start_time"][0] = time.time()

    def on_train_end(self, callback_data: Any, model: Any) -> None:
        """Write the end."""
        callback_data["time/train/end_time"][0] = time.time()


class HistCallback(Callback):
    """Keeps histograms of parameters, as Tensor.hist counts them: each as "hist/LAYER_ATTRIBUTE", (bins, times).

    plot_per_mini: whether in each batch rather than in each epoch.
    filter_key: names of attributes of layers, such as "W" and "dW".
    """

    def __init__(self, plot_per_mini: bool = False, filter_key: Iterable[str] | None = None) -> None:
        super().__init__()
        self.plot_per_mini = plot_per_mini
        self.filter_key = ["W"] if filter_key is None else list(filter_key)

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Write what the bins are."""
        group = callback_data.create_group("hist")
        group.attrs["bins"] = self._present.hist_bins
        group.attrs["offset"] = self._present.hist_offset
        group.attrs["time_markers"] = "minibatch" if self.plot_per_mini else "epoch"

    def on_minibatch_end(self, callback_data: Any, model: Any, epoch: int, minibatch: int) -> None:
        """Count, if each batch counts."""
        if self.plot_per_mini:
            self._count(callback_data["hist"], model)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Count, unless each batch counts."""
        if not self.plot_per_mini:
            self._count(callback_data["hist"], model)

    def _count(self, group: Any, model: Any) -> None:
        for name, tensor in self._tensors(model):
            tensor.hist(name)
        counts, rows = self._present.dump_hist_data()
        values = counts.get()
        for name, row in rows.items():
            dataset = group.get(name)
            if dataset is None:
                shape, most = (values.shape[1], 0), (values.shape[1], None)
                dataset = group.create_dataset(name, shape, np.int64, maxshape=most)
            dataset.resize(dataset.shape[1] + 1, axis=1)
            dataset[:, -1] = values[row]

    def _tensors(self, model: Any) -> Iterator[tuple[str, Tensor]]:
        for layer in model.layers_to_optimize:
            for key in self.filter_key:
                found = getattr(layer, key, None)
                if isinstance(found, Tensor):
                    yield f"{layer.name}_{key}", found
                elif isinstance(found, list | tuple):
                    yield from ((f"{layer.name}_{key}_{number}", each) for number, each in enumerate(found))
