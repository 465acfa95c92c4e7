"""Fused formulas cut into parts whose kernels are at hand, with the same bits: for a graph that is seen the first time.

A kernel of a formula is compiled in 20 to 200 ms, which pays where it runs again. Of graphs many are run once:
candidates of a search for architectures, cells of a notebook, tests. Their ops have kernels, and short formulas recur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import numpy as np

from atled.graph.nodes.ir import IRNode, IRValue
from atled.ops.formula import Expr
from atled.ops.formula_rounding import adds, has_choice, is_product, own_nodes, passes


class InParts(IntEnum):
    """Which formulas of a plan are cut: none, those that have no kernel at hand, or all, without asking for one.

    To ask for the kernel of a formula takes longer than all else that the planning of it does.
    """

    NONE = 0
    UNCOMPILED = 1
    ALL = 2


MOST_BYTES = 2 << 20
"""Of what is stored because a formula is in parts, or a step by itself: the workspace for it stays with the thread."""

_SINGLE: np.dtype = np.dtype(np.float32)
_COMMUTING = frozenset(("*", "+"))


def parts_of(
    members: Sequence[IRNode], read: Sequence[Mapping[str, Expr]], formulas: Sequence[Expr], written: Sequence[IRValue]
) -> list[list[IRNode]] | None:
    """The members of a fused formula in parts that give the bits that it gives, in an order in which they can run.

    LLVM rounds a product and a sum that takes it at once, where nothing else reads the product. So members stay
    together between which that may be. None where there are no parts, or it is not certain what they give.

    read: per member what each name in its formula stands for, in the names of what the whole formula reads.
    formulas: per member its formula in these.  written: what the whole formula stores.
    """
    if not _is_plain(members, written) or _has_repeated_parts(read, formulas):
        return None
    part_of = _joined(read, formulas)
    if part_of is None:
        return None
    parts: dict[int, list[IRNode]] = {}
    for number, member in zip(part_of, members, strict=True):
        parts.setdefault(number, []).append(member)
    return None if len(parts) == 1 else _in_order(parts, dict(zip(members, part_of, strict=True)))


def _is_plain(members: Sequence[IRNode], written: Sequence[IRValue]) -> bool:
    """Whether all is float32, nothing changes in place, and what would be stored in addition is not too much."""
    nbytes = -sum(value.desc.nbytes for value in written)
    for member in members:
        if member.changed or member.context.deterministic:
            return False
        values = (*(value for value in member.inputs if value is not None), *member.outputs)
        if any(value.dtype != _SINGLE for value in values):
            return False
        nbytes += member.outputs[0].desc.nbytes
    return nbytes <= MOST_BYTES


def _has_repeated_parts(read: Sequence[Mapping[str, Expr]], formulas: Sequence[Expr]) -> bool:
    """Whether two members compute the same: together they do it once, and then LLVM does not round it with a sum."""
    seen: set[object] = set()
    for names, formula in zip(read, formulas, strict=True):
        own: set[object] = {
            (node.op, frozenset(node.args)) if node.op in _COMMUTING else node
            for node in own_nodes(formula, frozenset(names.values()))
        }
        if not seen.isdisjoint(own):
            return True
        seen |= own
    return False


def _joined(read: Sequence[Mapping[str, Expr]], formulas: Sequence[Expr]) -> list[int] | None:
    """Per member the number of its part, that of its first member; None where rounding depends on more than that."""
    part_of = list(range(len(formulas)))
    makers = {formula: number for number, formula in enumerate(formulas)}
    products: set[Expr] = set()
    for number, (names, formula) in enumerate(zip(read, formulas, strict=True)):
        given = frozenset(names.values())
        if is_product(formula, products, given):
            products.add(formula)
        if has_choice(formula, products, given):
            return None
        waiting = [(number, source) for source in given & products if adds(formula, source, given)]
        while waiting:
            adding, source = waiting.pop()
            maker = makers[source]
            one, other = sorted((part_of[maker], part_of[adding]))
            part_of = [one if part == other else part for part in part_of]
            # What passes a product on, such as an absolute value, goes together with that.
            sources = frozenset(read[maker].values())
            waiting += [(maker, each) for each in sources & products if passes(source, each, sources)]
    return part_of


def _in_order(parts: Mapping[int, list[IRNode]], part_of: Mapping[IRNode, int]) -> list[list[IRNode]] | None:
    """The parts in an order in which they can run; None where two wait for one another."""
    needed: dict[int, set[int]] = {}
    for number, part in parts.items():
        makers = [value.node for member in part for value in member.inputs if value is not None]
        needed[number] = {part_of[maker] for maker in makers if maker is not None and maker in part_of} - {number}
    ordered: list[list[IRNode]] = []
    done: set[int] = set()
    while len(done) < len(parts):
        ready = [number for number in parts if number not in done and needed[number] <= done]
        if not ready:
            return None
        ordered += [parts[number] for number in ready]
        done.update(ready)
    return ordered
