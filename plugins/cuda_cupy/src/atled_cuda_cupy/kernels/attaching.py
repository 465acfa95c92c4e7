"""Formulas of other steps, written for the kernels that take them in."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from atled.plugin import CUDA, Call, Stored, write_attached_c
from atled_cuda_cupy.compiling import STORED_TYPES


def attached_text(
    call: Call, *, reads: Sequence[int] = (), stores: Sequence[int] = (), real: str = "float", once: bool = False
) -> str:
    """READ_0, STORE_0 and OPERANDS of a call, to be put before the source of a kernel.

    reads, stores: positions of inputs and outputs that the kernel reads and stores by macros, in elements of their
        dtypes and of any shape: the macros convert.  real: what it computes in, "float" or "double".
    OPERANDS stands behind the kernel's own arrays; what it declares is given in the order of `call.split`. The floats
    of formulas are those of the launch.
    once: whether the kernel has NUMBERS among its declarations: a thread then reads the floats once, not per element.
    """
    text = write_attached_c(
        call,
        reads=reads,
        stores=stores,
        real=real,
        dialect=CUDA,
        numbers=("", "number_{}" if once else "number(floats, {})"),
        storage=_storage(),
        index="index_t",
    )
    numbers = (f"const double number_{n} = number(floats, {n});" for n in range(call.float_count))
    return text + f"#define NUMBERS {' '.join(numbers)}\n" if once else text


@functools.cache
def _storage() -> Mapping[str, Stored]:
    return {dtype: Stored(kind, "load({})", f"store<{kind}>({{}})") for dtype, kind in STORED_TYPES.items()}
