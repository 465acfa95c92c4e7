"""Kernels that add over images and have one share: run on runs of images, whose sums are added up in order.

Block (64-bit words):
    0 kernel, 1 words of its block, 2 runs, 3 images
    4 workspace, 5 bytes of it per share: a copy of the kernel's block, then its workspace; 6 bytes before them
    7 elements of the result, 8 shares that are done; 0 before and after each run
    9 bytes of an image of the first input, 10 of the second
    11 to 15: words of the kernel's block that hold the inputs, the result, the workspace and the count of images
    16 the result, which the first run writes to; the others write to the workspace
The kernel's block follows, with the inputs.

The runs are the same ones for any count of shares, and whoever is done last adds them up: so a sum does not depend on
the threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled.plugin import Native, Prepared
from atled_cpu_numba.kernels.shared.launch import SHARE_US, fitting_shares, share_count
from atled_cpu_numba.store import Kernel

_MOST_RUNS = 8
_HEADER = 17


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import add_atomically, call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def image_runs(block, part, parts):
        w = words(block)
        count, runs, images, size = w[1], w[2], w[3], w[7]
        given = words(block + 8 * _HEADER)
        sums = w[4]
        own = w[4] + w[6] + part * w[5]
        inner = words(own)
        code = 0
        for run in range(runs * part // parts, runs * (part + 1) // parts):
            first, after = images * run // runs, images * (run + 1) // runs
            for i in range(count):
                inner[i] = given[i]
            inner[w[11]] += first * w[9]
            inner[w[12]] += first * w[10]
            inner[w[13]] = w[16] if run == 0 else sums + 4 * (run - 1) * size
            inner[w[14]] = own + 8 * count
            inner[w[15]] = after - first
            code |= call3(w[0], own, 0, 1)
        if add_atomically(block + 8 * 8, 1) + 1 < parts:
            return code
        w[8] = 0
        y = floats32(w[16])
        for run in range(runs - 1):
            x = floats32(sums + 4 * run * size)
            for i in range(size):
                y[i] += x[i]
        return code

    return image_runs


IMAGE_RUNS = Kernel("image_runs", _build)


def in_runs(
    prepared: Prepared, *, images: int, images_word: int, image_bytes: tuple[int, int], size: int, work_us: float
) -> Prepared:
    """A gradient of a weight that would run in one share, divided by its images if that is worth it; else as it is.

    prepared: a call of two inputs with images first, one float32 result of `size` elements and a workspace.
    images_word: of its block.  image_bytes: of an image of each input.  work_us: its time on one core.
    """
    native = prepared.native
    assert native is not None
    runs = min(images, _MOST_RUNS, int(work_us / SHARE_US))
    if native.parts > 1 or runs < 2:
        return prepared
    first, second, result, workspace = native.arguments
    sums_bytes = -(-4 * size * (runs - 1) // 64) * 64
    count = -(-len(native.block) // 8) * 8  # a whole line, since the kernel's workspace follows
    share_bytes = -(-(8 * count + prepared.workspace) // 64) * 64
    parts = fitting_shares(share_count(work_us, runs), share_bytes)
    inner = np.zeros(count, np.int64)
    inner[: len(native.block)] = native.block
    header = [native.address, count, runs, images, 0, share_bytes, sums_bytes, size, 0, *image_bytes]
    header += [first, second, result, workspace, images_word, 0]
    assert len(header) == _HEADER
    return Prepared(
        native=Native(
            IMAGE_RUNS.address(),
            np.concatenate([np.array(header, np.int64), inner]),
            (_HEADER + first, _HEADER + second, 16, 4),
            parts=parts,
            owner=(IMAGE_RUNS, native.owner),
        ),
        workspace=sums_bytes + share_bytes * parts,
        note=f"{prepared.note}, in {runs} runs of images",
    )
