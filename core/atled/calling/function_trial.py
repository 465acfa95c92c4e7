"""Finds, before a generated function is used, which reference counts tell it that a result array is free."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.spares import NEVER, Counts, Spares, proven, reuses
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
    attributes = {item.argument: 1.0 if item.kind == "float" else 0 for item in spec.attributes if not item.hidden}
    array, cell = Spares(NdArray, 1, _FLOAT32, NEVER), Spares(ArrayCell, 1, _FLOAT32, NEVER)
    variable = Variable.on_new(Value((1,), data=array.new()))
    arrays = NEVER  # a call without inputs gives Variables
    if given:
        world, run = _copied(function, array, cell, [array.new()] * given, attributes)
        arrays = proven(f"{function.__name__} of arrays", functools.partial(_reuses, array, world, run))
    world, run = _copied(function, array, cell, [variable] * given, attributes)
    cells = proven(
        f"{function.__name__} of Variables", functools.partial(_reuses, cell, world, lambda: run().value._cell)
    )
    return {"_free": arrays.free, "_held": arrays.held, "_free_cell": cells.free, "_held_by_cell": cells.held}


def _reuses(
    spares: Spares[Any],
    world: dict[str, Any],
    run: Callable[[], Any],
    counts: Counts,
    hold: Callable[[Any], object] | None,
) -> bool:
    world["_free"], world["_held"] = world["_free_cell"], world["_held_by_cell"] = counts
    return reuses(spares, hold, run)


def _copied(
    function: Any,
    arrays: Spares[NdArray],
    cells: Spares[ArrayCell],
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
) -> tuple[dict[str, Any], Callable[[], Any]]:
    """A copy of the function for which each call is cached and each kernel does nothing: its globals, and the copy."""
    known = SimpleNamespace(
        arrays=arrays.ring,
        new_array=arrays.new,
        cells=cells.ring,
        new_cell=cells.new,
        is_plain=True,
        notes_left=0,
        variable_notes_left=0,
        workspaces=None,
        form=0,
        floats={},
        launch=lambda *values: 0,
        shape=(1,),
        pattern=None,
    )
    calls = _AllCached(known)
    world = {**function.__globals__, "_here": lambda: SimpleNamespace(arrays=calls, values=calls)}
    common: dict[str, Any] = {"n_outputs": -1, "outputs": None, "using": None}
    return world, functools.partial(FunctionType(function.__code__, world), *inputs, **attributes, **common)


class _AllCached(dict[Any, Any]):
    """A table in which every key leads to one call."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __missing__(self, key: Any) -> Any:
        return self.call
