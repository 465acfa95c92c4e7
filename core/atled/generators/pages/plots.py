"""Pictures of activations: what they give, and their gradient."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from atled.ops.spec import FUNCTIONS
from atled.variable import Variable

_POINTS = np.linspace(-3, 3, 601).reshape(-1, 1)
_SLOPE = 0.25  # of prelu
_INK, _GRADIENT = "#1f4e79", "#c55a11"
# Those of other categories whose gradient is not the derivative: there a picture says more than the formula.
_OTHERS = ("ceil", "floor", "round", "sign")


def plotted() -> Iterator[str]:
    """The functions that have a picture."""
    for name, spec in sorted(FUNCTIONS.items()):
        curve = len(spec.user_inputs) == 1 and spec.category in ("activation", "quantized") and name != "softmax"
        if curve or name == "prelu" or name in _OTHERS:
            yield name


def plot(name: str) -> bytes:
    """The picture of a function as PNG."""
    # Lazily: matplotlib is needed for nothing else here, and takes long to import.
    from matplotlib.figure import Figure

    x, y, gradient = _curves(name)
    figure = Figure(figsize=(4.2, 2.6), dpi=80, layout="tight")
    axes = figure.add_subplot()
    axes.axhline(0, color="0.8", linewidth=0.8)
    axes.axvline(0, color="0.8", linewidth=0.8)
    for position in range(y.shape[1]):
        label = "y" if y.shape[1] == 1 else f"y[{position}]"
        axes.plot(x, y[:, position], color=_INK, linestyle="-" if not position else ":", label=label)
    axes.plot(x, gradient, color=_GRADIENT, linestyle="--", label="gradient")
    axes.set_xlabel("x")
    axes.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    buffer = io.BytesIO()
    # Without metadata, which would hold the version of matplotlib.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _curves(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arguments, values with a column per output map, and the gradient of their sum."""
    from atled.calling.apply import apply  # here: it brings the engine

    spec = FUNCTIONS[name]
    x = Variable(_POINTS.shape, need_grad=True)
    x.d = _POINTS
    inputs = [x]
    if name == "prelu":
        slope = Variable(())
        slope.d = _SLOPE
        inputs.append(slope)
    y = apply(spec, inputs, {})
    x.g = 0
    y.forward()
    y.backward()
    return _POINTS[:, 0], y.d.copy(), x.g[:, 0].copy()
