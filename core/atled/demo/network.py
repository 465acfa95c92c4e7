"""Network of the demo: two convolutions, two affine layers."""

from __future__ import annotations

import atled.functions as F
import atled.parametric_functions as PF
from atled.variable import Variable

CLASSES = 10


def digit_scores(images: Variable, *, training: bool) -> Variable:
    """Scores (logits) of ten digits.

    Graphs made in the same parameter scope share their parameters.

    Args:
        images: (N, 1, 8, 8) float.
        training: normalize by the statistics of the batch, and update the running ones; else by the running ones.

    Returns:
        (N, 10) float.
    """
    h = PF.convolution(images, 16, (3, 3), stride=(2, 2), pad=(1, 1), name="conv1")
    h = F.tanh(PF.batch_normalization(h, name="bn1", batch_stat=training))
    h = PF.convolution(h, 32, (3, 3), pad=(1, 1), name="conv2")
    h = F.tanh(PF.batch_normalization(h, name="bn2", batch_stat=training))
    h = F.average_pooling(h, (2, 2))
    h = F.tanh(PF.affine(h, 64, name="hidden"))
    return PF.affine(h, CLASSES, name="scores")


def mean_loss(images: Variable, labels: Variable) -> Variable:
    """Mean softmax cross entropy over a batch, in training; images: (N, 1, 8, 8), labels: (N, 1)."""
    return F.mean(F.softmax_cross_entropy(digit_scores(images, training=True), labels))
