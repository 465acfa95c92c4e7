"""The weights of direct convolutions in panels of maps, group by group, which depend on nothing but the weights.

The kernels pack them into their workspace, unless they are given them: the engine keeps what `weights_in_panels` asks
for while the weights are not written.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Pack as PackOf
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, native_of
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class PackGroups:
    """What PACK_GROUPS reads; strides in elements."""

    weight: int  # address
    target: int  # address of the panels
    workspace: int  # for the block of PACK
    pack: int  # address of PACK
    groups: int
    maps: int  # of a group
    k: int  # weights of a map, one behind another
    taps: int  # more than 1: the weights of a map are ordered tap by tap, those of a channel lie one behind another
    width: int  # maps of a panel


def group_elements(maps: int, k: int, width: int) -> int:
    """Elements of the panels of a group."""
    return -(-maps // width) * width * k


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    element = SIZES[dtype]

    @kernel
    def pack_groups(block, part, parts):
        w = words(block)
        inner, maps, k, width = w[PackGroups.workspace], w[PackGroups.maps], w[PackGroups.k], w[PackGroups.width]
        q, taps = words(inner), w[PackGroups.taps]
        # In order: PACK writes a little behind its last panel.
        for group in range(w[PackGroups.groups]):
            q[Pack.source], q[Pack.row], q[Pack.column] = w[PackGroups.weight] + element * group * maps * k, k, 1
            q[Pack.target] = w[PackGroups.target] + element * group * ((maps + width - 1) // width * width * k)
            q[Pack.rows], q[Pack.k], q[Pack.width] = maps, k, width
            if taps == 1:
                call3(w[PackGroups.pack], inner, 0, 1)
                continue
            source, target = q[Pack.source], q[Pack.target]
            q[Pack.column], q[Pack.k] = taps, k // taps
            for panel in range((maps + width - 1) // width):  # a range with a step that is a variable could raise
                first = panel * width
                q[Pack.rows] = min(width, maps - first)
                for tap in range(taps):
                    q[Pack.source] = source + element * (first * k + tap)
                    q[Pack.target] = target + element * (first * k + tap * (k // taps) * width)
                    call3(w[PackGroups.pack], inner, 0, 1)
        return 0

    return pack_groups


PACK_GROUPS = kernels_by_dtype("pack_groups", _build)


def weights_in_panels(word: int, groups: int, maps: int, k: int, width: int, dtype: str, taps: int = 1) -> PackOf:
    """The weights of a convolution, its second input, for a word of its block.

    maps: of a group.  k: weights of a map.
    taps: of a channel, where the order of the sums is tap by tap; 1 where it is channel by channel.
    """
    words = filled(PackGroups, pack=PACK[dtype].address(), groups=groups, maps=maps, k=k, width=width, taps=taps)
    arguments = PackGroups.weight, PackGroups.target, PackGroups.workspace
    nbytes = SIZES[dtype] * (groups * group_elements(maps, k, width) + PACK_SLACK)
    form = "panels of maps", groups, maps, k, width, dtype, taps
    return PackOf(1, word, form, nbytes, native_of(PACK_GROUPS[dtype], words, arguments), workspace=8 * BLOCK_WORDS)
