"""Pictures of the demo, as PNG: the learning curve, and held-out digits with their predictions."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from atled.demo.digits import SIDE, Digits
from atled.demo.training import Epoch

_COLUMNS = 10
_ROWS = 6
_PITCH = (12, 10)  # pixels from digit to digit, down and across
_BLUE = "#2a5db0"
_RED = "#c0392b"
_DOTS_PER_INCH = 120


def learning_curve(epochs: list[Epoch]) -> bytes:
    """Loss and held-out accuracy per epoch."""
    figure = _figure(9, 3.6)
    numbers = range(1, len(epochs) + 1)
    curves = (
        ("training loss (mean softmax cross entropy)", [epoch.loss for epoch in epochs], _RED),
        ("accuracy on held-out images, %", [100 * epoch.accuracy for epoch in epochs], _BLUE),
    )
    for axes, (title, values, color) in zip(figure.subplots(1, 2), curves, strict=True):
        axes.plot(numbers, values, color=color, marker="o", markersize=4)
        axes.annotate(f"{values[-1]:.3g}", (numbers[-1], values[-1]), (0, 7), textcoords="offset points", ha="center")
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.06, y=0.12)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def predictions_grid(digits: Digits, predictions: np.ndarray) -> bytes:
    """Held-out digits with their predictions: the wrong ones first, framed in red, then others in order.

    predictions: (N,) int, one per held-out image.
    """
    from matplotlib.patches import Rectangle

    labels = digits.test_labels[:, 0]
    is_wrong = predictions != labels
    # A stable sort keeps the order among the wrong and among the right ones.
    shown = np.argsort(~is_wrong, kind="stable")[: _ROWS * _COLUMNS]
    figure = _figure(9, 7)
    # One pair of axes for all, in pixels of the digits: sixty pairs take a second to draw.
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(f"{len(shown)} of {len(labels)} held-out digits, wrong ones first (wrong in all: {is_wrong.sum()})")
    for place, number in enumerate(shown):
        top, left = _PITCH[0] * (place // _COLUMNS), _PITCH[1] * (place % _COLUMNS)
        extent = (left, left + SIDE, top + SIDE, top)
        axes.imshow(digits.test_images[number, 0], cmap="gray_r", vmin=0, vmax=1, extent=extent)
        text, color, width = f"{predictions[number]}", "black", 0.6
        if is_wrong[number]:
            text, color, width = f"{predictions[number]}, is {labels[number]}", _RED, 2.0
        axes.add_patch(Rectangle((left, top), SIDE, SIDE, fill=False, edgecolor=color, linewidth=width))
        axes.text(left + SIDE / 2, top - 0.5, text, color=color, ha="center", va="bottom", fontsize=11)
    axes.set_xlim(-1, _PITCH[1] * _COLUMNS - 1)
    axes.set_ylim(_PITCH[0] * _ROWS - 2, -3)
    return _png(figure)


# `Any`: the type is that of an optional library.
def _figure(width: float, height: float) -> Any:
    """A figure of that size in inches."""
    # Lazy, for the time it takes; and without pyplot, whose state belongs to the program.
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained")


def _png(figure: Any) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return buffer.getvalue()
