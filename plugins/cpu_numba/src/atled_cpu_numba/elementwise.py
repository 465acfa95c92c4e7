"""Elementwise ops: their formulas compiled to machine code, one kernel per program and layout."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.plugin import (
    FORMULA_DTYPES,
    ArrayDesc,
    Call,
    Layout,
    LayoutPlan,
    Native,
    Prepared,
    Program,
    has_powers,
    plan_layout,
    register_cache,
)
from atled_cpu_numba import machine_code
from atled_cpu_numba.kernels.shared.launch import is_brief, share_count
from atled_cpu_numba.processor import has_fused_instructions, has_half_instructions, has_masked_stores
from atled_cpu_numba.stepped import MOST_ELEMENTS, Steps
from atled_cpu_numba.store import TransientKernel

# Nanoseconds per element on one core of a current x86 machine, for the number of shares: reading or writing an
# operand from beyond the level-2 cache, an arithmetic operation, and a function such as tanh.
_OPERAND_NS = 0.1
_FUNCTION_NS = 0.2

_INSTRUCTIONS = frozenset(("abs", "and", "maximum", "minimum", "neg", "not", "or", "where"))  # which are no functions

# Of all operands together: half of what the caches of current processors hold, so that what is written is not there any
# more when it is read again.
_STREAMED_BYTES = 32 << 20

_COPY = Program(("x",), (), (("y", "x"),))


def program_of(call: Call) -> Program | None:
    """The formula that computes a call, if it has one."""
    spec = call.spec
    return _COPY if spec.program is None and (spec.copies or spec.name == "Cast") else spec.program


def accepts(call: Call) -> bool | str:
    """Every op with a formula, for the dtypes that the formula compiler writes."""
    program = program_of(call)
    if program is None:
        return "has no scalar formula"
    for desc in (*call.inputs, *call.outputs):
        if desc is not None and not _is_known(desc.dtype):
            return f"the formula compiler does not know {desc.dtype}"
    if call.has_integers and call.compute_dtype.kind in "iub" and has_powers(program):
        return "the formula compiler has no powers of integers"
    return True


@functools.cache
def _is_known(dtype: np.dtype[Any]) -> bool:
    return dtype.name in FORMULA_DTYPES  # a name takes 3 us


def prepare(call: Call) -> Prepared:
    """Lay the formula out over the call's shapes; its kernel is compiled, or found, when it is to be launched."""
    program = program_of(call)
    assert program is not None
    inputs = [desc for desc in call.inputs if desc is not None]
    return prepare_program(program, inputs, call.outputs, call.compute_dtype.name)


def prepare_program(
    program: Program, inputs: Sequence[ArrayDesc], outputs: Sequence[ArrayDesc], compute: str | None = None
) -> Prepared:
    """The kernel of a formula on such arrays.  compute: the dtype in which it is computed, by default the output's."""
    operands = [*inputs, *outputs]
    shapes, dtypes = [desc.shape for desc in operands], [desc.dtype for desc in operands]
    strides = [desc.strides for desc in operands]
    plan = plan_layout(program, shapes, dtypes, compute or outputs[0].dtype.name, strides)
    is_large = sum(desc.nbytes for desc in operands) >= _STREAMED_BYTES
    # What is changed in place is in the cache when it is written.
    kernel = _kernel(program, plan.layout, streamed=is_large and not plan.layout.rank and not program.in_place)
    ranges = _Ranges(program, plan.layout) if plan.layout.in_order else None
    size = max(desc.size for desc in outputs)
    work_us = size * (_OPERAND_NS * len(operands) + _FUNCTION_NS * _function_count(program)) * 1e-3
    native = Native(
        kernel.address,
        plan.words,
        plan.address_words,
        attributes=plan.attribute_words,
        parts=share_count(work_us, max(1, size // 1024)),
        # Functions take up to four times as long as is counted above on processors with short vectors.
        is_brief=is_brief(work_us) and not _function_count(program, without=_INSTRUCTIONS),
        owner=kernel,
        ranges=ranges,
        is_at_hand=_AtHand(kernel, ranges),
        steps=_steps(program, plan, operands),
    )
    return Prepared(native=native, note="in tiles" if plan.layout.is_tiled else "")


def _steps(program: Program, plan: LayoutPlan, operands: Sequence[ArrayDesc]) -> Steps | None:
    """What runs it step by step, where it is so small that this pays."""
    if plan.layout.rank or program.in_place or max(desc.size for desc in operands) > MOST_ELEMENTS:
        return None
    return Steps(program, plan, [desc.nbytes for desc in operands])


@functools.lru_cache(maxsize=1024)
def _function_count(program: Program, without: frozenset[str] = frozenset()) -> int:
    """How many calls of functions a formula makes, shared ones counted once and those of some names not at all."""
    from atled.plugin import Apply, postorder  # part of the same module; named here where they are used

    return sum(
        1
        for node in postorder([expression for _, expression in program.outputs])
        if isinstance(node, Apply) and node.op.isidentifier() and node.op not in without
    )


class _AtHand:
    """Says whether the kernel of a formula, that on ranges, or one of the two needs not be compiled."""

    __slots__ = ("_kernel", "_ranges")

    def __init__(self, kernel: TransientKernel, ranges: _Ranges | None) -> None:
        self._kernel = kernel
        self._ranges = ranges

    def __call__(self, on_ranges: bool | None) -> bool:
        kernels = [] if on_ranges else [self._kernel]
        if on_ranges is not False and self._ranges is not None:
            kernels.append(self._ranges.kernel)
        # A first process with a common network is to load no LLVM.
        return any(kernel.is_near() for kernel in kernels) or any(kernel.is_stored() for kernel in kernels)


class _Ranges:
    """Gives the address of the kernel on ranges, and keeps that once it is asked for."""

    __slots__ = ("_kernel", "_layout", "_program")

    def __init__(self, program: Program, layout: Layout) -> None:
        self._program = program
        self._layout = layout
        self._kernel: TransientKernel | None = None

    @property
    def kernel(self) -> TransientKernel:
        if self._kernel is None:
            self._kernel = _kernel(self._program, self._layout, ranges=True)
        return self._kernel

    def __call__(self) -> int:
        return self.kernel.address()


# Those that a plan holds are found again whatever their number; the others only if they are among the latest.
_alive: weakref.WeakValueDictionary[tuple[Program, Layout, bool, bool], TransientKernel] = weakref.WeakValueDictionary()
_LATEST = 256


@functools.lru_cache(maxsize=_LATEST)
def _kernel(program: Program, layout: Layout, *, ranges: bool = False, streamed: bool = False) -> TransientKernel:
    key = program, layout, ranges, streamed
    kernel = _alive.get(key)
    return _alive.setdefault(key, _written(*key)) if kernel is None else kernel


register_cache("bytes of machine code of formulas", machine_code.transient_bytes, _kernel.cache_clear)


def _written(program: Program, layout: Layout, ranges: bool, streamed: bool) -> TransientKernel:
    from atled.plugin import write_llvm  # the writer is needed only when a kernel is

    name = "formula"
    ir = write_llvm(
        program,
        layout,
        name,
        half_instructions=has_half_instructions(),
        fused_instructions=has_fused_instructions(),
        ranges=ranges,
        streamed=streamed,
        masks=has_masked_stores(),
    )
    return TransientKernel(name, ir)
