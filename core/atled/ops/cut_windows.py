"""Windows cut to the array: only elements of it count, over any axes, feature maps among them; and their number.

The poolings of `pooling` and `max_pooling` are NNabla's: they count padding in averages, number the places of whole
windows and round their number down or count what starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.channel_axis import CHANNEL_LAST, Channelled
from atled.ops.pooling import check_kernel_axes
from atled.ops.spec import Attribute
from atled.ops.windows import Slices, per_axis, taps


class CutWindows(Channelled, abstract=True):
    """What these poolings share: the geometry of windows."""

    category = "layer"
    attributes: Sequence[Attribute] = (
        Attribute("kernel", "ints"),
        Attribute("stride", "ints", None),
        Attribute("pad", "ints", None),
        Attribute("caffe", "bool", False),
        CHANNEL_LAST,
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        axes = len(attributes["kernel"])
        check_kernel_axes(self, attributes, inputs, "pool over")
        kernel = per_axis(self, inputs, attributes, "kernel", axes, least=1)
        if math.prod(kernel) >= 2**31:
            raise self.error(inputs, f"kernel={kernel} has 2^31 places or more", "use a smaller kernel")
        stride = kernel
        if attributes["stride"] is not None:
            stride = per_axis(self, inputs, attributes, "stride", axes, least=1)
        pad = per_axis(self, inputs, attributes, "pad", axes, least=0)
        if "shape" in attributes:
            per_axis(self, inputs, attributes, "shape", axes, least=0)
        return {**attributes, "stride": stride, "pad": pad}

    def counts(
        self,
        inputs: Sequence[ArrayDesc | None],
        sizes: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        pad: Sequence[int],
        caffe: bool,
    ) -> tuple[int, ...]:
        """How many windows there are along each axis; refuses what has none, or one without an element."""
        counts = cut_counts(sizes, kernel, stride, pad, caffe)
        for n, k, s, p, count in zip(sizes, kernel, stride, pad, counts, strict=True):
            # The first window ends earliest and the last one starts latest: where there are elements they tell for all.
            if count < 1 or not n or p >= k or (count - 1) * s - p >= n:
                raise self.error(
                    inputs,
                    f"no window of kernel {list(kernel)} fits into {list(sizes)} with pad {list(pad)}"
                    if count < 1
                    else f"a window of kernel {list(kernel)} with pad {list(pad)} would see no element",
                    "use a smaller kernel or stride, or less padding",
                )
        return counts


def cut_counts(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], caffe: bool
) -> tuple[int, ...]:
    """Windows per axis; below 1 where none fits."""
    counts = []
    for n, k, s, p in zip(sizes, kernel, stride, pad, strict=True):
        span = n + 2 * p - k
        count = (-(-span // s) if caffe else span // s) + 1
        # Caffe leaves out a last window that starts in the padding behind.
        counts.append(count - 1 if caffe and p and (count - 1) * s >= n + p else count)
    return tuple(counts)


class Cut:
    """Windows cut to the array.

    skipped: per axis and window, how many places of it lie before the array.  extent: how many lie within.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        counts: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        pad: Sequence[int],
    ) -> None:
        self._taps = sizes, counts, kernel, pad, stride, (1,) * len(kernel)
        self.skipped, self.extent = [], []
        for axis, (n, count, k, s, p) in enumerate(zip(sizes, counts, kernel, stride, pad, strict=True)):
            along = (slice(None), *(np.newaxis,) * (len(sizes) - axis - 1))
            start = np.arange(count) * s - p
            first = np.maximum(start, 0)
            self.skipped.append((first - start)[along])
            self.extent.append((np.minimum(start + k, n) - first)[along])

    @property
    def elements(self) -> np.ndarray:
        """How many elements each window has, broadcasting with the counts."""
        result = np.ones((), np.int64)
        for extent in self.extent:
            result = result * extent
        return result

    def taps(self) -> Iterator[tuple[np.ndarray, Slices, Slices]]:
        """Per place of a window: its number among the window's elements in C order, the windows, the elements seen."""
        for position, windows, elements in taps(*self._taps):
            number = np.zeros((), np.int64)
            for place, skipped, extent, seen in zip(position, self.skipped, self.extent, windows, strict=True):
                number = number * extent[seen] + (place - skipped[seen])
            yield number, windows, elements
