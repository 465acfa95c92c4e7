"""Costs and metrics under the name of neon's module; by family they are in the modules beside it."""

from __future__ import annotations

from typing import Any, NoReturn

from atled.errors import four_parts
from atled.neon.transforms.adversarial import GANCost
from atled.neon.transforms.losses import (
    Cost,
    CrossEntropyBinary,
    CrossEntropyMulti,
    MeanSquared,
    SmoothL1Loss,
    SquareHingeLoss,
    SumSquared,
)
from atled.neon.transforms.metrics import (
    Accuracy,
    LogLoss,
    Metric,
    Misclassification,
    MultiMetric,
    PrecisionRecall,
    TopKMisclassification,
)

__all__ = [
    "Accuracy",
    "Cost",
    "CrossEntropyBinary",
    "CrossEntropyMulti",
    "GANCost",
    "LogLoss",
    "MeanSquared",
    "Metric",
    "Misclassification",
    "MultiMetric",
    "PrecisionRecall",
    "SmoothL1Loss",
    "SquareHingeLoss",
    "SumSquared",
    "TopKMisclassification",
]

_LEFT_OUT = frozenset(("BLEUScore", "ObjectDetection"))


def left_out(module: str, name: str) -> NoReturn:
    """Refuse a name that a module does not have.

    ImportError: one that neon has; of an AttributeError `from ... import` would not show the message.
    AttributeError: any other.
    """
    if name not in _LEFT_OUT:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    remedy = "define a subclass of Metric that computes it of y and t, or compute it of what Model.get_outputs gives"
    raise ImportError(four_parts(f"{module}.{name}", "this metric of neon's is not in atled", "", remedy))


def __getattr__(name: str) -> Any:
    left_out(__name__, name)
