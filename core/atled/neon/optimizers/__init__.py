"""Optimizers: how parameters follow from gradients, and schedules of learning rates."""

from __future__ import annotations

from atled.neon.optimizers.optimizer import (
    Adadelta,
    Adagrad,
    Adam,
    ExpSchedule,
    GradientDescentMomentum,
    MultiOptimizer,
    Optimizer,
    PolySchedule,
    PowerSchedule,
    RMSProp,
    Schedule,
    ShiftAdaMax,
    ShiftSchedule,
    StepSchedule,
    get_param_list,
)

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "ExpSchedule",
    "GradientDescentMomentum",
    "MultiOptimizer",
    "Optimizer",
    "PolySchedule",
    "PowerSchedule",
    "RMSProp",
    "Schedule",
    "ShiftAdaMax",
    "ShiftSchedule",
    "StepSchedule",
    "get_param_list",
]
