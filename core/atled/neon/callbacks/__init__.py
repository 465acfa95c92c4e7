"""Callbacks: what looks on while a model is trained."""

from __future__ import annotations

from atled.neon.callbacks.callbacks import (
    Callback,
    Callbacks,
    EarlyStopCallback,
    HistCallback,
    LossCallback,
    MetricCallback,
    ProgressBarCallback,
    RunTimerCallback,
    SaveBestStateCallback,
    SerializeModelCallback,
    TrainCostCallback,
    TrainLoggerCallback,
    TrainMulticostCallback,
)

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
