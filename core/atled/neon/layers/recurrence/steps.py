"""Views of single steps of a sequence."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.shapes import interpret_in_shape


def get_steps(x: Tensor, shape: Any) -> list[Tensor]:
    """Views (rows, batch), one for each step of x.

    x: (rows, steps * batch), step by step.  shape: (rows, steps), or rows for one step.
    ValueError: x has other rows, or columns that are not so many steps.
    """
    rows, steps = interpret_in_shape(shape)
    if x.shape[0] != rows or steps < 1 or x.shape[1] % steps:
        wrong = f"it has shape {list(x.shape)}"
        raise ValueError(
            four_parts(f"{steps} steps of {rows} rows of {x!r}", wrong, "", "give the shape of one example")
        )
    batch = x.shape[1] // steps
    return [x[:, number * batch : (number + 1) * batch] for number in range(steps)]
