"""1 x 1 convolutions of images of one position, as behind a mean over all of them: a dot product for each map.

The channels of an image lie side by side, and so do those of a map's weight, which is read as it is, once for all
images: for products, whose panels are of positions, all but one lane of each vector would be empty.

As many maps as a vector has lanes are summed up side by side. Transposed, their sums are added lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, launch, optional_words, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_MOST_IMAGES = 4  # of more of them, panels of products are full enough
_WEIGHTS_PER_US = 5e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    x: int  # address of (images, channels)
    weight: int  # of (maps, channels)
    bias: int  # or 0
    y: int  # of (images, maps)
    images: int
    channels: int
    maps: int
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


class Problem(NamedTuple):
    """A 1 x 1 convolution of one group, whose images have one position."""

    images: int
    channels: int
    maps: int
    dtype: str


def suits(p: Problem) -> bool:
    """Whether it pays: of some images, products read the weight as often, and multiply whole vectors of images."""
    return p.images <= _MOST_IMAGES


def _make_dots(dtype: str) -> Any:
    """An intrinsic for a vector of dot products.

    dots((k, a, b, s, s_count, c, count)):
    k: length of the products, 1 or more.  a: A[i] at a[i].  b: B[j, i] at b[j * k + i].
    c: C[j] = S[j] + sum of A[i] * B[j, i], for j < count: 1 up to the lanes.  s: S[j] at s[j] for j < s_count, else 0.
    """
    from atled_cpu_numba.kernels.shared.vectors import transpose_registers, vector_intrinsic

    def generate(w, k, a, b, s, s_count, c, count):
        builder = w.builder
        a, b, s, c = (w.pointer(address) for address in (a, b, s, c))
        last = builder.sub(count, w.number(1))
        rows = []
        for j in range(w.width):  # those behind the last one are that one again
            row = builder.select(builder.icmp_signed("<", w.number(j), last), w.number(j), last)
            rows.append(w.at(b, builder.mul(row, k)))
        rounds = builder.sdiv(k, w.number(w.width))
        with w.counted(rounds, [w.zeros] * w.width) as (i, sums, following):
            at = builder.mul(i, w.number(w.width))
            value = w.load(w.at(a, at))
            following += [w.multiply_add(w.load(w.at(row, at)), value, sums[j]) for j, row in enumerate(rows)]
        at = builder.mul(rounds, w.number(w.width))
        left = builder.sub(k, at)
        is_left = builder.zext(builder.icmp_signed(">", left, w.number(0)), left.type)
        with w.counted(is_left, following) as (_, sums, ended):
            mask = w.first_lanes(left)
            value = w.load_masked(w.at(a, at), mask)
            ended += [w.multiply_add(w.load_masked(w.at(row, at), mask), value, sums[j]) for j, row in enumerate(rows)]
        transpose_registers(w, ended)
        total = reduce(builder.fadd, ended, w.load_masked(s, w.first_lanes(s_count)))
        w.store_masked(total, c, w.first_lanes(count))

    return vector_intrinsic("dots", 7, generate, "A vector of dot products; see _make_dots.", dtype)


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.lanes import SIZES
    from atled_cpu_numba.kernels.shared.options import kernel

    vector, element, dots = lanes_of(dtype).vector, SIZES[dtype], _make_dots(dtype)

    @kernel
    def one_position(block, part, parts):
        w = words(block)
        x, y, images, channels, maps = w[Block.x], w[Block.y], w[Block.images], w[Block.channels], w[Block.maps]
        pieces = (maps + vector - 1) // vector
        first, last = pieces * part // parts * vector, min(maps, pieces * (part + 1) // parts * vector)
        for piece in range((last - first + vector - 1) // vector):
            j = first + piece * vector
            count = min(vector, last - j)
            weight, bias = w[Block.weight] + element * j * channels, w[Block.bias] + element * j
            for image in range(images):
                a, c = x + element * image * channels, y + element * (image * maps + j)
                dots((channels, a, weight, bias, count if w[Block.bias] != 0 else 0, c, count))
        if w[Block.after] != 0 and first < last:
            for image in range(images):
                call3(w[Block.after], w[Block.after_block], image * maps + first, image * maps + last)
        return 0

    return one_position


ONE_POSITION = kernels_by_dtype("one_position", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """x, weight, what is added if it is there -> y."""
    p = problem
    parts = share_count(p.images * p.channels * p.maps / _WEIGHTS_PER_US, -(-p.maps // lanes_of(p.dtype).vector))
    words = filled(Block, images=p.images, channels=p.channels, maps=p.maps)
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y)
    return launch(
        ONE_POSITION[p.dtype], words, arguments, parts=parts, after={0: Block.after}, note="1x1, dot products"
    )
