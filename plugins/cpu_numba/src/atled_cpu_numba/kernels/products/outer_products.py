"""Products of one term, such as the gradient of a weight by a single sample: each number of a column times a row.

Nothing is added up: the formula that multiplies arrays of which one is repeated writes y at the speed of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.plugin import ArrayDesc, Native, Prepared, is_narrow, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.products.matmul_plan import Product
from atled_cpu_numba.kernels.shared.layout import NO_WORD

NAME = "formula"
"""Of the way, and the note."""


def can(p: Product, arguments: Sequence[str | None]) -> bool:
    """Whether it is one, without a bias; arguments: as of `prepare`."""
    return p.k == 1 and not p.is_in_groups and "bias" not in arguments


def prepare(p: Product, arguments: Sequence[str | None], dtype: np.dtype) -> Prepared:
    """The call; arguments: what its inputs are, "a" or "b" or None, and last "y".  dtype: of all of them."""
    a = ArrayDesc((p.batch, p.m, 1), dtype, (p.a_batch, p.a_row, 1))
    b = ArrayDesc((p.batch, 1, p.n), dtype, (p.b_batch, 1, p.b_column))
    y = ArrayDesc((p.batch, p.m, p.n), dtype, (p.y_batch, p.y_row, 1))
    program = op_spec("Mul2").program
    assert program is not None
    native = elementwise.prepare_program(program, (a, b), (y,), "float32" if is_narrow(dtype) else None).native
    assert native is not None
    words = dict(zip(("a", "b", "y"), native.arguments, strict=True))
    return Prepared(
        native=Native(
            native.address,
            native.block,
            tuple(NO_WORD if name is None else words[name] for name in arguments),
            parts=native.parts,
            owner=native.owner,
        ),
        note=NAME,
    )
