"""Parameter objects of poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atled.errors import did_you_mean, four_parts, shortened
from atled.neon.calls.layer_objects import LayerObject, check_counts, checked_sizes
from atled.neon.calls.output_sizes import OutputSizes

_OPS = ("max", "avg", "l2")


class PoolLayer(LayerObject):
    """Sizes of a pooling: images (C, D, H, W, N), windows (J, T, R, S), outputs (K, M, P, Q, N).

    op: "max", "avg" or "l2".  C, K: maps of images and outputs.
    DHW, JTRS, MPQ: sizes of image, window and output.
    padding, strides: maps, depth, height, width.
    dimI, dimO: shapes as above; dimI2, dimO2: with two axes; dimF2: None; sizeI, sizeO: counts of elements.
    nOut: elements that the layer gives per image.
    overlap: in how many windows an element is at most.

    For calls of the core's ops, in whose arrays the axes before the first one along which windows lie are one:
    images, outputs: sizes.  sizes: of the images along axes of windows.  geometry: attributes.
    """

    maker = "pool_layer"

    def __init__(
        self,
        dtype: Any,
        op: str,
        N: int,
        image: Sequence[int],
        window: Sequence[int],
        output: Sequence[int],
        padding: Sequence[int],
        strides: Sequence[int],
        caffe: bool,
    ) -> None:
        """image: C, D, H, W.  output: K, M, P, Q.  caffe: whether the counts of windows are those of caffe."""
        super().__init__(dtype, N)
        self.op = op
        self.C, self.D, self.H, self.W = image
        self.J, self.T, self.R, self.S = self.JTRS = tuple(window)
        self.K, self.M, self.P, self.Q = output
        self.DHW, self.MPQ = tuple(image[1:]), tuple(output[1:])
        self.padding, self.strides = tuple(padding), tuple(strides)
        self.dimI, self.dimO = (*image, N), (*output, N)
        self.sizeI, self.sizeO = math.prod(self.dimI), math.prod(self.dimO)
        self.dimI2, self.dimO2, self.dimF2 = (self.sizeI // N, N), (self.sizeO // N, N), None
        self.nOut = self.sizeO // N
        self.overlap = math.prod(-(-k // s) for k, s in zip(window, strides, strict=True))
        apart = self._axes_apart()
        self.sizes = tuple(image[apart:])
        self.images = (math.prod(image[:apart]), *self.sizes, N)
        self.outputs = (math.prod(output[:apart]), *output[apart:], N)
        self.geometry = {
            "kernel": self.JTRS[apart:],
            "stride": self.strides[apart:],
            "pad": self.padding[apart:],
            "caffe": caffe,
            "channel_last": True,  # the batch, behind the axes of windows
        }

    def _axes_apart(self) -> int:
        """Of the axes in front those whose elements each window sees one of, and each element one window."""
        pairs = zip(self.JTRS, self.padding, self.dimI, self.dimO, strict=False)
        count = 0
        for k, p, size, windows in pairs:
            if k != 1 or p or size != windows or count == len(self.JTRS) - 1:
                break
            count += 1
        return count


class PoolingLayers(OutputSizes):
    """Makes parameter objects of poolings."""

    def pool_layer(
        self,
        dtype: Any,
        op: str,
        N: int,
        C: int,
        D: int = 1,
        H: int = 1,
        W: int = 1,
        J: int = 1,
        T: int = 1,
        R: int = 1,
        S: int = 1,
        pad_c: int = 0,
        pad_d: int = 0,
        pad_h: int = 0,
        pad_w: int = 0,
        str_c: int | None = None,
        str_d: int | None = None,
        str_h: int | None = None,
        str_w: int | None = None,
        *,
        pad_j: int | None = None,
        str_j: int | None = None,
    ) -> PoolLayer:
        """The parameter object of a pooling.

        Args:
            dtype: of its tensors.  op: "max", "avg", or "l2": the root of the sum of squares.
            N: images of a batch.  C: their maps.  D, H, W: depth, height, width.
            J, T, R, S: maps, depth, height, width of a window.
            pad_c or pad_j, pad_d, ...: places on both sides, which count in no result.
            str_c or str_j, str_d, ...: from one window to the next; None for the size of a window.

        Raises:
            TypeError, ValueError: sizes that are none, an unknown op, a window that does not fit or sees padding only.
        """
        if op not in _OPS:
            remedy = did_you_mean(str(op), _OPS, f"use one of {', '.join(_OPS)}")
            raise ValueError(four_parts(f"pool_layer(op={shortened(op)})", "there is no such pooling", "", remedy))
        (N,) = checked_sizes("pool_layer", 1, {"N": N})
        image = checked_sizes("pool_layer", 1, {"C": C, "D": D, "H": H, "W": W})
        window = checked_sizes("pool_layer", 1, {"J": J, "T": T, "R": R, "S": S})
        pads = {"pad_c": pad_c if pad_j is None else pad_j, "pad_d": pad_d, "pad_h": pad_h, "pad_w": pad_w}
        padding = checked_sizes("pool_layer", 0, pads)
        steps = {"str_c": str_c if str_j is None else str_j, "str_d": str_d, "str_h": str_h, "str_w": str_w}
        asked = {name: size if step is None else step for (name, step), size in zip(steps.items(), window, strict=True)}
        strides = checked_sizes("pool_layer", 1, asked)
        output = [
            self.output_dim(size, width, pad, stride, pooling=True)
            for size, width, pad, stride in zip(image, window, padding, strides, strict=True)
        ]
        check_counts("pool_layer", image, window, output, "C D H W")
        _check_seen(image, padding, strides, output)
        return PoolLayer(dtype, op, N, image, window, output, padding, strides, caffe=self.compat_mode == "caffe")


def _check_seen(image: Sequence[int], padding: Sequence[int], strides: Sequence[int], output: Sequence[int]) -> None:
    """ValueError where the last window begins behind the image, as caffe's counts have it with wide strides."""
    for axis, size, pad, stride, count in zip("CDHW", image, padding, strides, output, strict=True):
        begin = (count - 1) * stride - pad
        if begin >= size:
            asked = f"pool_layer({axis}={size}) with strides of {stride}"
            wrong = f"the last of {count} windows begins at {begin} and has no element"
            raise ValueError(four_parts(asked, wrong, "", "use strides not larger than the window"))
