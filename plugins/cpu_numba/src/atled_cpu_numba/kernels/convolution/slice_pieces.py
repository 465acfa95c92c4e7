"""Collecting what slices of a result see into one array: a piece that convolutions by slices call by address.

COLLECT_SLICES is a kernel of its own, called by address with a block in the caller's workspace. The
target has, slice by slice and plane by plane, the elements that each tap sees, zeros for those outside. Without taps,
the word of a slice itself says which elements to take.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import layout

BLOCK_WORDS = 16  # room that a caller reserves for the block


@layout
class CollectSlices:
    """The block of COLLECT_SLICES."""

    source: int  # address of whole images
    target: int
    first: int  # slice, counted through all images
    taken: int  # slices
    slices: int  # of the result, per image
    taps: int
    table: int  # address of the slices: each a word, then a word for each tap
    image_planes: int  # planes per image of the source, in the array
    first_plane: int  # to take
    planes: int  # to take
    plane_slices: int  # of the source, in each plane
    elements: int  # of a slice


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows = make_copy_rows(dtype)

    @kernel
    def collect_slices(block, part, parts):
        w = words(block)
        to, slices, taps = w[CollectSlices.target], w[CollectSlices.slices], w[CollectSlices.taps]
        elements = w[CollectSlices.elements]
        for number in range(w[CollectSlices.first], w[CollectSlices.first] + w[CollectSlices.taken]):
            image = number // slices
            seen = w[CollectSlices.table] + 8 * (number - image * slices) * (1 + taps)
            if taps > 0:
                seen += 8
            for plane in range(w[CollectSlices.first_plane], w[CollectSlices.first_plane] + w[CollectSlices.planes]):
                source = (
                    w[CollectSlices.source]
                    + element
                    * (image * w[CollectSlices.image_planes] + plane)
                    * w[CollectSlices.plane_slices]
                    * elements
                )
                for t in range(max(1, taps)):
                    place = ints64(seen)[t]
                    if place >= 0:
                        copy_rows((source + element * place * elements, elements, to, elements, 1, elements))
                    else:
                        zeros = floats(to)
                        for i in range(elements):
                            zeros[i] = 0.0
                    to += element * elements
        return 0

    return collect_slices


COLLECT_SLICES = kernels_by_dtype("collect_slices", _build)
