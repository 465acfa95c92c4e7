"""Imperative calls that were made before: arrays in, arrays out, with nothing checked twice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from atled.array import ArrayCell, NdArray
from atled.graph.eager import OneCall
from atled.graph.value import Function
from atled.ops.spec import OpSpec
from atled_contexts import Context, get_current_context, plugin_generation

_LIMIT = 20_000


class _Known:
    """A call but for its arrays and float attributes.

    call: its compiled form.  shapes: of the visible outputs, with their sizes.  hidden: one None per further output.
    floats: the values of the float attributes if none are given.
    context: kept alive, because its identity is part of the key.
    """

    __slots__ = ("call", "context", "floats", "hidden", "shapes", "single")

    def __init__(self, call: OneCall, function: Function) -> None:
        spec = function.spec
        visible = function.output_descs[: function.visible]
        self.call = call
        self.context: Context = function.context
        self.shapes = [(desc.shape, desc.size) for desc in visible]
        self.hidden: list[None] = [None] * (len(function.output_descs) - len(visible))
        self.floats = {item.name: item.default for item in spec.attributes if item.kind == "float"}
        self.single = len(visible) == 1 and not spec.outputs[-1].endswith("...")

    def __call__(self, inputs: Sequence[NdArray | None], attributes: Mapping[str, Any]) -> Any:
        cells: list[ArrayCell | None] = [None if x is None else x.cell for x in inputs]
        arrays = []
        results: list[ArrayCell | None] = []
        for shape, size in self.shapes:
            cell = ArrayCell(size)
            results.append(cell)
            arrays.append(NdArray.over(cell, shape))
        if self.hidden:
            results += self.hidden
        floats = self.floats
        values = [float(attributes.get(name, default)) for name, default in floats.items()] if floats else ()
        self.call.run(cells, results, values)
        return arrays[0] if self.single else tuple(arrays)


_known: dict[Hashable, _Known] = {}


def key_of(spec: OpSpec, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Hashable | None:
    """The key under which such a call would be known; None for a call that cannot be remembered.

    Not remembered are calls on anything but settled NdArrays, random ops, whose state belongs to one function, views,
    and ops that refuse values of float attributes.
    """
    if spec.random or spec.views or spec.checks_values:
        return None
    parts: list[Any] = [spec.name, id(get_current_context()), plugin_generation()]
    for x in inputs:
        if x is None:
            parts.append(None)
            continue
        if type(x) is not NdArray:
            return None
        cell = x.cell
        if cell.lazy is not None:
            return None
        parts.append(x.shape)
        parts.append(cell.code)
    if attributes:
        floats = spec.float_names
        for name, value in attributes.items():
            if name not in floats:
                parts.append(name)
                parts.append(value)
            elif type(value) is not float and type(value) is not int:
                return None
    return tuple(parts)


def known(key: Hashable) -> _Known | None:
    """The call of a key; None if it was not made before or its attributes have no hash."""
    try:
        return _known.get(key)
    except TypeError:  # a list among the attributes: the long way makes a tuple of it
        return None


def remember(key: Hashable, call: OneCall, function: Function) -> None:
    """Know a call from now on, unless the function has arrays of its own, which another call must not share."""
    if function.spec.states:
        return
    try:
        hash(key)
    except TypeError:
        return
    if len(_known) >= _LIMIT:
        _known.clear()
    _known[key] = _Known(call, function)
