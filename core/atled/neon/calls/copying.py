"""Calls that copy, with their axes in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keyed import Description
from atled.neon.calls.checks import check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class CopyCalls(DescribedCalls):
    """Copies tensors, and arrays of the host in turns."""

    if TYPE_CHECKING:
        context: Context

        def empty(self, shape: Any, dtype: Any = None) -> Tensor:
            """See AllocationCalls."""

    @layer_call
    def copy_transpose(self, a: Tensor, out: Tensor, axes: Sequence[int] | None = None, repeat: int = 1) -> Described:
        """`out = numpy.transpose(a, axes)`, cast to its dtype; returns out, which may be a view of the same memory.

        axes: axis i of out is axis `axes[i]` of a; None turns the order of all round.  repeat: no effect.
        ValueError: axes that are not each axis once, an out of another shape, a tensor of another backend.
        """
        check_tensors(self, "copy_transpose", a=a, out=out)
        view = a.view.transpose(axes)
        check_shapes("copy_transpose", {"out": view.shape}, a=a, out=out)
        d = Description(self.context)
        d.assign(out.view, d.leaf(view))
        return Described(d, out)

    def consume(self, buf_index: int, hostlist: Sequence[np.ndarray], devlist: list[Tensor | None]) -> None:
        """Have one of two tensors hold the transposed array beside it; where there is None, a tensor is made.

        buf_index: 0 or 1.  hostlist: two arrays of two axes.  devlist: two tensors.
        ValueError: another index, or sizes that do not fit.
        """
        if buf_index not in (0, 1):
            asked = f"consume(buf_index={buf_index!r})"
            raise ValueError(four_parts(asked, "there are two buffers", "", "use 0 or 1"))
        values = hostlist[buf_index].T
        target = devlist[buf_index]
        if target is None:
            target = devlist[buf_index] = self.empty(values.shape, values.dtype)
        target.set(values)
