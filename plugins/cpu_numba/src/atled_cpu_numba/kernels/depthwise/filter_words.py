"""The words that the blocks of filters of single planes begin with, and what fills them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled_cpu_numba.kernels.shared.launch import optional_words


class Filter:
    """The first words of the blocks of filters of single planes."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace
    images: int
    height: int  # of the source
    width: int
    results: int  # per image
    rows: int  # of the result
    columns: int
    per_plane: int  # results per plane of the source
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int


def sizes_of(problem: Any) -> dict[str, int]:  # Any: each filter has a problem of its own, with these names
    """The words that are sizes, by name."""
    (height, width), (rows, columns) = problem.source, problem.result
    return {
        "images": problem.images,
        "height": height,
        "width": width,
        "results": problem.results,
        "rows": rows,
        "columns": columns,
        "per_plane": problem.per_plane,
    }


def arguments_of(block: Any, biases: Sequence[bool]) -> tuple[int, ...]:
    """The words of x, weight, bias, y and workspace; biases: for each input behind the weight, whether it is there."""
    return (block.x, block.weight, *optional_words(block.bias, biases), block.y, block.workspace)
