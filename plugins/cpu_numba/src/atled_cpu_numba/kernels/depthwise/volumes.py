"""Filters of volumes, plane by plane: depthwise convolution over three axes and more, 3 x 3 along the last two.

A slice of the result, one place of it along the leading axes, is the sum of filtered planes of the source, one for each
leading tap that sees one, see `leading_axes`. The adjoint with strides of 1 along the last two axes is one, too, with
the kernel turned around. Planes are read where they are, by `volume_blocks`. Shares are made of results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.depthwise.filter_words import Filter, arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.plane_walk import make_plane_walk
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import in_lines, kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.shared.leading_axes import Axis, Phase, extents, leading_phases, pair_count

_STRIDES = (1, 2)
_PLANES_PER_US = {1: 4e3, 2: 2e3}  # elements of filtered planes, cautious rates of one core, for the number of shares


@layout
class Block(Filter):
    """What the kernels read; a plane is a volume, its height and width and the rows and columns are of a slice of that.

    Workspace is a vector of the bias, then sums. The slices follow: the place of each, how many taps see one, and their
    pairs.
    """

    planes: int  # of the source, per channel
    result_slices: int  # of each result
    left: int  # 1 if the first window of a row is cut
    right: int  # 1 if the last one is
    filters: int  # of a result
    first_tap: int  # 0, or 8 for a kernel that is turned around
    tap_step: int  # 1, or -1
    slice_words: int  # from slice to slice in what follows
    slices: int = 0


class Problem(NamedTuple):
    """A depthwise convolution, or its adjoint, which is another one.

    leading: the axes before the last two.  source, result: height and width.  results: per image; per_plane: of them
    from one channel of the source.  kernel, pad, stride, dilation: along the last two axes, those of a convolution.
    turned: whether the kernel is to be turned around.
    """

    images: int
    leading: tuple[Axis, ...]
    source: Pair
    results: int
    per_plane: int
    result: Pair
    kernel: Pair
    pad: Pair
    stride: Pair
    dilation: Pair
    turned: bool
    dtype: str


def _build(dtype: str, stride: int) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.depthwise.volume_blocks import make_volume_filter
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats, vector = SIZES[dtype], Real(dtype).pointer, lanes_of(dtype).vector
    volume_filter = make_volume_filter(stride, dtype)

    @piece
    def filter_channel(w, own, unit, end, number, channel):
        height, width, rows, columns, slices, slices_at, bias_at = own
        sums_at = bias_at + (element * vector + 63) // 64 * 64
        bias = floats(bias_at)
        x = w[Block.x] + element * channel * w[Block.planes] * height * width
        weight = w[Block.weight] + element * (9 * w[Block.filters] * number + w[Block.first_tap])
        for i in range(vector):
            bias[i] = floats(w[Block.bias])[number] if w[Block.bias] != 0 else 0.0
        for s in range(slices):
            table = slices_at + 8 * s * w[Block.slice_words]
            taps = ints64(table)[0]
            y_at = w[Block.y] + element * (unit * slices + s) * rows * columns
            if taps > 0:
                given = (x, height, width, weight, w[Block.tap_step], table + 8, taps, bias_at, sums_at, y_at)
                volume_filter((*given, columns, w[Block.left], w[Block.right]))
            else:
                y = floats(y_at)
                for i in range(rows * columns):
                    y[i] = bias[0]

    walk = make_plane_walk(Block, filter_channel)

    @kernel
    def depthwise_volumes(block, part, parts):
        w = words(block)
        rows, columns, slices = w[Block.rows], w[Block.columns], w[Block.result_slices]
        bias_at = w[Block.workspace] + w[Block.share_bytes] * part
        own = (w[Block.height], w[Block.width], rows, columns, slices, block + 8 * Block.slices, bias_at)
        walk(w, part, parts, slices * rows * columns, own)
        return 0

    return depthwise_volumes


_KERNELS = {stride: kernels_by_dtype(f"depthwise_volumes_{stride}", _build, stride) for stride in _STRIDES}


def suits(problem: Problem) -> bool:
    """Whether it is computed here: 3 x 3 along the last two axes, with one row and at most one column of padding."""
    p = problem
    is_3x3 = (p.kernel, p.dilation) == ((3, 3), (1, 1)) and p.stride[0] == p.stride[1] and p.stride[0] in _STRIDES
    return is_3x3 and p.pad in ((1, 0), (1, 1)) and min(p.result) > 0 and (p.pad[1] == 0 or p.result[1] > 1)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem; biases: for each input behind the weight, whether it is there."""
    p = problem
    stride, vector, element = p.stride[0], lanes_of(p.dtype).vector, SIZES[p.dtype]
    filters, planes, slices = extents(p.leading)
    phases = leading_phases(p.leading, forward=not p.turned, least=1)
    units, taps = p.images * p.results, max(len(phase.taps) for phase in phases)
    filtered = units * pair_count(phases) * math.prod(p.result)
    parts = share_count(filtered / _PLANES_PER_US[stride], units)
    share_bytes = in_lines(element * vector) + in_lines(element * vector * (p.result[0] + 1))
    words = filled(
        Block,
        **sizes_of(p),
        share_bytes=share_bytes,
        planes=planes,
        result_slices=slices,
        left=p.pad[1],
        right=max(0, (p.result[1] - 1) * stride - p.pad[1] + 3 - p.source[1]),
        filters=filters,
        first_tap=8 if p.turned else 0,
        tap_step=-1 if p.turned else 1,
        slice_words=1 + 2 * taps,
    )
    return launch(
        _KERNELS[stride][p.dtype],
        words + _slice_words(phases, taps),
        arguments_of(Block, biases),
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        note=f"depthwise, {taps} planes, vectors along rows",
    )


def _slice_words(phases: Sequence[Phase], taps: int) -> list[int]:
    """The words behind the first ones: for each slice of the result how many taps, pairs of these and their planes."""
    slices = {}
    for phase in phases:
        for place, *seen in phase.slices:
            pairs = [word for pair in zip(phase.taps, seen, strict=True) for word in pair]
            slices[place] = [len(phase.taps), *pairs, *[0] * (2 * (taps - len(phase.taps)))]
    return [word for place in sorted(slices) for word in slices[place]]
