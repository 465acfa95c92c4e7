"""Transforms: the activations of layers, costs, metrics."""

from __future__ import annotations

from typing import Any

from atled.neon.transforms.activation import (
    Explin,
    Identity,
    Logistic,
    Normalizer,
    PixelwiseSoftmax,
    Rectlin,
    Rectlinclip,
    Sign,
    Softmax,
    Tanh,
)
from atled.neon.transforms.cost import (
    Accuracy,
    Cost,
    CrossEntropyBinary,
    CrossEntropyMulti,
    GANCost,
    LogLoss,
    MeanSquared,
    Metric,
    Misclassification,
    MultiMetric,
    PrecisionRecall,
    SmoothL1Loss,
    SquareHingeLoss,
    SumSquared,
    TopKMisclassification,
    left_out,
)
from atled.neon.transforms.transform import Transform

__all__ = [
    "Accuracy",
    "Cost",
    "CrossEntropyBinary",
    "CrossEntropyMulti",
    "Explin",
    "GANCost",
    "Identity",
    "LogLoss",
    "Logistic",
    "MeanSquared",
    "Metric",
    "Misclassification",
    "MultiMetric",
    "Normalizer",
    "PixelwiseSoftmax",
    "PrecisionRecall",
    "Rectlin",
    "Rectlinclip",
    "Sign",
    "SmoothL1Loss",
    "Softmax",
    "SquareHingeLoss",
    "SumSquared",
    "Tanh",
    "TopKMisclassification",
    "Transform",
]


def __getattr__(name: str) -> Any:
    left_out(__name__, name)
