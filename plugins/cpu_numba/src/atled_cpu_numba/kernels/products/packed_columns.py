"""The second matrix of a product in panels of columns, step by step of the sums.

A product packs or copies it while it multiplies, unless it is given it: the engine keeps what `columns_in_panels` asks
for while the matrix is not written.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Pack as PackOf
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, Pack
from atled_cpu_numba.kernels.products.row_products import packed_bytes
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, native_of
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class PackSteps:
    """What PACK_STEPS reads; strides in elements."""

    source: int  # address of the matrix, (k, n)
    target: int  # address of the panels
    workspace: int  # for the block of PACK
    pack: int  # address of PACK
    k: int
    n: int
    row: int  # strides of the matrix
    column: int
    k_step: int  # rows of it that are packed at a time: behind all panels of a step come those of the next
    width: int  # columns of a panel


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    element = SIZES[dtype]

    @kernel
    def pack_steps(block, part, parts):
        w = words(block)
        inner, k, n, k_step = w[PackSteps.workspace], w[PackSteps.k], w[PackSteps.n], w[PackSteps.k_step]
        q, columns = words(inner), w[PackSteps.width]
        padded = (n + columns - 1) // columns * columns
        # In order: PACK writes a little behind its last panel.
        for step in range((k + k_step - 1) // k_step):  # a range with a step that is a variable could raise
            k0 = step * k_step
            q[Pack.source] = w[PackSteps.source] + element * k0 * w[PackSteps.row]
            q[Pack.row], q[Pack.column], q[Pack.rows] = w[PackSteps.column], w[PackSteps.row], n
            q[Pack.k], q[Pack.width] = min(k_step, k - k0), columns
            q[Pack.target] = w[PackSteps.target] + element * k0 * padded
            call3(w[PackSteps.pack], inner, 0, 1)
        return 0

    return pack_steps


PACK_STEPS = kernels_by_dtype("pack_steps", _build)


def columns_in_panels(
    word: int, operand: int, dtype: str, sizes: tuple[int, int], strides: tuple[int, int], k_step: int, columns: int
) -> PackOf:
    """A matrix that is input number `operand` of a product, for a word of its block, in panels of so many columns.

    sizes: (k, n).
    """
    k, n = sizes
    places = {"k": k, "n": n, "row": strides[0], "column": strides[1], "k_step": k_step, "width": columns}
    words = filled(PackSteps, pack=PACK[dtype].address(), **places)
    native = native_of(PACK_STEPS[dtype], words, (PackSteps.source, PackSteps.target, PackSteps.workspace))
    form = "panels of columns", dtype, sizes, strides, k_step, columns
    return PackOf(operand, word, form, packed_bytes(k, n, dtype, columns), native, workspace=8 * BLOCK_WORDS)
