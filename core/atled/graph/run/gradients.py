"""Gradients that a run has written: a solver may use them, unless the device finds out later that the run failed."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial

from atled.arrays.cell import ArrayCell
from atled.arrays.failures import EXPECTING


def count_as_written(cells: Sequence[ArrayCell]) -> None:
    """Let gradients count as written."""
    for cell in cells:
        cell.pending = None
        cell.zeroed = False
    if EXPECTING and cells:
        undo = partial(_unwrite, [weakref.ref(cell) for cell in cells])
        for failures in EXPECTING.intersection(cell.place.failures for cell in cells):
            failures.remember(tuple(map(id, cells)), undo)


def _unwrite(cells: Sequence[weakref.ref[ArrayCell]], times: int) -> None:
    """Let gradients count as not written, however often they were."""
    for reference in cells:
        cell = reference()
        if cell is not None:
            cell.zero()
