"""The weight of a recurrent layer as its steps multiply by it, which depends on nothing but the weight.

The kernels pack it at each call, unless they are given it: the engine keeps what `weight_packed` asks for while the
weight is not written.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Pack as PackOf
from atled_cpu_numba.kernels.products.matmul_plan import round_up
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, native_of
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class PackWeight:
    """What PACK_WEIGHT reads."""

    weight: int  # address: (maps, size, depth + size)
    target: int  # address of the panels: of x, of h for the maps that add to those of x, then of h for the others
    workspace: int  # for the block of PACK
    pack: int  # address of PACK
    maps: int  # per unit
    separate: int  # of them: the last ones, whose product with h is not added to that with x
    depth: int  # of x
    size: int  # units
    columns: int  # of a panel


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.recurrent.products import pieces_of
    from atled_cpu_numba.kernels.shared.options import kernel

    element, pieces = SIZES[dtype], pieces_of(dtype)
    pack_weight, padded = pieces.pack_weight, pieces.padded

    @kernel
    def pack_recurrent(block, part, parts):
        w = words(block)
        pack, inner, weight, packed_x = (
            w[PackWeight.pack],
            w[PackWeight.workspace],
            w[PackWeight.weight],
            w[PackWeight.target],
        )
        maps, separate, depth, size = (
            w[PackWeight.maps],
            w[PackWeight.separate],
            w[PackWeight.depth],
            w[PackWeight.size],
        )
        row, joined, columns = depth + size, maps - separate, w[PackWeight.columns]
        packed_h = packed_x + element * padded(maps * size, columns) * depth
        packed_new = packed_h + element * padded(joined * size, columns) * size
        pack_weight(pack, inner, weight, row, 1, maps * size, depth, packed_x, columns)
        pack_weight(pack, inner, weight + element * depth, row, 1, joined * size, size, packed_h, columns)
        if separate > 0:
            start = weight + element * (joined * size * row + depth)
            pack_weight(pack, inner, start, row, 1, separate * size, size, packed_new, columns)
        return 0

    return pack_recurrent


PACK_WEIGHT = kernels_by_dtype("pack_recurrent", _build)


def packed_bytes(maps: int, separate: int, depth: int, size: int, columns: int, dtype: str) -> int:
    """Bytes of the panels of so many columns, those behind the last one included."""
    floats = round_up(maps * size, columns) * depth + round_up((maps - separate) * size, columns) * size
    floats += round_up(separate * size, columns) * size if separate else 0
    return SIZES[dtype] * (floats + PACK_SLACK)


def weight_packed(
    word: int, operand: int, dtype: str, *, maps: int, separate: int, depth: int, size: int, columns: int
) -> PackOf:
    """The weight, input number `operand` of a recurrent layer, for a word of its block."""
    sizes = {"maps": maps, "separate": separate, "depth": depth, "size": size, "columns": columns}
    words = filled(PackWeight, pack=PACK[dtype].address(), **sizes)
    native = native_of(PACK_WEIGHT[dtype], words, (PackWeight.weight, PackWeight.target, PackWeight.workspace))
    form = "recurrent", *sizes.values(), dtype
    return PackOf(operand, word, form, packed_bytes(**sizes, dtype=dtype), native, workspace=8 * BLOCK_WORDS)
