"""Filters of single planes that stay in the caches: depthwise convolution with 3 x 3 kernels and strides of 1 or 2.

Its adjoint with strides of 1 is one, too, with the kernel turned around. A plane after the other, see `plane_blocks`;
if its rows are shorter than a vector, each is one. Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.depthwise import paired_planes
from atled_cpu_numba.kernels.depthwise.filter_words import arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.plane_walk import make_plane_walk
from atled_cpu_numba.kernels.depthwise.plane_words import Block
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
    STREAMED_BYTES,
    in_lines,
    kernels_by_dtype,
    launch,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled

_ROWS = {1: 4, 2: 2}  # of windows at a time, by stride: with the filter they fill the registers
# Vectors of a plane in a row: wider planes are read by rows. Of a taller strip, what is asked for of the next plane
# evicts what is read of this one from the level-1 cache.
_MOST_IN_STRIPS = 8
_MOST_NARROW = 128  # windows in a row of half or bf16, in strips too
_WIDTHS = (1, 2)  # of vectors for narrow planes: what part of a register
_ELEMENTS_PER_US = {1: 2e3, 2: 1e3}  # cautious rates of one core, for the number of shares


class Problem(NamedTuple):
    """A depthwise convolution with 3 x 3 kernels and equal strides of 1 or 2.

    source, result: height and width.  results: planes per image; per_plane: of them from one plane of the source.
    turned: whether the kernel is to be turned around.
    """

    images: int
    source: Pair
    results: int
    per_plane: int
    result: Pair
    pad: Pair
    stride: int
    turned: bool
    dtype: str


def _build(dtype: str, stride: int, part: int) -> Callable[..., int]:
    """part: of a vector is what is wider than the rows of narrow planes; 0: planes of any width."""
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.depthwise.plane_blocks import make_filter, make_narrow_filter
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, real = item_bytes(dtype), real_of(dtype)
    floats, zero_bytes = Real(real).pointer, SIZES[real]
    strips_alone = dtype != real  # a third of the code, in which networks find nearly all of their planes
    count, lanes = _ROWS[stride], max(2, lanes_of(real).vector // max(1, part))
    several, one = (make_filter(stride, number, dtype) for number in (count, 1))
    strips = make_filter(stride, 0, dtype, paired_planes.WORDS if dtype == "bfloat16" else 0)
    narrow, masked = (make_narrow_filter(stride, lanes, real, masked=is_masked) for is_masked in (False, True))

    @piece
    def filter_plane(w, own, unit, end, number, plane):
        height, width, rows, columns, sources, zeros_at = own
        x, y = w[Block.x] + element * plane * height * width, w[Block.y] + element * unit * rows * columns
        weight = w[Block.weight] + element * (9 * number + w[Block.first_tap])
        bias = w[Block.bias] + element * number if w[Block.bias] != 0 else zeros_at
        given = (x, height, width, w[Block.pad_h], zeros_at, weight, w[Block.tap_step], bias, y, columns)
        # A vector may be read behind a plane, and written behind a result, where others follow.
        beyond, source_beyond = lanes - columns, stride * lanes - width
        if part == 0:
            if strips_alone or w[Block.strips] != 0:
                strips((*given, rows, w[Block.pad_w], w[Block.cut]))
            elif rows >= count:
                several((*given, rows, w[Block.pad_w], w[Block.cut]))
            else:
                one((*given, rows, w[Block.pad_w], w[Block.cut]))
        elif (
            (unit + 1) * rows * columns + beyond <= end * rows * columns
            and (plane + 1) * height * width + source_beyond <= sources
        ):  # fmt: skip
            narrow(given)
        else:
            masked(given)

    walk = make_plane_walk(Block, filter_plane)

    @kernel
    def depthwise_planes(block, part_number, parts):
        w = words(block)
        height, width, rows, columns = w[Block.height], w[Block.width], w[Block.rows], w[Block.columns]
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part_number
        zeros = floats(zeros_at)
        for i in range(w[Block.share_bytes] // zero_bytes):
            zeros[i] = 0.0
        sources = w[Block.images] * w[Block.results] // w[Block.per_plane] * height * width
        walk(w, part_number, parts, rows * columns, (height, width, rows, columns, sources, zeros_at))
        return 0

    return depthwise_planes


_KERNELS = {
    (stride, part): kernels_by_dtype(
        f"depthwise_planes_{stride}_{part}", _build, stride, part, dtypes=REALS if part else ANY
    )
    for stride in _ROWS
    for part in (0, *_WIDTHS)
}


def can(problem: Problem) -> bool:
    """Whether it is computed here: with at most one row and column of padding."""
    p, part = problem, _part(problem)
    taken = all(n > 0 and pad in (0, 1) for n, pad in zip(p.result, p.pad, strict=True))
    is_narrow = part > 0 or p.pad[1] == 0 or p.result[1] > 1
    return taken and is_narrow and (p.dtype in REALS or _is_narrow_strip(p))


def _is_narrow_strip(p: Problem) -> bool:
    """Whether a plane of half or bf16 is taken as it is: one vector of all rows after the other."""
    if not _in_strips(p):
        return False
    if p.dtype == "bfloat16":
        fewest = 2 * paired_planes.WORDS // p.stride + (p.pad[1] > 0 or _cut(p) > 0)
        return p.result[1] >= fewest or paired_planes.can(p.source[1], p.pad)
    return _part(p) == 0


def _cut(p: Problem) -> int:
    """1 if the last window of a row is cut, else 0."""
    return max(0, (p.result[1] - 1) * p.stride - p.pad[1] + 3 - p.source[1])


def suits(problem: Problem) -> bool:
    """Whether it pays, too: the results stay in the caches, or other kernels would not write them past these."""
    p = problem
    elements = p.images * p.results * p.result[0] * p.result[1]
    is_near = item_bytes(p.dtype) * elements < STREAMED_BYTES
    # Of float64, `halving` takes .86 of the time then.
    return can(p) and (is_near or (p.stride > 1 and p.dtype == "float32"))


def _in_strips(p: Problem) -> bool:
    """Whether one vector of all rows is computed after the other."""
    is_wide = p.stride * p.result[1] > _MOST_IN_STRIPS * lanes_of(real_of(p.dtype)).vector
    return p.pad[0] == 1 and (not is_wide if p.dtype in REALS else p.result[1] <= _MOST_NARROW)


def _part(p: Problem) -> int:
    """What part of a vector the rows are to be taken in, each as one; 0 if they are longer, or nothing is cut."""
    columns, lanes = p.result[1], lanes_of(real_of(p.dtype)).vector
    if p.pad != (1, 1) or p.dtype == "bfloat16":
        return 0
    return next((part for part in reversed(_WIDTHS) if columns < max(2, lanes // part)), 0)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem; biases: for each input behind the weight, whether it is there."""
    p, part = problem, _part(problem)
    units, lanes = p.images * p.results, lanes_of(real_of(p.dtype)).vector
    # A row takes as long as whole vectors.
    width = max(2, lanes // part) if part else lanes
    columns = -(-p.result[1] // width) * width
    parts = share_count(units * p.result[0] * columns / _ELEMENTS_PER_US[p.stride], units)
    share_bytes = in_lines(SIZES[real_of(p.dtype)] * (p.source[1] + 4 * lanes))
    if p.dtype == "bfloat16":
        share_bytes = max(share_bytes, paired_planes.share_bytes(p.source[0] * p.source[1], p.result[0] * p.result[1]))
    words = filled(
        Block,
        **sizes_of(p),
        share_bytes=share_bytes,
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        strips=int(_in_strips(p)),
        cut=_cut(p),
        first_tap=8 if p.turned else 0,
        tap_step=-1 if p.turned else 1,
    )
    in_pairs = p.dtype == "bfloat16" and paired_planes.can(p.source[1], p.pad)
    return launch(
        paired_planes.KERNELS[p.stride] if in_pairs else _KERNELS[p.stride, part][p.dtype],
        words,
        arguments_of(Block, biases),
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        note="depthwise, " + ("rows in vectors" if part or in_pairs else "vectors along rows"),
    )
