"""What a forward stores: the values that a user can see, and those that its backward reads."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence

from atled.arrays.cell import ArrayCell, Use
from atled.arrays.epoch import EPOCH, MOVES
from atled.graph.recompute.choice import choose_recomputed
from atled.graph.recompute.reads import GradientsToCome, read_by_backward
from atled.graph.recompute.trust import Trust
from atled.graph.record.structure import Structure
from atled.graph.record.value import RecordedCall, Value
from atled.named_tuple import NamedTuple


def results_of(structure: Structure, unstored: Collection[int]) -> list[tuple[int, int]]:
    """The outputs that a forward writes: (call, position), without views and the arrays of the numbers `unstored`."""
    return [
        (number, position)
        for number, (function, made, (kept, _)) in enumerate(
            zip(structure.functions, structure.made, structure.state_numbers, strict=True)
        )
        if not function.spec.views
        for position in range(len(function.output_descs))
        if kept[position] not in unstored and (position >= len(made) or made[position] not in unstored)
    ]


def cells_of(structure: Structure, results: Sequence[tuple[int, int]]) -> list[ArrayCell | None]:
    """The array of each output, given as (call, position); None for one whose value is gone."""
    cells: list[ArrayCell | None] = []
    for number, position in results:
        cell = structure.functions[number].auxiliary[position]
        made = structure.made[number]
        if cell is None and position < len(made) and made[position] >= 0:
            cell = structure.cells[made[position]]
        cells.append(cell)
    return cells


class Unstored(NamedTuple):
    """What of a graph a forward does not store.

    numbers: of the arrays that are not stored: values that no user can see and that the backward does not read, and
        auxiliary outputs where there is no backward.
    trust: those that the backward may compute again; they are among `numbers` while they are trusted.
    gradients: what was found of the backward on the way; None where nothing had to be.
    """

    numbers: frozenset[int]
    trust: Trust | None
    gradients: GradientsToCome | None = None


def find_unstored(structure: Structure, roots: Sequence[Value], before: Trust | None, stores_less: bool) -> Unstored:
    """Find what a forward of `roots` does not store.

    before: the trust of the last time.  stores_less: whether it is to store nothing for a backward.
    """
    own = before.watched if before is not None and before.is_watching else frozenset()
    cells = structure.cells
    starts = [structure.number_of(root) for root in roots]
    if stores_less or not structure.is_reached(starts):
        unread = (*unobserved(structure, roots, _can_recompute_all, own), *auxiliary_outputs(structure))
        return Unstored(frozenset(number for number in unread if not cells[number].use), None)
    passed = frozenset(structure.functions[number] for number in structure.passed_by_gradients(starts))

    def may_leave(function: RecordedCall) -> bool:
        return can_recompute(function) if function in passed else _can_recompute_all(function)

    candidates = unobserved(structure, roots, may_leave, own)
    auxiliary = auxiliary_outputs(structure)
    if not candidates and not auxiliary:
        return Unstored(frozenset(), None)
    gradients = GradientsToCome(structure, starts)
    by_cell = {id(cells[number]) for number in read_by_backward(gradients)}
    read = {number for number in range(len(cells)) if id(cells[number]) in by_cell}
    unstored = frozenset(number for number in (*candidates, *auxiliary) if number not in read and not cells[number].use)
    found = choose_recomputed(gradients, candidates, read)
    planned = gradients if gradients.are_made else None
    if not found:
        return Unstored(unstored, None, planned)
    functions = frozenset(structure.functions[call] for _, *calls in found for call in calls)
    values = [structure.reference(number) for number, *_ in found]
    made = {output for _, *calls in found for call in calls for output in structure.made[call]}
    operands = {reference for _, *calls in found for call in calls for reference in structure.references[call]}
    trust = Trust(values, functions, [cells[number] for number in sorted(operands - made)])
    if before is not None and before.is_like(trust):
        trust = before
    return Unstored(unstored | {number for number, *_ in found} if trust.is_trusted else unstored, trust, planned)


def let_go(structure: Structure, roots: Sequence[Value]) -> None:
    """Have no plan count on the memory of what a forward of `roots` stored for a backward alone."""
    cells = structure.cells
    values = unobserved(structure, roots, _can_recompute_all, frozenset(map(id, cells)))
    taken = [cells[number] for number in (*values, *auxiliary_outputs(structure)) if cells[number].use]
    for cell in taken:
        cell.use = Use.NONE
    if taken:
        EPOCH.bump()
        MOVES.bump()


def unobserved(
    structure: Structure, roots: Sequence[Value], may_leave: Callable[[RecordedCall], bool], own: Collection[int] = ()
) -> list[int]:
    """The results, by number, that no user can see, that no plan has memory of, and whose calls pass `may_leave`.

    own: identities of arrays of which plans may have memory.
    """
    if structure.overwritten:
        return []
    cells = structure.cells
    stored = {id(root.data.cell) for root in roots}
    candidates = []
    # By arrays: a view shows the memory of its source.
    for number, origin in enumerate(structure.origins):
        if origin is None:
            continue
        value, cell = structure.value(number), cells[number]
        is_bound = cell.use and id(cell) not in own
        if value is None or is_bound or value.is_stored or (cell.storage is not None and cell.has_live_view):
            stored.add(id(cell))
        elif may_leave(structure.functions[origin[0]]):
            candidates.append(number)
    for function, references in zip(structure.functions, structure.references, strict=True):
        spec = function.spec
        if function.mutated or spec.inplace or spec.opaque:
            stored.update(id(cells[number]) for number in references if number >= 0)
    return [number for number in candidates if id(cells[number]) not in stored]


def auxiliary_outputs(structure: Structure) -> list[int]:
    """The auxiliary outputs, by number, that can be had by running their calls again."""
    if structure.overwritten:
        return []
    return [
        number
        for function, (kept, _) in zip(structure.functions, structure.state_numbers, strict=True)
        if _runs_again(function)
        for number in kept[function.visible :]
        if number >= 0
    ]


def left_out(
    structure: Structure, unstored: Collection[int]
) -> tuple[list[weakref.ref[Value]], list[weakref.ref[RecordedCall]]]:
    """The values that are not stored, and the calls of which auxiliary outputs are not; unstored: numbers of arrays."""
    numbers = frozenset(unstored)
    values = [structure.reference(number) for number in numbers if number < len(structure.shapes)]
    calls = [
        weakref.ref(function)
        for function, (kept, _) in zip(structure.functions, structure.state_numbers, strict=True)
        if not numbers.isdisjoint(kept)
    ]
    return values, calls


def can_recompute(function: RecordedCall) -> bool:
    """Whether the result of a call can be had by running it again, and what a backward reads of it stays as it is."""
    spec = function.spec
    return _can_recompute_all(function) and (not spec.auxiliary or spec.recomputable)


def _can_recompute_all(function: RecordedCall) -> bool:
    """Whether the result of a call can be had by running it again, with whatever else it makes."""
    # One visible output only: of several, some may be stored, and written since.
    return _runs_again(function) and function.visible == 1


def _runs_again(function: RecordedCall) -> bool:
    """Whether a call gives the same results when it is run again: no draw, no state."""
    spec = function.spec
    if spec.random or spec.inplace or spec.opaque or spec.views:
        return False
    return not function.mutated or spec.recomputable
