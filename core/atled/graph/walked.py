"""The walk over a graph that was recorded lately, by which its forward and its backward find the plans of earlier ones.

Both find by it what is the same in all graphs of one structure, and look at the values for what may differ.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from atled.graph.compile.plan import Plan
from atled.graph.record.value import PLAIN, Details, Extra, RecordedCall, Value, float_of

VALUE = -1
"""What of a value is meant, other than the position of an output that its call keeps."""

STORED = 4
"""Added to the flags of a result that a user can see."""

_FLAGS = {None: 0, True: 1, False: 2}
_SEVERAL, _LEAF, _HELD = -1, -2, -3
"""In a structure, where other numbers stand for a kind of call, -3 and less with a Variable, and for what it reads.

Behind `_SEVERAL` come the kind of a call with several outputs, which of them the value is, and all of them; of further
ones of the same call only -1 minus the number of that value, and which they are.
"""


class Walk:
    """The values before a root.

    values: the root first; while it waits in `Roots.walk`, None is there for the root, which holds that.
    patterns, extras: of the values, which they may have no longer when another thread looked at their calls. Of outputs
        of a call with several the pattern is the call itself.
    structure: what the calls are, which values they read, and whose Variables are held; part of the key of a plan.
    leaves: numbers of values.  marked: of the results of which there is more to be known: they have a cell, details (as
        one that was given another shape has), or a random state.  further: of outputs of a call, but for one.
    """

    __slots__ = ("extras", "further", "leaves", "marked", "patterns", "structure", "values")

    def __init__(self, root: Value) -> None:
        self.values: list[Any] = [root]
        self.patterns: list[RecordedCall | None] = []
        self.extras: list[Extra | None] = []
        self.structure: list[int] = []
        self.leaves: list[int] = []
        self.marked: list[int] = []
        self.further: set[int] = set()

    def numbers(self) -> dict[Value | None, int]:
        """The number of each value, -1 for none."""
        return {None: -1, **{value: number for number, value in enumerate(self.values)}}

    def kinds(self) -> list[int]:
        """The kinds of the calls, sorted."""
        further = self.further
        patterns = enumerate(self.patterns)
        return sorted(made.kind for number, made in patterns if made is not None and number not in further)

    def floats(self, sources: Sequence[tuple[int, Any]]) -> list[float]:
        """The floats of a plan, from what `float_sources` says."""
        patterns: Sequence[Any] = self.patterns
        extras = self.extras
        return [
            source if number < 0 else float_of(patterns[number], extras[number], source) for number, source in sources
        ]


def walk(root: Value, most: int = sys.maxsize, *, through_several: bool = False) -> Walk | None:
    """Walk the graph before a root; what no pattern was recorded of is a leaf. None where it has more values.

    through_several: whether outputs of calls that have several, which are recorded without a pattern, are no leaves.
    """
    walked = Walk(root)
    values, structure = walked.values, walked.structure
    numbers: dict[Value | None, int] = {None: -1, root: 0}
    calls: dict[RecordedCall, int] = {}  # those with several outputs, each with the number of that which was met first
    number_of, add = numbers.setdefault, structure.append
    add_pattern, add_extra, add_value = walked.patterns.append, walked.extras.append, values.append
    count = 1
    for position, value in enumerate(values):  # which grow meanwhile
        # The pattern last: with one the others are its, although another thread reads `parent`.
        extra, inputs = value.extra, value.inputs
        pattern = value.pattern
        add_pattern(pattern)
        add_extra(extra)
        if pattern is None:
            call = value.details.parent if through_several else None
            first = None if call is None else calls.get(call)
            outputs = _all_outputs(call) if call is not None and first is None else None
            if call is None or (first is None and outputs is None):
                add(_LEAF)
                walked.leaves.append(position)
                continue
            walked.patterns[-1] = call
            walked.extras[-1] = None, call.auxiliary, call.random_state
            if outputs is None:
                assert first is not None, "it was met before"
                walked.further.add(position)
                structure += _SEVERAL, -1 - first, value.details.position
                continue
            calls[call] = position
            structure += _SEVERAL, call.kind, value.details.position
            for source in (*outputs, *call.inputs):
                number = number_of(source, count)
                if number == count:
                    count += 1
                    add_value(source)
                add(number)
            continue
        handle = value.handle
        # The kind says how many inputs there are.
        add(pattern.kind if handle is None or handle() is None else _HELD - pattern.kind)
        # To be given another shape sets details, too.
        if value.details is not PLAIN or value._cell is not None or (extra is not None and extra[2] is not None):
            walked.marked.append(position)
        for source in inputs:
            number = number_of(source, count)
            if number == count:
                count += 1
                add_value(source)
            add(number)
        if count > most:
            return None
    return walked


def _all_outputs(call: RecordedCall) -> list[Value] | None:
    """All outputs of a call with several; None for other calls, and where one is gone or not as the call makes it."""
    spec, descs = call.spec, call.output_descs
    if call.visible == 1 or len(call.outputs) != call.visible or spec.opaque or spec.views or call.mutated:
        return None
    if call.shapes != tuple([None if value is None else value.shape for value in call.inputs]):
        return None
    outputs: list[Value] = []
    for position, reference in enumerate(call.outputs):
        value = reference()
        if value is None or value.shape != descs[position].shape or value.pattern is not None:
            return None
        details = value.details
        if details.parent is not call or details.position != position:
            return None
        outputs.append(value)
    return outputs


def flags_of(details: Details) -> int:
    """What of the details of a result is part of the key of a plan."""
    flags = _FLAGS[details.need_grad]
    return flags | STORED if details.exposed or details.persistent else flags


def float_sources(plan: Plan, made: Mapping[int, int]) -> list[tuple[int, Any]]:
    """Per float of a plan: (-1, constant), or (number of a value, attribute of the call that makes it).

    made: by number of a call in the plan's structure the number of its first result in the walk.
    """
    return [(-1, source[1]) if source[0] == "constant" else (made[source[1]], source[2]) for source in plan.floats]
