"""Ops of your own, defined in a script or a package as the library's are: a `Row`, or a subclass of `OpSpec`.

    define          enter an elementwise op, given as a Row of formulas; its function
    OpSpec          base of all other ops; the class statement enters it
    function_of     the function of an op that a class defines
    undefine        take an op out again

    Row, DERIVED, away, within, grid        what a row is made of
    Input, Attribute, REQUIRED, ArrayDesc, GradientCall, IRValue        what a class is made of
    Sample, Refused, Normal, Uniform, Away, Distinct, Grid, Ints, Exact     calls that must work, or be refused

See docs/own_ops.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from atled.array_desc import ArrayDesc
from atled.ops.elementwise import DERIVED, Elementwise, Row, away, grid, within
from atled.ops.own import admit, remove
from atled.ops.own import function_of as _function_of
from atled.ops.rules import GradientCall, IRValue
from atled.ops.samples import Away, Distinct, Exact, Grid, Ints, Normal, Refused, Sample, Uniform
from atled.ops.spec import REQUIRED, Attribute, Input, OpSpec


def define(row: Row, *, replace: bool = False, category: str = "own") -> Callable[..., Any]:
    """Enter an elementwise op: usable at once in graphs, with gradients of any order, on every backend.

    replace: take the place of an op that the same module defined under this name, for definitions that run again (a
        cell of a notebook, a module that is reloaded). What was made with the earlier definition goes on with it.
    category: heading under which listings show it.

    Returns its function, which is in `atled.functions` too. Raises ValueError where the name, that of the function or
    an argument is taken or does not fit, or a formula is wrong; nothing is changed then.
    """
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    spec = Elementwise(row, category, module=module)
    admit(spec, replace=replace)
    return _function_of(spec)


def function_of(op: type[OpSpec] | str) -> Callable[..., Any]:
    """The function of an op, given by its class or its name; the same as in `atled.functions`.

    LookupError: there is no such op.  ValueError: its class names no `function`.
    """
    return _function_of(op)


def undefine(op: type[OpSpec] | str | Callable[..., Any]) -> None:
    """Take an op of your own, given by its class, name or function, out of `atled.functions` and all listings.

    Its name is free then. Graphs that use it and functions that are held go on working.
    ValueError: it is an op of the library, or not defined any more.  LookupError: there is none of this name.
    """
    remove(op)


__all__ = [
    "DERIVED",
    "REQUIRED",
    "ArrayDesc",
    "Attribute",
    "Away",
    "Distinct",
    "Exact",
    "GradientCall",
    "Grid",
    "IRValue",
    "Input",
    "Ints",
    "Normal",
    "OpSpec",
    "Refused",
    "Row",
    "Sample",
    "Uniform",
    "away",
    "define",
    "function_of",
    "grid",
    "undefine",
    "within",
]


def __dir__() -> list[str]:
    return sorted(__all__)
