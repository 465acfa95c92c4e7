"""Operands of products as matrices: groups of axes, each of which is one axis with one stride, or two of items."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atled.plugin import ArrayDesc, NamedTuple

_MOST_ITEM_AXES = 2  # such as a batch and its heads


class Matrix(NamedTuple):
    """Matrices of rows x columns, one per item; strides in elements.

    Item i is at (i // inner) * outer + (i % inner) * item: so heads that lie within the rows of a batch are read in
    place. inner is `items` where one stride says it.
    """

    items: int
    rows: int
    columns: int
    item: int
    row: int
    column: int
    inner: int
    outer: int = 0

    @property
    def is_in_groups(self) -> bool:
        """Whether items have two strides."""
        return self.inner != self.items

    def transposed(self) -> Matrix:
        """The same with rows and columns exchanged; the elements of rows of one element lie side by side."""
        return self._replace(
            rows=self.columns, columns=self.rows, row=self.column, column=self.row if self.rows != 1 else 1
        )


def matrix(desc: ArrayDesc, first: int, second: int) -> Matrix | None:
    """Axes before `first` as items, those before `second` as rows, the others as columns; None without such strides."""
    groups = [slice(0, first), slice(first, second), slice(second, None)]
    items, rows, columns = (math.prod(desc.shape[group]) for group in groups)
    plain = rows * columns, columns, 1
    if desc.strides is None:
        return Matrix(items, rows, columns, *plain, items)
    of_items, *others = (_merged(desc.shape[group], desc.strides[group]) for group in groups)
    if len(of_items) > _MOST_ITEM_AXES or any(len(axes) > 1 for axes in others):
        return None
    grouped = zip((of_items, *others), plain, strict=True)
    item, row, column = (axes[-1][1] if axes else stride for axes, stride in grouped)
    if len(of_items) < 2:
        return Matrix(items, rows, columns, item, row, column, items)
    (_, outer), (inner, _) = of_items
    return Matrix(items, rows, columns, item, row, column, inner, outer)


def _merged(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The axes as sizes and strides: those that lie one within the other as one, without those of one element."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged
