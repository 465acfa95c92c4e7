"""numba pieces that kernels on images with the batch innermost share; vectors hold the same element of many images."""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.shared.lanes import host_lanes

SIDE = 6  # of a tile of Winograd's that is read


def make_taken() -> Any:
    """A piece taken(left): how many of the rows that are left the next register tile takes.

    All of a tile, but of a few more than that two thirds: two tiles of that size do more at once than a whole one and a
    third.
    """
    from atled_cpu_numba.kernels.shared.options import inlined

    rows = host_lanes().rows
    third, two_thirds = rows // 3, 2 * rows // 3

    @inlined
    def taken(left):
        return two_thirds if rows < left <= rows + third else min(left, rows)

    return taken


def make_read_tile() -> Any:
    """A piece read_tile(source, row, column, top, left, height, width, stage, target, step, ahead): Winograd's B' d B.

    source: address of a plane for a vector of images, rows and columns of elements `row` and `column` apart.
    top, left: where the tile begins in it, zeros outside.  stage: workspace of 36 vectors.
    target: 36 vectors, `step` apart.  ahead: bytes from the tile to one that will be read soon.
    """
    from atled_cpu_numba.codegen import floats32
    from atled_cpu_numba.kernels.chwn.products import make_prefetch
    from atled_cpu_numba.kernels.shared.options import piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy
    from atled_cpu_numba.kernels.winograd.blocks import tiles_of

    vector, apart_input_tile = host_lanes().vector, tiles_of("float32").apart_input
    copy, prefetch = make_copy(vector), make_prefetch(SIDE, SIDE)

    @piece
    def read_tile(source, row, column, top, left, height, width, stage, target, step, ahead):
        at = source + 4 * (top * row + left * column)
        prefetch((at + ahead, row, column))
        if top < 0 or left < 0 or top + SIDE > height or left + SIDE > width:
            zeros = floats32(stage)
            for i in range(SIDE * SIDE * vector):
                zeros[i] = 0.0
            for i in range(max(0, -top), min(SIDE, height - top)):
                for j in range(max(0, -left), min(SIDE, width - left)):
                    copy((at + 4 * (i * row + j * column), stage + 4 * vector * (SIDE * i + j)))
            at, row, column = stage, SIDE * vector, vector
        apart_input_tile((at, row, column, target, step))

    return read_tile


def make_put() -> Any:
    """A piece put(source, target, image): a vector of images to memory in which they are `image` elements apart."""
    from atled_cpu_numba.codegen import floats32
    from atled_cpu_numba.kernels.shared.options import inlined
    from atled_cpu_numba.kernels.shared.vectors import make_copy

    vector = host_lanes().vector
    copy = make_copy(vector)

    @inlined
    def put(source, target, image):
        if image == 1:
            copy((source, target))
        else:
            for i in range(vector):
                floats32(target + 4 * i * image)[0] = floats32(source)[i]

    return put
