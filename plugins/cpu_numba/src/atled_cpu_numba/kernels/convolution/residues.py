"""Dilated convolution and its adjoint as convolutions without dilation, of every second row and column, say.

With strides of 1 a result sees elements of its own residue alone: row i those of rows i, i + d, ... So the elements of
one residue of rows and one of columns are an image for themselves, and Winograd's algorithm suits it where it would
suit an image of that size. Some of these images at once are collected, computed, and delivered. Where sizes are no
multiples of the dilation, the images of the last residues lack a row or a column: they get zeros, and results that
are not delivered.

Shares are made of images at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Pack, Prepared
from atled_cpu_numba.kernels.convolution.problem import Problem, Task
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    optional_words,
    piece_starts,
    share_count,
    undivided,
)
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout
from atled_cpu_numba.kernels.shared.leading_axes import Axis

_CHUNK_BYTES = 2 << 20  # of what some images are and become
_LEAST_POSITIONS = 1024  # of results at once on one thread, where there are as many: each chunk reads all weights
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads; starts in bytes from a share's workspace, which begins with the inner block.

    The inner block follows.
    """

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int
    chunks: int
    at_once: int  # images of one residue each
    channels: int
    maps: int
    dilation_h: int
    dilation_w: int
    height: int  # of x
    width: int
    rows: int  # of one residue of it, of the first ones
    columns: int
    result_height: int
    result_width: int
    result_rows: int
    result_columns: int
    inner_start: int  # of the inner kernel's workspace
    seen_start: int
    results_start: int
    kernel: int
    inner_words: int
    source: int  # words of the inner block: for the source,
    inner_weight: int
    inner_bias: int  # or NO_WORD
    result: int
    inner_workspace: int  # or NO_WORD
    inner: int = 0


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer

    @piece
    def move(w, whole, planes, height, width, rows, columns, first, to, is_delivered):
        """The planes of some images of one residue each, from where all residues are or to there."""
        step_h, step_w = w[Block.dilation_h], w[Block.dilation_w]
        residues = step_h * step_w
        for number in range(first, first + w[Block.at_once]):
            image = number // residues
            row, column = (number - image * residues) // step_w, number % step_w
            known = (width - column + step_w - 1) // step_w
            for plane in range(image * planes, (image + 1) * planes):
                for i in range(rows):
                    y = row + i * step_h
                    apart = floats(whole + element * ((plane * height + y) * width + column))
                    together = floats(to)
                    if is_delivered:
                        for j in range(known if y < height else 0):
                            apart[j * step_w] = together[j]
                    else:
                        there = known if y < height else 0
                        for j in range(there):
                            together[j] = apart[j * step_w]
                        for j in range(there, columns):
                            together[j] = 0.0
                    to += element * columns

    @kernel
    def convolution_residues(block, part, parts):
        w = words(block)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        inner = words(share)
        inner_words, at_once = w[Block.inner_words], w[Block.at_once]
        seen, results = share + w[Block.seen_start], share + w[Block.results_start]
        template = words(block + 8 * Block.inner)
        for i in range(inner_words):
            inner[i] = template[i]
        inner[w[Block.source]], inner[w[Block.result]] = seen, results
        inner[w[Block.inner_weight]] = w[Block.weight]
        if w[Block.inner_bias] >= 0:
            inner[w[Block.inner_bias]] = w[Block.bias]
        if w[Block.inner_workspace] >= 0:
            inner[w[Block.inner_workspace]] = share + w[Block.inner_start]
        for chunk in range(w[Block.chunks] * part // parts, w[Block.chunks] * (part + 1) // parts):
            first, height, width = chunk * at_once, w[Block.height], w[Block.width]
            rows, columns = w[Block.rows], w[Block.columns]
            move(w, w[Block.x], w[Block.channels], height, width, rows, columns, first, seen, False)
            code = call3(w[Block.kernel], share, 0, 1)
            if code != 0:
                return code
            height, width = w[Block.result_height], w[Block.result_width]
            rows, columns = w[Block.result_rows], w[Block.result_columns]
            move(w, w[Block.y], w[Block.maps], height, width, rows, columns, first, results, True)
        return 0

    return convolution_residues


CONVOLUTION_RESIDUES = kernels_by_dtype("convolution_residues", _build)


def inner_task(task: Task) -> Task | None:
    """The same of the first residue at a time, the largest; None where there is one alone, or where each pads apart."""
    if task.dilation == (1, 1) or task.stride != (1, 1) or task.groups > 1:
        return None
    if any(n % d for n, d in zip(task.pad, task.dilation, strict=True)):
        return None
    source, result, pad = (
        (-(-pair[0] // task.dilation[0]), -(-pair[1] // task.dilation[1]))
        for pair in (task.source, task.result, task.pad)
    )
    images = task.images * math.prod(task.dilation)
    return task._replace(images=images, source=source, result=result, pad=pad, dilation=(1, 1))


def prepare(
    task: Task, problem: Problem, prepare_planar: Callable[[Problem], Prepared], suits: Callable[[int], bool]
) -> Prepared:
    """The convolution of a task that has an inner one.

    prepare_planar: the same without dilation.  suits: whether so many images at once suit the kernel that is wanted; in
    it results of an image do not depend on the others, so that their number may follow from that of shares.
    """
    inner, element = inner_task(task), SIZES[task.dtype]
    assert inner is not None
    seen, wanted = task.channels * math.prod(inner.source), task.maps * math.prod(inner.result)
    positions = math.prod(inner.result)
    parts = share_count(2.0 * problem.weight_size * inner.images * positions / _FLOPS_PER_US, inner.images)
    most = max(-(-_LEAST_POSITIONS // positions), _CHUNK_BYTES // (element * (seen + wanted)))
    at_once = _images_at_once(inner.images, min(most, inner.images // parts), suits)
    axes = tuple(
        Axis(source, result, kernel, pad, 1, 1)
        for source, result, kernel, pad in zip(inner.source, inner.result, task.kernel, inner.pad, strict=True)
    )
    with undivided():
        whole = prepare_planar(problem._replace(images=at_once, axes=axes))
    native = whole.native
    assert native is not None
    source, weight, *behind = native.arguments
    result, *workspace = behind[len(problem.biases) :]
    starts = piece_starts(
        8 * len(native.block),
        {
            "inner_start": whole.workspace,
            "seen_start": element * at_once * seen,
            "results_start": element * at_once * wanted,
        },
    )
    chunks = inner.images // at_once
    parts = fitting_shares(min(parts, chunks), starts["share_bytes"])
    words = filled(
        Block,
        chunks=chunks,
        at_once=at_once,
        channels=task.channels,
        maps=task.maps,
        dilation_h=task.dilation[0],
        dilation_w=task.dilation[1],
        height=task.source[0],
        width=task.source[1],
        rows=inner.source[0],
        columns=inner.source[1],
        result_height=task.result[0],
        result_width=task.result[1],
        result_rows=inner.result[0],
        result_columns=inner.result[1],
        kernel=native.address,
        inner_words=len(native.block),
        source=source,
        inner_weight=weight,
        inner_bias=behind[0] if any(problem.biases) else NO_WORD,
        result=result,
        inner_workspace=workspace[0] if workspace else NO_WORD,
        **starts,
    )
    return launch(
        CONVOLUTION_RESIDUES[task.dtype],
        [*words, *native.block.tolist()],
        (Block.x, Block.weight, *optional_words(Block.bias, problem.biases), Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        owner=(CONVOLUTION_RESIDUES[task.dtype], native.owner),
        packs=[
            Pack(p.input, Block.inner + p.word, p.form, p.nbytes, p.native, workspace=p.workspace) for p in whole.packs
        ],
        note=f"{at_once} residues at once: {whole.note}",
    )


def _images_at_once(images: int, most: int, suits: Callable[[int], bool]) -> int:
    """A divisor of the images that suits: the largest up to `most`, or else the smallest."""
    divisors = [n for n in range(1, images + 1) if images % n == 0 and suits(n)]
    return max((n for n in divisors if n <= most), default=divisors[0])
