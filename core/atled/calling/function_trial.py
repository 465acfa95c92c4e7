"""Finds, before a generated function is used, which reference counts tell it that a result array is free."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.spares import NEVER, Counts, SpareCells, Spares, proven, reuses
from atled.calling.cached_calls import State
from atled.graph.record.value import Value
from atled.ops.spec import OpSpec
from atled.variable import Variable

_FLOAT32 = np.dtype(np.float32)


def proven_counts(function: Any, spec: OpSpec) -> dict[str, int]:
    """The names of counts in the text of a function, with those that are right for it.

    The function itself is tried, not one like it: which counts are right depends on the code around them.

    function: as `def` made it.
    """
    given = len(spec.user_inputs)
    attributes = [1.0 if item.kind == "float" else 0 for item in spec.attributes if not item.hidden]
    array, cell = Spares(1, _FLOAT32, NEVER), SpareCells(1, _FLOAT32, NEVER)
    variable = Variable.on_new(Value((1,), data=NdArray.over(cell.new(), (1,))))
    world, run = _copied(function, array, [*[array.new()] * given, *attributes])
    arrays = proven(f"{spec.function} of arrays", functools.partial(_reuses, array, world, run))
    world, run = _copied(function, cell, [*[variable] * given, *attributes])
    cells = proven(f"{spec.function} of Variables", functools.partial(_reuses, cell, world, lambda: run().value._cell))
    return {"_taken": arrays.taken, "_held": arrays.held, "_taken_cell": cells.taken, "_held_by_cell": cells.held}


def _reuses(
    spares: Spares | SpareCells,
    world: dict[str, Any],
    run: Callable[[], Any],
    counts: Counts,
    hold: Callable[[Any], object] | None,
) -> bool:
    world["_taken"], world["_held"] = world["_taken_cell"], world["_held_by_cell"] = counts
    spares.clear()
    return reuses(spares, hold, run)


def _copied(
    function: Any, spares: Spares | SpareCells, arguments: list[Any]
) -> tuple[dict[str, Any], Callable[[], Any]]:
    """A copy of the function for which each call is cached and each kernel does nothing: its globals, and the copy."""
    methods = {name: getattr(spares, method) for names, method in _METHODS for name in names}
    known = SimpleNamespace(
        **methods, is_plain=True, workspaces=None, form=0, launch=lambda *values: 0, shape=(1,), pattern=None
    )
    mark = object()
    state = State(None, _AllCached(known), mark, mark, auto_forward=True, is_observed=False)
    world = {
        **function.__globals__,
        "_mark": lambda: mark,
        "_process": SimpleNamespace(mark=mark),
        "_recent": SimpleNamespace(state=state),
    }
    copy = FunctionType(function.__code__, world, argdefs=(-1, None))
    copy.__kwdefaults__ = {"using": None}
    return world, functools.partial(copy, *arguments)


_METHODS = (("take", "take_cell"), "take"), (("put", "put_cell"), "put"), (("new", "new_cell"), "new")


class _AllCached(dict[Any, Any]):
    """A table in which every key leads to one call."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __missing__(self, key: Any) -> Any:
        return self.call
