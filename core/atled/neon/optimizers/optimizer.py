"""Optimizers and schedules under the name of neon's module; by family they are in the modules beside it."""

from __future__ import annotations

from atled.neon.optimizers.adam import Adam, ShiftAdaMax
from atled.neon.optimizers.adaptive import Adadelta, Adagrad, RMSProp
from atled.neon.optimizers.base import Optimizer, get_param_list
from atled.neon.optimizers.momentum import GradientDescentMomentum
from atled.neon.optimizers.multi import MultiOptimizer
from atled.neon.optimizers.schedules import (
    ExpSchedule,
    PolySchedule,
    PowerSchedule,
    Schedule,
    ShiftSchedule,
    StepSchedule,
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
