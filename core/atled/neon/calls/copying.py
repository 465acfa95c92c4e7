"""Calls that copy, with their axes in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.neon.trees.tensor import Tensor


class CopyCalls:
    """Copies tensors, and arrays of the host in turns."""

    if TYPE_CHECKING:

        def empty(self, shape: Any, dtype: Any = None) -> Tensor:
            """See AllocationCalls."""

    def copy_transpose(self, a: Tensor, out: Tensor, axes: Sequence[int] | None = None, repeat: int = 1) -> Tensor:
        """Have `out` hold `numpy.transpose(a, axes)`, and give it.

        axes: axis i of `out` is axis `axes[i]` of a; None turns the order of all round.  repeat: no effect.
        ValueError: axes that are not each axis once, or an `out` of another shape.
        """
        view = a.view.transpose(axes)
        if view.shape != out.shape:
            raise ValueError(
                four_parts(
                    f"copy_transpose({a!r}, {out!r}, axes={axes})",
                    f"the result has shape {view.shape}",
                    "",
                    "give an out of that shape",
                )
            )
        return out.set(Tensor(a.backend, view, base=a))

    def consume(self, buf_index: int, hostlist: Sequence[np.ndarray], devlist: list[Tensor | None]) -> None:
        """Have one of two tensors hold the transposed array beside it; where there is None, a tensor is made.

        buf_index: 0 or 1.  hostlist: two arrays of two axes.  devlist: two tensors.
        ValueError: another index, or sizes that do not fit.
        """
        if buf_index not in (0, 1):
            raise ValueError(four_parts(f"consume(buf_index={buf_index!r})", "there are two buffers", "", "use 0 or 1"))
        values = hostlist[buf_index].T
        target = devlist[buf_index]
        if target is None:
            target = devlist[buf_index] = self.empty(values.shape, values.dtype)
        target.set(values)
