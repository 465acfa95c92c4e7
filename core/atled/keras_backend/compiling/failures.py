"""Errors of runs, which know ops alone, about the expressions of a program: which failed, and where it was written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from atled.keras_backend.expressions.calls import Call
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.messages import asked, reworded

_NAMED = 8
"""How many expressions a message names at most."""
_OP = re.compile(r"(\w+)\(")
_BY = re.compile(r"^.*? by \S+ of \S+: ")  # "Take(float32[3, 2], ...) by cpu of cpu-numba: index out of range"
# Native loops and branches: "Loop(int32[2]) by engine of atled: Branch: Take: index out of range, in step 1"
_WITHIN = re.compile(r"^(?:Loop|Branch)\(.*? by \S+ of \S+: (?:(?:Loop|Branch): )*(\w+): ")


def located(error: Exception, reached: Sequence[Expression]) -> Exception | None:
    """The same error about an expression; None where none of them is of the op that failed.

    reached: what was computed. Where several are of that op, they are named: a program does not tell which of them.
    """
    if vars(error).keys() - {"__notes__"}:
        return None  # it has more to tell than its text
    within = _WITHIN.match(str(error))
    op = within or _OP.match(str(error))
    failed = [each for each in reached if isinstance(each, Call) and op is not None and each.op == op[1]]
    if not failed:
        return None
    places = dict.fromkeys(f"{asked(each.by, each.operands)}, written at {each.written}" for each in failed)
    # "(): " is the end of what an op was asked, for `reworded`.
    text = (_WITHIN if within else _BY).sub("(): ", str(error), count=1)
    named, more = list(places)[:_NAMED], len(places) - _NAMED
    return reworded(type(error)(text), ", or ".join([*named, *([f"one of {more} more"] if more > 0 else [])]))
