"""Filters of single planes: depthwise convolution with 3 x 3 kernels and stride 1, and its gradients, in float32.

A result is the sum of `terms` filtered planes of the source: one in a convolution, which may give several results from
one plane; as many as it has filters per channel in its gradient. Everything is vectors of columns, see
`depthwise_columns`.

Block of both kernels (64-bit words):
    0 x or gy, 1 weight or gy, 2 bias or 0, 3 y, gx or gw, 4 workspace
    5 images, 6 height, 7 width               of the source
    8 results per image, 9 height, 10 width   of the result; for the weight's gradient, of gy
    11 pad_h, 12 pad_w
    13 terms, 14 results per plane            of the source
    15 first tap, 16 from tap to tap          0 and 1, or 8 and -1 for the gradient, which turns the kernel around
    17 range kernel to run on what is written of y or gx, or 0, 18 its block
Shares are made of results; for the weight's gradient, of filters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from atled.call import Prepared
from atled_cpu_numba.kernels.lanes import host_lanes
from atled_cpu_numba.kernels.launch import launch, share_count
from atled_cpu_numba.store import Kernel

_ELEMENTS_PER_US = 4e3  # a cautious rate of one core, for the number of shares


class Problem(NamedTuple):
    """A depthwise convolution with 3 x 3 kernels and stride 1, or its gradient with respect to x or the weight.

    source, result: height and width.  results: planes per image.  terms, per_plane: see the module.
    turned: whether the kernel is to be turned around.
    """

    images: int
    source: tuple[int, int]
    results: int
    result: tuple[int, int]
    pad: tuple[int, int]
    terms: int
    per_plane: int
    turned: bool


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.depthwise_columns import filter_columns
    from atled_cpu_numba.kernels.options import kernel

    vector = host_lanes().vector

    @kernel
    def depthwise(block, part, parts):
        w = words(block)
        images, height, width, results, rows, columns = w[5], w[6], w[7], w[8], w[9], w[10]
        terms, per_plane = w[13], w[14]
        sources = results * terms // per_plane
        no_bias = w[4] + 64 * part
        floats32(no_bias)[0] = 0.0
        for unit in range(images * results * part // parts, images * results * (part + 1) // parts):
            image = unit // results
            result = unit - image * results
            y = w[3] + 4 * unit * rows * columns
            for term in range(terms):
                filter_number = result * terms + term
                x = w[0] + 4 * (image * sources + filter_number // per_plane) * height * width
                weight = w[1] + 4 * (9 * filter_number + w[15])
                bias = w[2] + 4 * result if w[2] != 0 and term == 0 else no_bias
                adding = 1 if term > 0 else 0
                for j in range(0, columns, vector):
                    # Overlapping is quicker than masks, but adds twice.
                    first = max(0, min(j, columns - vector)) if terms == 1 else j
                    at, left = y + 4 * first, columns - first
                    filter_columns(
                        (x, height, width, -w[11], first - w[12], weight, w[16], bias, adding, at, columns, rows, left)
                    )
            if w[17] != 0:
                call3(w[17], w[18], unit * rows * columns, (unit + 1) * rows * columns)
        return 0

    return depthwise


def _build_weight() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.depthwise_columns import correlate_columns, store_total
    from atled_cpu_numba.kernels.options import kernel

    vector = host_lanes().vector

    @kernel
    def depthwise_weight(block, part, parts):
        w = words(block)
        images, height, width, results, rows, columns, per_plane = w[5], w[6], w[7], w[8], w[9], w[10], w[14]
        first, after = results * part // parts, results * (part + 1) // parts
        sums_at = w[4] + 36 * vector * first  # nine vectors per filter
        sums = floats32(sums_at)
        for i in range(9 * vector * (after - first)):
            sums[i] = 0.0
        # Images outside: the planes of one follow one another in memory.
        for image in range(images):
            for result in range(first, after):
                x = w[0] + 4 * (image * (results // per_plane) + result // per_plane) * height * width
                gy = w[1] + 4 * (image * results + result) * rows * columns
                to = sums_at + 36 * vector * (result - first)
                for j in range(0, columns, vector):
                    at, left = gy + 4 * j, columns - j
                    correlate_columns((x, height, width, -w[11], j - w[12], at, columns, rows, left, to))
        for i in range(9 * (after - first)):
            store_total((sums_at + 4 * vector * i, w[3] + 4 * (9 * first + i)))
        return 0

    return depthwise_weight


DEPTHWISE = Kernel("depthwise", _build)
DEPTHWISE_WEIGHT = Kernel("depthwise_weight", _build_weight)


def prepare(problem: Problem, arguments: tuple[int, ...]) -> Prepared:
    """The convolution or its gradient with respect to x; arguments: words of the inputs and outputs."""
    parts = share_count(_work_us(problem), problem.images * problem.results)
    return _launch(DEPTHWISE, problem, arguments, parts, 64 * parts)


def prepare_weight(problem: Problem) -> Prepared:
    """The gradient with respect to the weight; x, gy -> gw."""
    parts = share_count(_work_us(problem), problem.results)
    return _launch(DEPTHWISE_WEIGHT, problem, (0, 1, 3), parts, 4 * 9 * host_lanes().vector * problem.results)


def _work_us(problem: Problem) -> float:
    elements = problem.images * problem.results * problem.terms * problem.result[0] * problem.result[1]
    return elements / _ELEMENTS_PER_US


def _launch(kernel: Kernel, problem: Problem, arguments: tuple[int, ...], parts: int, workspace: int) -> Prepared:
    words = [0, 0, 0, 0, 0, problem.images, *problem.source, problem.results, *problem.result]
    words += [*problem.pad, problem.terms, problem.per_plane, *((8, -1) if problem.turned else (0, 1)), 0, 0]
    assert len(words) == 19
    after = {0: 17} if kernel is DEPTHWISE else None
    note = "depthwise, columns in vectors"
    return launch(kernel, words, (*arguments, 4), parts=parts, workspace=workspace, after=after, note=note)
