"""Kernels that add over images in one share, divided: each runs on runs of images, whose sums are added up in order.

The runs are the same ones for any count of shares, and whoever is done last adds them up: so a sum does not depend on
the threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled.plugin import Native, Prepared
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    SHARE_US,
    fitting_shares,
    in_lines,
    is_undivided,
    kernels_by_dtype,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_MOST_RUNS = 8


@layout
class Block:
    """What runs need; the kernel's own block follows, with the addresses of the inputs."""

    kernel: int
    count: int  # words of the kernel's block
    runs: int
    images: int
    workspace: int
    share_bytes: int  # of workspace: a copy of the kernel's block, then its workspace
    sums_bytes: int  # of workspace, before those of the shares: results of the runs
    size: int  # elements of the result
    done: int  # shares that are; 0 before and after each call
    first_bytes: int  # of an image of the first input
    second_bytes: int
    first: int  # words of the kernel's block: for the address of the first input,
    second: int
    result: int
    inner_workspace: int
    inner_images: int  # and for the count of images
    y: int  # the result, which the first run writes to; the others write to the workspace


_HEADER = size_of(Block)


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import add_atomically, call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats = SIZES[dtype], Real(dtype).pointer

    @kernel
    def image_runs(block, part, parts):
        w = words(block)
        count, runs, images, size = w[Block.count], w[Block.runs], w[Block.images], w[Block.size]
        given = words(block + 8 * _HEADER)
        sums = w[Block.workspace]
        own = w[Block.workspace] + w[Block.sums_bytes] + part * w[Block.share_bytes]
        inner = words(own)
        code = 0
        for run in range(runs * part // parts, runs * (part + 1) // parts):
            first, after = images * run // runs, images * (run + 1) // runs
            for i in range(count):
                inner[i] = given[i]
            inner[w[Block.first]] += first * w[Block.first_bytes]
            inner[w[Block.second]] += first * w[Block.second_bytes]
            inner[w[Block.result]] = w[Block.y] if run == 0 else sums + element * (run - 1) * size
            inner[w[Block.inner_workspace]] = own + 8 * count
            inner[w[Block.inner_images]] = after - first
            code |= call3(w[Block.kernel], own, 0, 1)
        if add_atomically(block + 8 * Block.done, 1) + 1 < parts:
            return code
        w[Block.done] = 0
        y = floats(w[Block.y])
        for run in range(runs - 1):
            x = floats(sums + element * run * size)
            for i in range(size):
                y[i] += x[i]
        return code

    return image_runs


IMAGE_RUNS = kernels_by_dtype("image_runs", _build)


def in_runs(
    prepared: Prepared,
    *,
    images: int,
    images_word: int,
    image_bytes: tuple[int, int],
    size: int,
    work_us: float,
    dtype: str = "float32",
) -> Prepared:
    """A gradient of a weight that would run in one share, divided by its images if that is worth it; else as it is.

    Within the shares of another kernel it stays as it is: their number decides how long it takes.

    prepared: a call of two inputs with images first, one result of `size` elements and a workspace.
    images_word: of its block.  image_bytes: of an image of each input.  work_us: its time on one core.
    dtype: of the result.
    """
    native = prepared.native
    assert native is not None
    runs = min(images, _MOST_RUNS, int(work_us / SHARE_US))
    if native.parts > 1 or runs < 2 or is_undivided():
        return prepared
    first, second, result, workspace = native.arguments
    sums_bytes = in_lines(SIZES[dtype] * size * (runs - 1))
    count = -(-len(native.block) // 8) * 8  # a whole line, since the kernel's workspace follows
    share_bytes = in_lines(8 * count + prepared.workspace)
    parts = fitting_shares(share_count(work_us, runs), share_bytes)
    inner = np.zeros(count, np.int64)
    inner[: len(native.block)] = native.block
    header = filled(
        Block,
        kernel=native.address,
        count=count,
        runs=runs,
        images=images,
        share_bytes=share_bytes,
        sums_bytes=sums_bytes,
        size=size,
        first_bytes=image_bytes[0],
        second_bytes=image_bytes[1],
        first=first,
        second=second,
        result=result,
        inner_workspace=workspace,
        inner_images=images_word,
    )
    return Prepared(
        native=Native(
            IMAGE_RUNS[dtype].address(),
            np.concatenate([np.array(header, np.int64), inner]),
            (_HEADER + first, _HEADER + second, Block.y, Block.workspace),
            parts=parts,
            owner=(IMAGE_RUNS[dtype], native.owner),
        ),
        workspace=sums_bytes + share_bytes * parts,
        note=f"{prepared.note}, in {runs} runs of images",
    )
