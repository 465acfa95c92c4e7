"""Pooling of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer
from atled.neon.layers.windows import geometry, image_sizes, output_shape, window_sizes


class Pooling(Layer):
    """The maximum, the mean, or the root of the sum of squares of each window.

    fshape: R = S, (R, S), (T, R, S), a dictionary with the names J, T, R, S, or "all" for the whole image.
    op: "max", "avg" or "l2".
    strides: a number for height and width, a dictionary with names such as str_h; None for the size of a window.
    padding: a number for height and width, a dictionary with names such as pad_w; None for none.

    It takes (C, H, W) or (C, D, H, W), and gives as many sizes, or one less where the depth is 1.
    nglayer: the backend's parameter object, once it is configured.
    argmax: which element of its window is the maximum; None for other poolings.
    """

    owns_delta = True
    # Places of maxima may be wrong, so that the call computes into new memory, as large as all of what deltas are in.
    has_own_deltas = True

    def __init__(
        self,
        fshape: Any,
        op: str = "max",
        strides: Any = None,
        padding: Any = None,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(name, parallelism)
        self.fshape = fshape
        self.op = op
        self.strides = strides
        self.padding = padding
        self.nglayer: Any = None
        self.argmax: Any = None
        self.poolparams: dict[str, Any] = {
            "op": op,
            **geometry(self._told, "strides", "str", strides, "cdhw"),
            **geometry(self._told, "padding", "pad", padding, "cdhw"),
        }

    def configure(self, in_obj: Any) -> Pooling:
        """Take sizes of images; see Layer.  ValueError: they are no images, or windows do not fit."""
        super().configure(in_obj)
        sizes = image_sizes(self._told, self.in_shape)
        windows = window_sizes(self._told, self.fshape, [sizes[axis] for axis in "DHW"])
        self.poolparams.update(sizes, **windows)
        self.nglayer = self._parameter_object(self._present.pool_layer, **self.poolparams)
        self.out_shape = output_shape(self.nglayer.dimO[:4])
        return self

    def allocate(self, shared_outputs: Tensor | None = None) -> None:
        """See Layer."""
        super().allocate(shared_outputs)
        if self.op == "max" and self.argmax is None:
            places = np.min_scalar_type(math.prod(self.nglayer.JTRS) - 1)
            self.argmax = self._present.empty(self.outputs.shape, dtype=places)

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = pooling + beta * outputs`.

        inputs: (C * D * H * W, batch) float.  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.nglayer.dimI2)
        self.inputs = inputs
        self._present.fprop_pool(self.nglayer, inputs, self.outputs, self.argmax, beta)
        return self.outputs

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * gradient + beta * deltas`, where deltas are asked for.

        error: (K * M * P * Q, batch) float. Raises as `fprop`.
        """
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is None:
            return None
        if self.op == "l2":
            # Its gradient depends on the images, that of others on their places alone.
            self._present.bprop_pool(self.nglayer, self.inputs, E=error, grad_I=self.deltas, alpha=alpha, beta=beta)
        else:
            self._present.bprop_pool(self.nglayer, error, self.deltas, self.argmax, alpha, beta)
        return self.deltas
