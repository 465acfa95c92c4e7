"""The walk over the results of filters of single planes: from which plane each is, and who sees it afterwards."""

from __future__ import annotations

from typing import Any

LEAST_AFTER = 1024  # elements of planes that `after` sees together: calls for each of the smallest take longer


def make_plane_walk(block: Any, filter_plane: Any) -> Any:
    """A function that computes a share of the results, for kernels to be inlined in.

    walk(w, part, parts, size, own): `size` elements of each result, of a block that begins with the words of `Filter`.
    filter_plane(w, own, unit, end, number, plane): computes result `unit` of those up to `end`, which is the filter
    `number` of an image on the plane `plane` of all. own is what the walk was given.
    """
    from atled_cpu_numba.codegen import call3
    from atled_cpu_numba.kernels.shared.options import piece

    @piece
    def walk(w, part, parts, size, own):
        results, per_plane = w[block.results], w[block.per_plane]
        units = w[block.images] * results
        first, end = units * part // parts, units * (part + 1) // parts
        begin = first * size  # of what `after` is to see
        for unit in range(first, end):
            image = unit // results
            number = unit - image * results
            filter_plane(w, own, unit, end, number, image * (results // per_plane) + number // per_plane)
            behind = (unit + 1) * size
            if w[block.after] != 0 and (unit + 1 == end or behind - begin >= LEAST_AFTER):
                call3(w[block.after], w[block.after_block], begin, behind)
                begin = behind

    return walk
