"""Filters of single planes with strides of 2: the gradients and the adjoint of depthwise convolution.

Both work on flat planes of phases, see `phases`, in a workspace that stays in the nearer caches. The adjoint copies
a plane of gy to one with zeros in between, filters it to the even and the odd rows of a padded plane, and copies what
is not padding to gx. The gradient of the weight sorts a plane of x into four and multiplies them by gy.

Shares are made of planes of gx or x, the latter of all images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import STREAMED_BYTES, kernels_by_dtype, launch, optional_words, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

_KERNELS: tuple[Pair, ...] = ((3, 3), (5, 5))
_MOST_SHARE_BYTES = 640 << 10  # most of a level-2 cache
_PRODUCTS_PER_US = 15e3  # a cautious rate of one core, for the number of shares
_NOTE = "depthwise, phases of strides in vectors"


@layout
class Block:
    """What both kernels read; lengths in elements."""

    source: int  # address of gy, or of x
    factor: int  # of the weight, or of gy
    bias: int  # or 0
    result: int  # gx, or gw
    workspace: int
    share_bytes: int  # of workspace
    images: int
    planes: int  # of gx or x, per image
    per_plane: int  # filters
    height: int  # of gx or x
    width: int
    rows: int  # of gy
    columns: int
    pad_h: int
    pad_w: int
    pitch: int  # of all rows of phases
    gy_length: int  # of a plane of gy
    phase_length: int  # of one phase of x, or of the even or odd rows of gx
    front: int  # before the first element of gy
    positions: int  # to compute
    kernel: int  # its number in _KERNELS
    after: int  # range kernel to run on what is written of gx, or 0
    after_block: int
    buffer: int  # bytes of a share before a buffer for a plane of gx that is written past the caches, or 0


class Problem(NamedTuple):
    """What a depthwise convolution x -> y with strides of 2 needs for its gradients.

    planes: of x, per image; per_plane: of y from one of them.  source, result: height and width of x and y.
    """

    images: int
    planes: int
    per_plane: int
    source: Pair
    result: Pair
    kernel: Pair
    pad: Pair
    dtype: str


class _Sizes(NamedTuple):
    """Counts of elements in the workspace of a share, which the block repeats.

    gy: of one of its planes.  other: of one phase of x, or of the even rows of gx, or of the odd ones.
    """

    pitch: int
    positions: int
    gy: int
    other: int
    front: int


def suits(problem: Problem, stride: Pair, dilation: Pair) -> bool:
    """Whether both gradients can be computed here."""
    if problem.kernel not in _KERNELS or (stride, dilation) != ((2, 2), (1, 1)):
        return False
    return max(_adjoint_bytes(problem), _weight_bytes(problem)) <= _MOST_SHARE_BYTES


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.depthwise.phases import make_spread
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.past_caches import make_move_lines, settle_lines
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows, move_lines = make_copy_rows(dtype), make_move_lines(dtype)
    spread_3, spread_5 = (make_spread(size, dtype) for size in _KERNELS)

    @kernel
    def depthwise_strided(block, part, parts):
        w = words(block)
        planes, terms, height, width = w[Block.planes], w[Block.per_plane], w[Block.height], w[Block.width]
        rows, columns = w[Block.rows], w[Block.columns]
        pad_h, pad_w, pitch, gy_length = w[Block.pad_h], w[Block.pad_w], w[Block.pitch], w[Block.gy_length]
        length, front = w[Block.phase_length], w[Block.front]
        taps = 9 if w[Block.kernel] == 0 else 25
        gy_at = w[Block.workspace] + part * w[Block.share_bytes]
        y_at, no_bias = gy_at + element * terms * gy_length, gy_at + w[Block.share_bytes] - 64
        padded = floats(gy_at)
        for i in range(terms * gy_length):
            padded[i] = 0.0
        floats(no_bias)[0] = 0.0
        streams = w[Block.buffer] != 0 and w[Block.after] == 0
        for unit in range(w[Block.images] * planes * part // parts, w[Block.images] * planes * (part + 1) // parts):
            plane = unit % planes
            for term in range(terms):
                to = gy_at + element * (term * gy_length + front)
                gy = w[Block.source] + element * (unit * terms + term) * rows * columns
                copy_rows((gy, columns, to, pitch, rows, columns))
            source = gy_at + element * (front + pad_h // 2 * pitch)
            weight = w[Block.factor] + element * plane * terms * taps
            begin = w[Block.bias] + element * plane if w[Block.bias] != 0 else no_bias
            if taps == 9:
                spread_3((source, pitch, gy_length, terms, weight, begin, y_at, length, w[Block.positions]))
            else:
                spread_5((source, pitch, gy_length, terms, weight, begin, y_at, length, w[Block.positions]))
            gx = w[Block.result] + element * unit * height * width
            to = gy_at + w[Block.buffer] + gx % 64 if streams else gx
            for i in range(2):  # every second row of gx
                row = pad_h % 2 + i  # of those computed of the padded plane
                at = y_at + element * (row % 2 * length + row // 2 * 2 * pitch + pad_w)
                copy_rows((at, 2 * pitch, to + element * i * width, 2 * width, (height + 1 - i) // 2, width))
            if streams:
                move_lines((to, gx, height * width))
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], unit * height * width, (unit + 1) * height * width)
        if streams:
            settle_lines((0,))
        return 0

    return depthwise_strided


def _build_weight(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.depthwise.columns import make_store_total
    from atled_cpu_numba.kernels.depthwise.phases import make_collect, make_split_pairs
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows = make_copy_rows(dtype)
    vector, store_total, split_pairs = lanes_of(dtype).vector, make_store_total(dtype), make_split_pairs(dtype)
    collect_3, collect_5 = (make_collect(size, dtype) for size in _KERNELS)

    @kernel
    def depthwise_strided_weight(block, part, parts):
        w = words(block)
        images, planes, per_plane, height = w[Block.images], w[Block.planes], w[Block.per_plane], w[Block.height]
        width, rows, columns = w[Block.width], w[Block.rows], w[Block.columns]
        pad_h, pad_w, pitch, gy_length = w[Block.pad_h], w[Block.pad_w], w[Block.pitch], w[Block.gy_length]
        length, positions = w[Block.phase_length], w[Block.positions]
        taps = 9 if w[Block.kernel] == 0 else 25
        gy_at = w[Block.workspace] + part * w[Block.share_bytes]
        x_at = gy_at + element * gy_length
        sums_at = x_at + 4 * element * length
        padded, sums = floats(gy_at), floats(sums_at)
        for i in range(gy_length + 4 * length):
            padded[i] = 0.0
        seen = min(height, 2 * rows + (2 if taps == 9 else 4) - pad_h)
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            for i in range(per_plane * taps * vector):
                sums[i] = 0.0
            for image in range(images):
                unit = image * planes + plane
                for i in range(2):
                    a, q = (pad_h + i) % 2, (pad_h + i) // 2
                    x = w[Block.source] + element * (unit * height + i) * width
                    to = x_at + element * (2 * a * length + q * pitch)
                    split_pairs(
                        (x, 2 * width, width, -pad_w, (seen + 1 - i) // 2, to, length, pitch, planes * height * width)
                    )
                for term in range(per_plane):
                    gy = w[Block.factor] + element * (unit * per_plane + term) * rows * columns
                    copy_rows((gy, columns, gy_at, pitch, rows, columns))
                    to = sums_at + element * term * taps * vector
                    if taps == 9:
                        collect_3((x_at, length, pitch, gy_at, positions, to))
                    else:
                        collect_5((x_at, length, pitch, gy_at, positions, to))
            gw = w[Block.result] + element * plane * per_plane * taps
            for i in range(per_plane * taps):
                store_total((sums_at + element * vector * i, gw + element * i))
        return 0

    return depthwise_strided_weight


DEPTHWISE_STRIDED = kernels_by_dtype("depthwise_strided", _build)
DEPTHWISE_STRIDED_WEIGHT = kernels_by_dtype("depthwise_strided_weight", _build_weight)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The adjoint, y -> x; biases: for each input behind the weight, whether it is there."""
    parts, share_bytes = _parts(problem, problem.images * problem.planes), _adjoint_bytes(problem)
    plane, buffer = math.prod(problem.source), 0
    if SIZES[problem.dtype] * problem.images * problem.planes * plane >= STREAMED_BYTES:
        # In front of what the kernel takes from the end.
        buffer = share_bytes - 64
        share_bytes += SIZES[problem.dtype] * _in_lines(plane) + 64
    arguments = (Block.source, Block.factor, *optional_words(Block.bias, biases), Block.result, Block.workspace)
    return _launch(
        DEPTHWISE_STRIDED[problem.dtype], problem, arguments, parts, share_bytes, _adjoint_sizes(problem), buffer
    )


def prepare_weight(problem: Problem) -> Prepared:
    """The gradient with respect to the weight; x, gy -> gw."""
    parts, share_bytes = _parts(problem, problem.planes), _weight_bytes(problem)
    arguments = (Block.source, Block.factor, Block.result, Block.workspace)
    return _launch(
        DEPTHWISE_STRIDED_WEIGHT[problem.dtype], problem, arguments, parts, share_bytes, _weight_sizes(problem)
    )


def _adjoint_sizes(problem: Problem) -> _Sizes:
    (rows, columns), (kernel_h, kernel_w) = problem.result, problem.kernel
    # Half of the padded plane's rows and columns that gx needs; windows to its left see zeros behind the row before.
    bottom, right = ((p + n + 1) // 2 for p, n in zip(problem.pad, problem.source, strict=True))
    pitch = max(columns + (kernel_w - 1) // 2, right)
    front = (kernel_h - 1) // 2 * pitch + (kernel_w - 1) // 2
    positions = (bottom - problem.pad[0] // 2) * pitch
    step = 4 * lanes_of(problem.dtype).vector
    gy = front + max(rows, bottom) * pitch + step
    return _Sizes(pitch, positions, _in_lines(gy), _in_lines(2 * positions + step), front)


def _weight_sizes(problem: Problem) -> _Sizes:
    (rows, columns), (kernel_h, kernel_w) = problem.result, problem.kernel
    pitch = columns + (kernel_w - 1) // 2
    slack = 2 * lanes_of(problem.dtype).vector + pitch
    positions = (rows - 1) * pitch + columns
    x = (rows + (kernel_h - 1) // 2) * pitch + slack
    return _Sizes(pitch, positions, _in_lines(rows * pitch + slack), _in_lines(x), 0)


def _adjoint_bytes(problem: Problem) -> int:
    sizes = _adjoint_sizes(problem)
    return SIZES[problem.dtype] * (problem.per_plane * sizes.gy + 2 * sizes.other) + 64


def _weight_bytes(problem: Problem) -> int:
    sizes = _weight_sizes(problem)
    sums = problem.per_plane * problem.kernel[0] * problem.kernel[1] * lanes_of(problem.dtype).vector
    return SIZES[problem.dtype] * (sizes.gy + 4 * sizes.other + _in_lines(sums))


def _in_lines(elements: int) -> int:
    """So many elements as whole lines of the caches."""
    return -(-elements // 16) * 16


def _parts(p: Problem, units: int) -> int:
    products = p.images * p.planes * p.per_plane * p.kernel[0] * p.kernel[1] * p.result[0] * p.result[1]
    return share_count(products / _PRODUCTS_PER_US, units)


def _launch(
    kernel: Kernel, p: Problem, arguments: Sequence[int], parts: int, share_bytes: int, sizes: _Sizes, buffer: int = 0
) -> Prepared:
    words = filled(
        Block,
        share_bytes=share_bytes,
        images=p.images,
        planes=p.planes,
        per_plane=p.per_plane,
        height=p.source[0],
        width=p.source[1],
        rows=p.result[0],
        columns=p.result[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        pitch=sizes.pitch,
        gy_length=sizes.gy,
        phase_length=sizes.other,
        front=sizes.front,
        positions=sizes.positions,
        kernel=_KERNELS.index(p.kernel),
        buffer=buffer,
    )
    after = {0: Block.after} if kernel is DEPTHWISE_STRIDED[p.dtype] else None
    note = _NOTE + (", past the caches" if buffer else "")
    return launch(kernel, words, arguments, parts=parts, workspace=share_bytes * parts, after=after, note=note)
