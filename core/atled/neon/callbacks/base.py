"""Callback: what looks on while a model is trained."""

from __future__ import annotations

import operator
from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.nervana_object import NervanaObject


class Callback(NervanaObject):
    """Methods that Callbacks calls while a model is trained; each does nothing unless a subclass has its own.

    epoch_freq: the methods of epochs are called in every epoch_freq-th epoch.  minibatch_freq: the same for batches.

    callback_data, in the methods: the h5py.File of Callbacks.  ValueError: a frequency below 1, or no whole number.
    """

    def __init__(self, epoch_freq: int = 1, minibatch_freq: int = 1) -> None:
        super().__init__()
        self.epoch_freq = self._checked("epoch_freq", epoch_freq)
        self.minibatch_freq = self._checked("minibatch_freq", minibatch_freq)

    def on_train_begin(self, callback_data: Any, model: Any, epochs: int) -> None:
        """Before all; epochs: up to which the model is trained."""

    def on_train_end(self, callback_data: Any, model: Any) -> None:
        """After all, and after Ctrl-C."""

    def on_epoch_begin(self, callback_data: Any, model: Any, epoch: int) -> None:
        """Before the first batch of an epoch; epoch: from 0."""

    def on_epoch_end(self, callback_data: Any, model: Any, epoch: int) -> None:
        """After the last batch of an epoch."""

    def on_minibatch_begin(self, callback_data: Any, model: Any, epoch: int, minibatch: int) -> None:
        """Before a batch; minibatch: from 0 in each epoch."""

    def on_minibatch_end(self, callback_data: Any, model: Any, epoch: int, minibatch: int) -> None:
        """After a batch, when the parameters are updated."""

    def should_fire(self, callback_data: Any, model: Any, time: int, freq: int) -> bool:
        """Whether an epoch or a batch, counted from 0, is one of every freq-th."""
        return (time + 1) % freq == 0

    def _checked(self, name: str, given: Any) -> int:
        """A frequency that may be used."""
        try:
            frequency = operator.index(given)
        except TypeError:
            frequency = 0
        if frequency < 1:
            asked = f"{self.classnm} with {name}={shortened(given)}"
            raise ValueError(four_parts(asked, "it is no count from 1 up", "", "give a whole number, such as 1"))
        return frequency
