"""MultinomialCounts and ChoiceIndices: a share is a range of rows; sums are float64 and go from left to right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.random.random_state import exact
from atled_cpu_numba.kernels.shared.launch import REALS, fitting_shares, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

_MADE = ("int64", "int32", "float32", "float64")
_KINDS = [(dtype, made) for dtype in REALS for made in _MADE if made in ("int64", "int32", dtype)]
_OUTCOMES_PER_US = 500.0  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What both kernels read."""

    p: int  # address
    unis: int  # address
    y: int  # address
    workspace: int  # address, of ChoiceIndices
    rows: int
    outcomes: int
    draws: int  # per row


def _pointers() -> dict[str, Any]:
    from atled_cpu_numba.codegen import floats32, floats64, ints32, ints64

    return {"int64": ints64, "int32": ints32, "float32": floats32, "float64": floats64}


def _build_counts(dtype: str, made: str) -> Callable[..., int]:
    from numba import float64, types

    from atled_cpu_numba.codegen import words

    floats, results, number = _pointers()[dtype], _pointers()[made], getattr(types, made)

    @exact
    def multinomial_counts(block, part, parts):
        w = words(block)
        rows, outcomes, draws = w[Block.rows], w[Block.outcomes], w[Block.draws]
        all_p, unis, all_y = floats(w[Block.p]), floats(w[Block.unis]), results(w[Block.y])
        for row in range(rows * part // parts, rows * (part + 1) // parts):
            start = row * outcomes
            for k in range(outcomes):
                all_y[start + k] = number(0)
            for draw in range(draws):
                u, total, k = float64(unis[draw * rows + row]), float64(0), 0
                while k < outcomes:
                    total += float64(all_p[start + k])
                    if total > u:
                        all_y[start + k] = number(all_y[start + k] + number(1))
                        break
                    k += 1
        return 0

    return multinomial_counts


def _build_choice(dtype: str, made: str) -> Callable[..., int]:
    from numba import float64, types

    from atled_cpu_numba.codegen import floats64, words

    floats, results, number = _pointers()[dtype], _pointers()[made], getattr(types, made)

    @exact
    def choice_indices(block, part, parts):
        w = words(block)
        rows, outcomes, draws = w[Block.rows], w[Block.outcomes], w[Block.draws]
        all_p, unis, index = floats(w[Block.p]), floats(w[Block.unis]), results(w[Block.y])
        left = floats64(w[Block.workspace] + 8 * part * outcomes)
        for row in range(rows * part // parts, rows * (part + 1) // parts):
            for k in range(outcomes):
                left[k] = float64(all_p[row * outcomes + k])
            for draw in range(draws):
                u, total, k = float64(unis[draw * rows + row]), float64(0), 0
                while k < outcomes:
                    total += left[k]
                    if total > u:
                        break
                    k += 1
                index[row * draws + draw] = number(k) if k < outcomes else number(-1)
                if k < outcomes:
                    left[k] = float64(0)
                    total = float64(0)
                    for other in range(outcomes):
                        total += left[other]
                    for other in range(outcomes):
                        left[other] /= total
        return 0

    return choice_indices


_BUILDS = {"MultinomialCounts": _build_counts, "ChoiceIndices": _build_choice}
_KERNELS = {
    (op, dtype, made): Kernel(f"{op.lower()}_{dtype}_{made}", partial(build, dtype, made), parameters=(op, dtype, made))
    for op, build in _BUILDS.items()
    for dtype, made in _KINDS
}


def accepts(call: Call) -> bool | str:
    """Whether probabilities are float32 or float64, and the results of a dtype that is written."""
    refused = refuse_floats(call, REALS, floats=(0, 1), outputs=0)
    if refused:
        return refused
    assert call.inputs[0] is not None
    read, made = call.inputs[0].dtype.name, call.outputs[0].dtype.name
    return (read, made) in _KINDS or f"writes int64, int32 or {read}, not {made}"


def prepare(call: Call) -> Prepared:
    """pvals, unis -> y."""
    p, unis = call.inputs
    assert p is not None
    assert unis is not None
    rows, outcomes = p.shape
    draws = unis.size // max(rows, 1)
    parts = share_count(unis.size * outcomes / _OUTCOMES_PER_US, max(rows, 1))
    is_choice = call.spec.name == "ChoiceIndices"
    if is_choice:
        parts = fitting_shares(parts, max(8 * outcomes, 1))
    arguments = (Block.p, Block.unis, Block.y)
    return launch(
        _KERNELS[call.spec.name, p.dtype.name, call.outputs[0].dtype.name],
        filled(Block, rows=rows, outcomes=outcomes, draws=draws),
        (*arguments, Block.workspace) if is_choice else arguments,
        parts=parts,
        workspace=max(8 * outcomes * parts, 8) if is_choice else 0,
    )
