"""The piece that convolutions by slices share: collecting what slices of the result see into one array.

COLLECT_SLICES is a kernel of its own, called by address with a block in the caller's workspace. Its block:
    0 source, address of whole images         1 target
    2 first slice, 3 slices taken             counted through all images
    4 slices per image, 5 taps                6 address of the slices: each a word, then a word for each tap
    7 planes per image of the source, in the array; 8 first plane to take, 9 planes to take
    10 slices of each plane, 11 elements of a slice
The target has, slice by slice and plane by plane, the elements that each tap sees, zeros for those outside. Without
taps, the word of a slice itself says which elements to take.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.store import Kernel

BLOCK_WORDS = 16  # room that a caller reserves for the block


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    @kernel
    def collect_slices(block, part, parts):
        w = words(block)
        to, slices, taps, elements = w[1], w[4], w[5], w[11]
        for number in range(w[2], w[2] + w[3]):
            image = number // slices
            seen = w[6] + 8 * (number - image * slices) * (1 + taps)
            if taps > 0:
                seen += 8
            for plane in range(w[8], w[8] + w[9]):
                source = w[0] + 4 * (image * w[7] + plane) * w[10] * elements
                for t in range(max(1, taps)):
                    place = words(seen)[t]
                    if place >= 0:
                        copy_rows((source + 4 * place * elements, elements, to, elements, 1, elements))
                    else:
                        zeros = floats32(to)
                        for i in range(elements):
                            zeros[i] = 0.0
                    to += 4 * elements
        return 0

    return collect_slices


COLLECT_SLICES = Kernel("collect_slices", _build)
