"""Pooling of regions of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer


class RoiPooling(Layer):
    """The maximum over each cell of a grid on boxes in images, as `be.roipooling_fprop` has it.

    HW: height and width of the grid.  bprop_enabled: whether errors go back to the images.
    spatial_scale: what the corners of boxes are multiplied by.

    It takes a list: images (C, H, W), and boxes (5, count): image, x and y of a corner and of the opposite one.
    It gives (C * HW, count per image of the batch): a column for each box.
    """

    owns_delta = True
    # Places of maxima may be wrong, so that the call computes into new memory, as large as all of what deltas are in.
    has_own_deltas = True

    def __init__(
        self, HW: Any = (7, 7), bprop_enabled: bool = True, spatial_scale: float = 0.0625, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.HW = tuple(HW)
        self.bprop_enabled = bprop_enabled
        self.spatial_scale = spatial_scale
        self.rois: Any = None
        self.rois_shape: Any = None
        self.argmax: Any = None
        self._scratch: Any = None

    def configure(self, in_obj: Any) -> RoiPooling:
        """Take a list of images and boxes: layers, sizes or tensors, see Layer.

        in_shape: of the images.  rois_shape: (5, boxes per image of the batch).
        TypeError: no such list.  ValueError: other sizes.
        """
        if not isinstance(in_obj, list | tuple) or len(in_obj) != 2:
            wrong, remedy = "it takes images and boxes", "give a list of two, such as [layer, (5, 64)]"
            raise TypeError(four_parts(f"{self._told}.configure", wrong, "", remedy))
        super().configure(in_obj[1])
        boxes, self.prev_layer = self.in_shape, None
        super().configure(in_obj[0])
        if not isinstance(self.in_shape, tuple) or len(self.in_shape) != 3 or len(self.HW) != 2:
            wrong, remedy = (
                f"images of sizes {self.in_shape}, a grid of {self.HW}",
                "give (C, H, W), and HW=(height, width)",
            )
            raise ValueError(four_parts(f"{self._told}.configure", wrong, "", remedy))
        if not isinstance(boxes, tuple) or len(boxes) != 2 or boxes[0] != 5 or boxes[1] < 1:
            remedy = "give (5, boxes per image of the batch)"
            raise ValueError(four_parts(f"{self._told}.configure", f"boxes of sizes {boxes}", "", remedy))
        self.rois_shape = boxes
        self.out_shape = self.in_shape[0] * self.HW[0] * self.HW[1], boxes[1]
        return self

    def allocate(self, shared_outputs: Tensor | None = None) -> None:
        """See Layer."""
        super().allocate(shared_outputs)
        if self.argmax is None:
            self.argmax = self._present.iobuf(self.out_shape, dtype=np.int32)

    def fprop(self, inputs: Any, inference: bool = False) -> Tensor:
        """The maxima.

        inputs: a list of images (C * H * W, batch) and boxes (5, count), float.  inference: no effect.
        RuntimeError: there is no memory yet.  TypeError: no such list.  ValueError: another shape.
        IndexError: a box of an image that is not there.
        """
        self._check_allocated("fprop")
        if not isinstance(inputs, list | tuple) or len(inputs) != 2:
            remedy = "give a list of two tensors"
            raise TypeError(four_parts(f"{self._told}.fprop", "it takes images and boxes", "", remedy))
        images, boxes = inputs
        self._check_rows("fprop", "images", images)
        self._check_size("fprop", "boxes", boxes, (5, self.outputs.shape[1]))
        self.inputs, self.rois = images, boxes
        self._present.roipooling_fprop(images, self._rows, self.outputs, self.argmax, *self._sizes)
        return self.outputs

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * gradient + beta * deltas` of the images, where deltas are asked for; boxes have none.

        error: as the outputs. Raises as `fprop`.
        """
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is None or not self.bprop_enabled:
            return None
        target = self.deltas
        if alpha != 1 or beta != 0:
            if self._scratch is None:
                self._scratch = self._present.empty_like(self.deltas)
            target = self._scratch
        self._present.roipooling_bprop(error, self._rows, target, self.argmax, *self._sizes)
        if target is not self.deltas:
            self._present.bprop_skipnode(target, self.deltas, alpha, beta)
        return self.deltas

    @property
    def _rows(self) -> Tensor:
        """The boxes, one in a row."""
        view: Tensor = self._seen("boxes", self.rois, lambda boxes: boxes.T)
        return view

    @property
    def _sizes(self) -> tuple[Any, ...]:
        """What the backend asks for beside tensors."""
        return (self.outputs.shape[1], *self.in_shape, *self.HW, self.spatial_scale)
