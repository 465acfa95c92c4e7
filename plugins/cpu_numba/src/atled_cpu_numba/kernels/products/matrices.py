"""Operands of products as matrices: groups of axes, each of which is one axis with one stride."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from atled.plugin import ArrayDesc, NamedTuple


class Matrix(NamedTuple):
    """Matrices of rows x columns, one per item; strides in elements."""

    items: int
    rows: int
    columns: int
    item: int  # stride from matrix to matrix
    row: int
    column: int

    def transposed(self) -> Matrix:
        """The same with rows and columns exchanged; the elements of rows of one element lie side by side."""
        return Matrix(self.items, self.columns, self.rows, self.item, self.column, self.row if self.rows != 1 else 1)


def matrix(desc: ArrayDesc, first: int, second: int) -> Matrix | None:
    """Axes before `first` as items, those before `second` as rows, the others as columns; None without such strides."""
    groups = [slice(0, first), slice(first, second), slice(second, None)]
    items, rows, columns = (math.prod(desc.shape[group]) for group in groups)
    plain = rows * columns, columns, 1
    if desc.strides is None:
        return Matrix(items, rows, columns, *plain)
    strides = [_stride(desc.shape[group], desc.strides[group], size) for group, size in zip(groups, plain, strict=True)]
    item, row, column = strides
    if item is None or row is None or column is None:
        return None
    return Matrix(items, rows, columns, item, row, column)


def _stride(sizes: Sequence[int], strides: Sequence[int], otherwise: int) -> int | None:
    """The stride of axes that lie one within the other; `otherwise` for one element, None where they do not."""
    axes = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    if any(outer[1] != size * stride for outer, (size, stride) in itertools.pairwise(axes)):
        return None
    return axes[-1][1] if axes else otherwise
