"""The argument block of `window_panels`: its words, and the rounds in which the sums of a result are made."""

from __future__ import annotations

import itertools
import math

from atled_cpu_numba.kernels.convolution.copied_planes import CopiedPlanes
from atled_cpu_numba.kernels.convolution.problem import Task
from atled_cpu_numba.kernels.convolution.window_regions import seen_rows
from atled_cpu_numba.kernels.shared.geometry import Layout, Result
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of


@layout
class Block(CopiedPlanes):
    """What the kernel reads; lengths in elements, starts in bytes of a share's workspace.

    The phases of the source follow, then the results.
    """

    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of a piece
    chunk: int  # images at once
    pieces: int  # of the maps of a group
    maps: int  # of the result, per group
    weight_map: int  # strides of the weight; the kernel's places are contiguous
    weight_channel: int
    group_weights: int  # from group to group
    results: int
    beside: int  # 2: every two results take turns in the columns of the same rows, and are written together; else 1
    results_at: int  # word where they start
    plane: int  # elements of one of the result's
    result_width: int
    step_h: int  # from a window's result to the next one in the result's image
    step_w: int
    taps: int  # whose weights are packed: of all results, or of the kernel
    by_taps: int  # 1: sums go tap by tap, of which results leave out some; 0: channel by channel
    rounds_at: int  # word where those of the results start, RoundsWords
    at_once: int  # windows, at most: whole panels
    pitch: int  # of the rows of windows
    offsets_start: int
    vectors_start: int  # of the table of vectors
    ranges_start: int  # of the table of ranges
    packed_start: int
    windows_start: int
    sums_start: int
    planes_start: int
    pack: int  # address of PACK, or 0 if the weights do not lie in the order of the sums
    packed: int  # address of the packed weights of all groups, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


@layout
class RoundsWords:
    """The terms that a result's sums are made of, some at once; rounds follow, then spans, then the next result."""

    rounds: int
    spans: int
    panel: int  # terms of a panel of weights


@layout
class RoundWords:
    """Some terms, whose weights follow one another."""

    terms: int
    first: int  # in the table of offsets
    weights: int  # elements from the packed weights to those of the first term in the first panel


@layout
class SpanWords:
    """The rows of windows that see something through some terms."""

    top: int
    bottom: int  # the one behind the last
    first: int  # in the table of offsets
    after: int


ROUNDS_WORDS, ROUND_WORDS, SPAN_WORDS = size_of(RoundsWords), size_of(RoundWords), size_of(SpanWords)
RANGE_BYTES = 16  # of a tile's terms in a table: the first one and the one behind the last one


def rounds_words(task: Task, planes: Layout, results: tuple[Result, ...], at_once: int, *, by_taps: bool) -> list[int]:
    """The words of all results with their rounds, of up to `at_once` terms."""
    words, tile_rows, channels, first = [], lanes_of(task.dtype).rows, task.channels, 0
    panels, weights = -(-task.maps // tile_rows), 0
    for found in results:
        k = channels * len(found.taps)
        runs, spans = [(weights, k)], [(0, found.counts[0], len(found.taps))]
        if by_taps:
            runs = [(tile_rows * channels * place, channels * count) for place, count in _runs(found)]
            spans = seen_rows(planes, found, task.source)
        rounds: list[int] = []
        begin = first
        for start, length in runs:
            pieces = -(-length // at_once)
            edges = [length * piece // pieces for piece in range(pieces)] + [length]
            for low, high in itertools.pairwise(edges):
                rounds += filled(RoundWords, terms=high - low, first=begin + low, weights=start + tile_rows * low)
            begin += length
        words += filled(
            RoundsWords,
            rounds=len(rounds) // ROUND_WORDS,
            spans=len(spans),
            panel=channels * math.prod(task.kernel) if by_taps else k,
        )
        words += rounds
        for top, bottom, taps in spans:
            words += filled(SpanWords, top=top, bottom=bottom, first=first, after=first + channels * taps)
            first += channels * taps
        weights += tile_rows * panels * k
    return words


def _runs(found: Result) -> list[tuple[int, int]]:
    """Taps that follow one another in the kernel: the first place and how many."""
    runs: list[tuple[int, int]] = []
    for tap in found.taps:
        if runs and sum(runs[-1]) == tap.place:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((tap.place, 1))
    return runs
