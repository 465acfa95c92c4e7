"""Reductions of what their kernels do not take as it lies: arrays with gaps, axes that alternate too often.

A kernel gets a copy in which the axes lie as it takes them. Where it has its input made piece by piece, no piece leaves
the nearer caches.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import ArrayDesc, Call, Prepared
from atled_cpu_numba.kernels.reduction.groups import copied_order, on_copy, reduced_of
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.strided_copies import prepare_copy


def prepare(call: Call, prepare_kernel: Callable[[Call], Prepared]) -> Prepared:
    """What a reduction computes, by the kernel for its copy: inputs -> outputs."""
    made, x = on_copy(call), reduced_of(call)
    order, kernel = copied_order(x, call.attributes["axes"]), prepare_kernel(made)
    strides = x.written_strides
    moved = ArrayDesc(tuple(x.shape[axis] for axis in order), x.dtype, tuple(strides[axis] for axis in order))
    rows = Rows(call)
    if call.spec.name == "MaxMinGrad":
        *given, gx = rows.arguments
        copy = rows.between(made.outputs[0])
        rows.add(kernel, *given, copy)
        rows.add(prepare_copy(made.outputs[0], moved), copy, gx)
    else:
        source, *others = rows.arguments
        copied = made.inputs[0]
        assert copied is not None
        rows.add_carrying(prepare_copy(moved, copied), (source,), copied, kernel, *others)
    return rows.finished(f"of a copy; {kernel.note}" if kernel.note else "of a copy")
