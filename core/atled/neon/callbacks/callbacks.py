"""Callbacks, under neon's name of the module."""

from __future__ import annotations

from atled.neon.callbacks.base import Callback
from atled.neon.callbacks.costs import LossCallback, MetricCallback, TrainCostCallback, TrainMulticostCallback
from atled.neon.callbacks.observing import HistCallback, RunTimerCallback
from atled.neon.callbacks.several import Callbacks
from atled.neon.callbacks.states import EarlyStopCallback, SaveBestStateCallback, SerializeModelCallback
from atled.neon.callbacks.telling import ProgressBarCallback, TrainLoggerCallback

__all__ = [
    "Callback",
    "Callbacks",
    "EarlyStopCallback",
    "HistCallback",
    "LossCallback",
    "MetricCallback",
    "ProgressBarCallback",
    "RunTimerCallback",
    "SaveBestStateCallback",
    "SerializeModelCallback",
    "TrainCostCallback",
    "TrainLoggerCallback",
    "TrainMulticostCallback",
]
