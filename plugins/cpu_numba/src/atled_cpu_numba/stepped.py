"""Formulas on few elements that run step by step, each on what the step before it made, in one kernel."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from atled.plugin import Layout, LayoutPlan, Native, Program
from atled_cpu_numba.processor import has_fused_instructions, has_half_instructions
from atled_cpu_numba.store import TransientKernel

MOST_ELEMENTS = 256
"""Of an operand: with more of them a step takes so long that a launch for each does no harm."""


_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


class Steps:
    """What `Native.steps` of a formula is.

    plan: its layout; one without outer axes.  sizes: bytes of each operand, inputs first.
    """

    __slots__ = ("_plan", "_program", "_sizes")

    def __init__(self, program: Program, plan: LayoutPlan, sizes: Sequence[int]) -> None:
        self._program = program
        self._plan = plan
        self._sizes = tuple(sizes)

    def __call__(self, count: int, strides: Sequence[int], states: Mapping[int, int]) -> Native:
        """See `Native.steps`."""
        plan = self._plan
        written = {*plan.address_words, *plan.attribute_words.values()}
        fixed = tuple((word, value) for word, value in enumerate(plan.words.tolist()) if word not in written)
        inputs = len(self._program.inputs)
        copies = tuple((source, inputs + output, self._sizes[source]) for source, output in sorted(states.items()))
        kernel = _kernel(
            self._program,
            plan.layout,
            fixed,
            tuple(plan.address_words),
            tuple(sorted(plan.attribute_words.values())),
            copies,
        )
        begins = [-stride * (count - 1) if stride < 0 else 0 for stride in strides]
        return Native(
            kernel.address(),
            np.array([*plan.words, count, *strides, *begins], np.int64),
            plan.address_words,
            attributes=plan.attribute_words,
            owner=kernel,
        )


@functools.lru_cache(maxsize=64)
def _kernel(
    program: Program,
    layout: Layout,
    fixed: tuple[tuple[int, int], ...],
    addresses: tuple[int, ...],
    attributes: tuple[int, ...],
    copies: tuple[tuple[int, int, int], ...],
) -> TransientKernel:
    """fixed: words with their values.  addresses, attributes: the others.  copies: (input, output, bytes) per state."""
    from atled.plugin import write_llvm  # the writer is needed only when a kernel is

    formula = write_llvm(
        program,
        layout,
        "formula",
        half_instructions=has_half_instructions(),
        fused_instructions=has_fused_instructions(),
    )
    return TransientKernel("steps", _text(formula, fixed, addresses, attributes, copies))


def _text(
    formula: str,
    fixed: Sequence[tuple[int, int]],
    addresses: Sequence[int],
    attributes: Sequence[int],
    copies: Sequence[tuple[int, int, int]],
) -> str:
    """LLVM IR of a loop around a formula.

    The formula becomes part of it, and its block an array that LLVM does away with: sizes are constants then, and few
    elements stay in registers. The block has, behind that of the formula: the count of steps, per operand what is added
    to its address, and what is added before the first step. States change in memory of the kernel's own, of which LLVM
    sees that nothing else is there.
    """
    size = len(fixed) + len(addresses) + len(attributes)
    lines = [
        formula.replace("define i64 @formula(", "define internal i64 @formula(", 1),
        "" if _COPY in formula else _COPY,
        "define i64 @steps(i64 %block, i64 %part, i64 %parts) nounwind {",
        "entry:",
        "  %words = inttoptr i64 %block to ptr",
        f"  %own = alloca [{size} x i64], align 64",
        "  %own.address = ptrtoint ptr %own to i64",
    ]
    lines += [f"  %own{word} = getelementptr inbounds i64, ptr %own, i64 {word}" for word in range(size)]
    lines += [f"  store i64 {value}, ptr %own{word}" for word, value in fixed]
    for word in attributes:
        lines += [*_load(f"attribute{word}", word), f"  store i64 %attribute{word}, ptr %own{word}"]
    lines += _load("count", size)
    for number, word in enumerate(addresses):
        lines += _load(f"given{number}", word)
        lines += _load(f"stride{number}", size + 1 + number)
        lines += _load(f"skip{number}", size + 1 + len(addresses) + number)
        lines += [f"  %first{number} = add i64 %given{number}, %skip{number}"]
    for source, target, nbytes in copies:
        lines += [
            f"  %state{target} = alloca [{nbytes} x i8], align 64",
            f"  %from{target} = inttoptr i64 %given{source} to ptr",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %state{target}, ptr %from{target}, i64 {nbytes}, i1 false)",
            f"  %at{target} = ptrtoint ptr %state{target} to i64",
            f"  store i64 %at{target}, ptr %own{addresses[source]}",
            f"  store i64 %at{target}, ptr %own{addresses[target]}",
        ]
    still = {number for source, target, _ in copies for number in (source, target)}
    moving = [number for number in range(len(addresses)) if number not in still]
    lines += ["  %any = icmp sgt i64 %count, 0", "  br i1 %any, label %step, label %end", "step:"]
    lines += ["  %k = phi i64 [ 0, %entry ], [ %k.next, %step ]"]
    lines += [f"  %at{number} = phi i64 [ %first{number}, %entry ], [ %next{number}, %step ]" for number in moving]
    lines += [f"  store i64 %at{number}, ptr %own{addresses[number]}" for number in moving]
    lines += ["  %code = call i64 @formula(i64 %own.address, i64 0, i64 1)"]
    lines += [f"  %next{number} = add i64 %at{number}, %stride{number}" for number in moving]
    lines += [
        "  %k.next = add i64 %k, 1",
        "  %more = icmp slt i64 %k.next, %count",
        "  br i1 %more, label %step, label %end",
        "end:",
    ]
    for _, target, nbytes in copies:
        lines += [
            f"  %to{target} = inttoptr i64 %given{target} to ptr",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{target}, ptr %state{target}, i64 {nbytes}, i1 false)",
        ]
    lines += ["  ret i64 0", "}"]
    return "\n".join(lines)


def _load(name: str, word: int) -> list[str]:
    """The load of a word of the block."""
    return [
        f"  %{name}.at = getelementptr inbounds i64, ptr %words, i64 {word}",
        f"  %{name} = load i64, ptr %{name}.at",
    ]
