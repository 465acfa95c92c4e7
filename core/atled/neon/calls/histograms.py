"""Calls that count elements by their powers of two."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description
from atled.neon.trees.tensor import Tensor
from atled_contexts import Context


class HistogramCalls:
    """Keeps the histograms that `Tensor.hist` counts.

    hist_bins: counts of a row.  hist_offset: the power of two of the first.
    """

    hist_bins: int = 64
    hist_offset: int = -48
    _histograms: list[Tensor] | None = None
    _histogram_rows: dict[Any, int] | None = None

    if TYPE_CHECKING:
        context: Context

        def empty(self, shape: Any, dtype: Any = None) -> Tensor:
            """See AllocationCalls."""

    def set_hist_buffers(self, hist_bins: int, hist_offset: int) -> None:
        """Set the count of bins of a row and the power of two of the first; other ones drop the rows that are kept.

        TypeError: no integers.  ValueError: less than one bin.
        """
        try:
            bins, offset = operator.index(hist_bins), operator.index(hist_offset)
        except TypeError as error:
            raise TypeError(_no_bins(hist_bins, hist_offset, "not both are integers")) from error
        if bins < 1:
            raise ValueError(_no_bins(hist_bins, hist_offset, "a row has one bin at least"))
        if (bins, offset) != (self.hist_bins, self.hist_offset):
            self._histograms = self._histogram_rows = None
        self.hist_bins, self.hist_offset = bins, offset

    def record_histogram(self, x: Tensor, tag: Any) -> Tensor:
        """See Tensor.hist."""
        if self._histograms is None or self._histogram_rows is None:
            self._histograms, self._histogram_rows = [], {}
        row = self._counted(x)
        self._histogram_rows[tag] = len(self._histograms)
        self._histograms.append(row)
        return row

    def dump_hist_data(self) -> tuple[Tensor, dict[Any, int]]:
        """What was counted since the last call: (rows, bins) int32, and the row of each tag; then it starts anew."""
        rows, tags = self._histograms or [], self._histogram_rows or {}
        self._histograms = self._histogram_rows = None
        counts = self.empty((len(rows), self.hist_bins), np.int32)
        for number, row in enumerate(rows):
            counts[number] = row
        return counts, tags

    def _counted(self, x: Tensor) -> Tensor:
        """A row with the counts of a tensor."""
        bins, offset = self.hist_bins, self.hist_offset
        row = self.empty((1, bins), np.int32)
        d = Description(self.context)
        flat = d.call("Reshape", d.leaf(x.view), shape=(x.size,))
        if x.dtype != np.float32:
            flat = d.call("Cast", flat, dtype=np.dtype(np.float32))
        power = d.call("Rint", d.call("Log2", d.call("Magnitude", flat)))
        level = d.call("Clip", power, d.number(float(offset)), d.number(float(offset + bins - 1)))
        # numpy.histogram, by which neon counted, closes its last bin: it has one more power. NaN is less than nothing.
        is_counted = d.call("IsLessEqual", power, d.number(float(offset + bins)))
        place = d.call("Where", is_counted, d.call("Sub2", level, d.number(float(offset))), d.number(0.0))
        # Counted as float64: float32 does not go on behind 2**24.
        ones = d.call("Cast", is_counted, dtype=np.dtype(np.float64))
        places = d.call("Cast", place, dtype=np.dtype(np.int32))
        counts = d.call("TakeGrad", ones, places, axis=0, size=bins)
        d.assign(row.view, d.call("Reshape", counts, shape=(1, bins)))
        d.run()
        return row


def _no_bins(bins: Any, offset: Any, wrong: str) -> str:
    asked = f"set_hist_buffers({shortened(bins)}, {shortened(offset)})"
    return four_parts(asked, wrong, "", "give a count of bins, such as 64, and a whole power of two, such as -48")
