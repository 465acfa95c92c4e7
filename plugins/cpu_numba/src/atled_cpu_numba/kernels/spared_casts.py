"""A cast of an input that is not needed where the kernel behind it has been given a pack of that input."""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.layout import layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What the kernel reads."""

    packed: int  # address of the pack, or 0
    kernel: int  # of the cast
    block: int  # its block


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def spared_cast(block, part, parts):
        w = words(block)
        if w[Block.packed] != 0:
            return 0
        return call3(w[Block.kernel], w[Block.block], part, parts)

    return spared_cast


SPARED_CAST = Kernel("spared_cast", _build)
