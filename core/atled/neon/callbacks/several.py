"""Callbacks: the callbacks of a training, in order, and the file that they write to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from atled.errors import four_parts
from atled.neon.callbacks.base import Callback
from atled.neon.callbacks.costs import LossCallback, MetricCallback, TrainCostCallback, TrainMulticostCallback
from atled.neon.callbacks.observing import HistCallback, RunTimerCallback
from atled.neon.callbacks.records import new_records, save_records
from atled.neon.callbacks.states import EarlyStopCallback, SaveBestStateCallback, SerializeModelCallback
from atled.neon.callbacks.telling import ProgressBarCallback, TrainLoggerCallback
from atled.neon.message_log import logger
from atled.neon.nervana_object import NervanaObject


class Callbacks(NervanaObject):
    """What `Model.fit` takes as callbacks.

    Args:
        model: which is trained.
        train_set: the data it is trained on, for the count of batches; without it the bar learns it in the first epoch.
        output_file: path of an HDF5 file with what callbacks keep, written whole after each epoch and at the end, in
            the place of what is there.
        eval_freq: of every how many epochs loss and metric are computed; needs eval_set.
        progress_bar: whether there is a ProgressBarCallback.
        save_path: where the model is saved, in every serialize-th epoch, in each if that is 0.
        serialize: see save_path, which it needs.
        history: how many saved models are kept.
        model_file: path of a saved model, whose parameters the model takes at once.
        eval_set: the data for loss and metric.  metric: such as Misclassification().
        log_token: no effect; nothing is sent anywhere.
        multicost: whether each of the costs of a Multicost is kept as well.

    callbacks: in the order in which they are called.
    callback_data: the h5py.File with what they keep, in memory; empty before the training, and again with the next one.
        config (attributes total_epochs, total_minibatches: 0 where unknown), cost/train, cost/loss, metrics/NAME,
        time_markers/minibatch (batches up to the end of each epoch), time/train.

    ImportError: h5py is missing.  ValueError: eval_freq without eval_set, serialize without save_path, a count below 1.
    """

    def __init__(
        self,
        model: Any,
        train_set: Any = None,
        output_file: str | os.PathLike[str] | None = None,
        eval_freq: int | None = None,
        progress_bar: bool = True,
        save_path: str | os.PathLike[str] | None = None,
        serialize: int = 0,
        history: int = 1,
        model_file: str | os.PathLike[str] | None = None,
        eval_set: Any = None,
        metric: Any = None,
        log_token: str | None = None,
        multicost: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.train_set = train_set
        self.output_file = output_file
        self._done = 0
        self._need(not eval_freq or eval_set is not None, "eval_freq without eval_set", "pass eval_set=")
        self._need(not serialize or bool(save_path), "serialize without save_path", "pass save_path=")
        self.callbacks: list[Any] = [RunTimerCallback(), TrainCostCallback()]
        if multicost:
            self.callbacks.append(TrainMulticostCallback())
        if eval_freq:
            self.callbacks.append(LossCallback(eval_set, eval_freq))
            if metric is not None:
                self.callbacks.append(MetricCallback(eval_set, metric, eval_freq))
        self._has_loss = bool(eval_freq)
        if save_path:
            self.callbacks.append(SerializeModelCallback(save_path, serialize or 1, history))
        self.callbacks.append(TrainLoggerCallback())
        if progress_bar:
            self.callbacks.append(ProgressBarCallback())
        if log_token:
            logger.warning("log_token has no effect: nothing is sent anywhere")
        self.callback_data = new_records(self.classnm, self.name)
        if model_file:
            model.load_params(model_file)

    def add_callback(self, callback: Any, insert_pos: int | None = None) -> None:
        """Add a Callback, or what has its methods; insert_pos: its place in `callbacks`, the last where None.

        TypeError: a class, or what has no such method.
        """
        if isinstance(callback, type) or not hasattr(callback, "on_train_begin"):
            asked = f"{self.classnm}.add_callback of {getattr(callback, '__name__', type(callback).__name__)}"
            raise TypeError(four_parts(asked, "it is no callback", "", "give an object of a subclass of Callback"))
        self.callbacks.insert(len(self.callbacks) if insert_pos is None else insert_pos, callback)

    def add_save_best_state_callback(self, path: str | os.PathLike[str]) -> None:
        """Save the model at a path whenever the loss of eval_set is the lowest.  ValueError: there is no loss."""
        self._check_loss("add_save_best_state_callback")
        self.add_callback(SaveBestStateCallback(path))

    def add_early_stop_callback(self, stop_func: Callable[[Any, float], tuple[Any, bool]]) -> None:
        """End when `stop_func(state, loss)` gives (state, True); state is None at first.  ValueError: no loss."""
        self._check_loss("add_early_stop_callback")
        self.add_callback(EarlyStopCallback(stop_func))

    def add_hist_callback(self, plot_per_mini: bool = False, filter_key: Iterable[str] | None = None) -> None:
        """Keep histograms of parameters.  Arguments as of HistCallback."""
        self.add_callback(HistCallback(plot_per_mini, filter_key))

    def on_train_begin(self, epochs: int) -> None:
        """Empty callback_data, then tell all callbacks."""
        data = self.callback_data
        for key in list(data):
            del data[key]
        self._done = 0
        config = data.create_group("config")
        config.attrs["total_epochs"] = epochs
        batches = getattr(self.train_set, "nbatches", None) or getattr(self.model, "nbatches", None)
        config.attrs["total_minibatches"] = int(batches or 0) * epochs
        data.create_group("time_markers").create_dataset("minibatch", (epochs,), "int64")
        for each in self.callbacks:
            each.on_train_begin(data, self.model, epochs)

    def on_train_end(self) -> None:
        """Tell all callbacks, then write output_file, even where one of them fails."""
        try:
            for each in self.callbacks:
                each.on_train_end(self.callback_data, self.model)
        finally:
            self._save()

    def on_epoch_begin(self, epoch: int) -> None:
        """Tell the callbacks that are to know of this epoch."""
        for each in self._of_time(epoch, "epoch_freq"):
            each.on_epoch_begin(self.callback_data, self.model, epoch)

    def on_epoch_end(self, epoch: int) -> None:
        """Note the count of batches, tell the callbacks that are to know of this epoch, then write output_file."""
        self.callback_data["time_markers/minibatch"][epoch] = self._done
        for each in self._of_time(epoch, "epoch_freq"):
            each.on_epoch_end(self.callback_data, self.model, epoch)
        self._save()

    def on_minibatch_begin(self, epoch: int, minibatch: int) -> None:
        """Tell the callbacks that are to know of this batch."""
        for each in self._of_time(minibatch, "minibatch_freq"):
            each.on_minibatch_begin(self.callback_data, self.model, epoch, minibatch)

    def on_minibatch_end(self, epoch: int, minibatch: int) -> None:
        """Tell the callbacks that are to know of this batch."""
        self._done += 1
        for each in self._of_time(minibatch, "minibatch_freq"):
            each.on_minibatch_end(self.callback_data, self.model, epoch, minibatch)

    def _of_time(self, time: int, freq: str) -> list[Callback]:
        return [
            each
            for each in self.callbacks
            if each.should_fire(self.callback_data, self.model, time, getattr(each, freq))
        ]

    def _save(self) -> None:
        if self.output_file is not None:
            save_records(self.callback_data, self.output_file)

    def _check_loss(self, call: str) -> None:
        has_loss = self._has_loss or any(isinstance(each, LossCallback) for each in self.callbacks)
        self._need(has_loss, f"{call} without a loss", "pass eval_set= and eval_freq= to Callbacks")

    def _need(self, is_met: bool, wrong: str, remedy: str) -> None:
        if not is_met:
            raise ValueError(four_parts(self.classnm, wrong, "", remedy))
