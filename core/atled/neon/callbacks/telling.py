"""Callbacks that tell people how a training goes."""

from __future__ import annotations

import atexit
import sys
import time
from typing import Any

from atled.neon.callbacks.base import Callback
from atled.neon.callbacks.costs import number
from atled.neon.callbacks.records import of_epoch
from atled.neon.message_log import logger


class TrainLoggerCallback(Callback):
    """Tells `logger`, at level INFO, the numbers of each epoch."""

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Tell what is trained."""
        logger.info("Model:\n%s", model)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Tell the numbers."""
        logger.info("Epoch %d complete.  %s", epoch, _figures(callback_data, epoch))


class ProgressBarCallback(Callback):
    """A bar over the batches of each epoch, on the error stream: a line per epoch where it is no terminal.

    Without rich, too, it is a line per epoch.

    update_thresh_s: seconds between two updates of the bar, at least.
    """

    def __init__(self, epoch_freq: int = 1, minibatch_freq: int = 1, update_thresh_s: float = 0.1) -> None:
        super().__init__(epoch_freq, minibatch_freq)
        self.update_thresh_s = update_thresh_s
        self._epochs = 0
        self._batches: int | None = None
        self._bar: Any = None
        self._task: Any = None
        self._at = self._began = 0.0

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Note how much there is to do, as far as it is known."""
        self._epochs = epochs
        total = callback_data["config"].attrs["total_minibatches"]
        self._batches = int(total) // max(epochs, 1) or None

    def on_epoch_begin(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Begin a bar."""
        self._began = time.perf_counter()
        self._bar = _new_bar()
        if self._bar is not None:
            self._task = self._bar.add_task(self._title(epoch), total=self._batches, figures="")
            atexit.register(self._bar.stop)  # of a training that fails, too: a bar hides the cursor
            self._bar.start()

    def on_minibatch_end(self, callback_data: Any, model: Any, epoch: int, minibatch: int) -> None:
        """Go on, unless the bar has just gone on."""
        now = time.perf_counter()
        if self._bar is None or now - self._at < self.update_thresh_s:
            return
        self._at = now
        figures = f"train cost {number(model.cost.cost):.4f}"
        self._bar.update(self._task, completed=minibatch + 1, figures=figures, refresh=True)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """End the bar with the numbers of the epoch."""
        figures = f"{_figures(callback_data, epoch)}  [{time.perf_counter() - self._began:.2f} s]"
        if self._bar is None:
            print(f"{self._title(epoch)}  {figures}", file=sys.stderr, flush=True)
            return
        start, end = _batches_of(callback_data, epoch)
        self._batches = end - start
        self._bar.update(self._task, total=self._batches, completed=self._batches, figures=figures, refresh=True)
        self._end()

    def on_train_end(self, callback_data: Any, model: Any) -> None:
        """End a bar that Ctrl-C left."""
        self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            atexit.unregister(self._bar.stop)
            self._bar = None

    def _title(self, epoch: int) -> str:
        return f"epoch {epoch + 1:{len(str(self._epochs))}}/{self._epochs}"


def _new_bar() -> Any:
    """A bar of rich; None where the error stream is no terminal, or rich is missing."""
    if not sys.stderr.isatty():
        return None
    try:
        # Lazy: rich is an optional library.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        return None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    return Progress(*columns, console=Console(stderr=True, highlight=False), auto_refresh=False)


def _batches_of(callback_data: Any, epoch: int) -> tuple[int, int]:
    """The first batch of an epoch in datasets of all batches, and the one behind its last."""
    markers = callback_data["time_markers/minibatch"]
    return int(markers[epoch - 1]) if epoch else 0, int(markers[epoch])


def _figures(callback_data: Any, epoch: int) -> str:
    """The cost in training, the loss and the metrics of an epoch, as far as they are there."""
    found = []
    if "cost/train" in callback_data and len(callback_data["cost/train"]):
        found.append(f"train cost {callback_data['cost/train'][-1]:.4f}")
    metrics = [f"metrics/{each}" for each in callback_data.get("metrics", ())]
    for key in ("cost/loss", *metrics):
        value = of_epoch(callback_data, key, epoch)
        if value is not None:
            title = "loss" if key == "cost/loss" else key.removeprefix("metrics/")
            found.append(f"{title} {value:.4f}")
    return "  ".join(found)
