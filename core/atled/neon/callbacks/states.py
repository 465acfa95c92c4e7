"""Callbacks that save a model, or end its training."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable
from typing import Any

from atled.errors import four_parts
from atled.neon.callbacks.base import Callback
from atled.neon.callbacks.records import of_epoch
from atled.neon.message_log import logger
from atled.neon.util.persist import ensure_dirs_exist


class SerializeModelCallback(Callback):
    """Saves the model, with the states of the optimizer, in every epoch_freq-th epoch.

    save_path: of the file; its folders are made.
    history: how many files are kept. From 2 up the name of each has the number of its epoch, from 0, before the suffix.
    """

    def __init__(self, save_path: str | os.PathLike[str], epoch_freq: int = 1, history: int = 1) -> None:
        super().__init__(epoch_freq)
        self.save_path = os.fspath(save_path)
        self.history = self._checked("history", history)
        self.checkpoint_files: collections.deque[str] = collections.deque()
        ensure_dirs_exist(self.save_path)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Save, then remove the file that is one too many."""
        if self.history == 1:
            model.save_params(self.save_path)
            return
        root, suffix = os.path.splitext(self.save_path)
        path = f"{root}_{epoch}{suffix}"
        model.save_params(path)
        self.checkpoint_files.append(path)
        while len(self.checkpoint_files) > self.history:
            oldest = self.checkpoint_files.popleft()
            if os.path.exists(oldest):
                os.remove(oldest)


class SaveBestStateCallback(Callback):
    """Saves the model whenever "cost/loss" is lower than ever before.

    path: of the file; its folders are made.

    best_cost: the lowest loss; None before the first.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.best_path = os.fspath(path)
        self.best_cost: float | None = None
        ensure_dirs_exist(self.best_path)

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Save, if there is a loss of this epoch.  ValueError: no LossCallback runs before."""
        loss = _loss(self, callback_data, epoch)
        if loss is not None and (self.best_cost is None or loss < self.best_cost):
            model.save_params(self.best_path)
            self.best_cost = loss


class EarlyStopCallback(Callback):
    """Ends the training when a function says so.

    stop_func: `stop_func(state, loss)` of what it gave last, None at first, and "cost/loss"; gives (state, whether to
        end). Called in epochs that have a loss.
    """

    def __init__(self, stop_func: Callable[[Any, float], tuple[Any, bool]]) -> None:
        super().__init__()
        self.stop_func = stop_func
        self.stop_state: Any = None

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Ask, and set `model.finished`.  ValueError: no LossCallback runs before."""
        loss = _loss(self, callback_data, epoch)
        if loss is None:
            return
        self.stop_state, is_over = self.stop_func(self.stop_state, loss)
        if is_over:
            model.finished = True
            logger.warning("training ends with epoch %d, by %s", epoch, self.name)


def _loss(callback: Callback, callback_data: Any, epoch: int) -> float | None:
    """The loss of an epoch, None where none was computed."""
    if "cost/loss" not in callback_data:
        remedy = "give Callbacks an eval_set and an eval_freq, or add a LossCallback"
        asked = f"{callback.classnm} {callback.name}"
        raise ValueError(four_parts(asked, "no callback computes a loss", "", remedy))
    return of_epoch(callback_data, "cost/loss", epoch)
