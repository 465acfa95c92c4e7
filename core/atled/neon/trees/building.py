"""What nodes of op-trees are made of: their dictionaries, with shapes that fit, and operands of types that do."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts, shortened
from atled.named_tuple import NamedTuple
from atled.neon.trees.rows import NAMES, ONE_OPERAND, REDUCTIONS, TWO_OPERANDS

Shape = tuple[Any, ...]  # of int; None for the count of a onehot that is not known yet
NUMBERS = (int, float, np.number, np.bool_)

_SHAPES_LIMIT = 1024  # of nodes, of some hundred bytes each

Parts = tuple[dict[str, Any], Any, Any]


def shape_of(operand: Any) -> Shape | None:
    """Sizes per axis of a tensor, an op-tree or a number; None for random numbers, which have those of their target."""
    if isinstance(operand, tuple):
        shape: Shape | None = operand[0]["shape"]
        return shape
    return (1, 1) if isinstance(operand, NUMBERS) else operand.shape


@lru_cache(_SHAPES_LIMIT)
def broadcast(op: str, a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of an elementwise op of two shapes; ValueError where they do not broadcast."""
    if a is None or b is None or a == b:
        return b if a is None else a
    count = max(len(a), len(b))
    sizes = zip((1,) * (count - len(a)) + a, (1,) * (count - len(b)) + b, strict=True)
    shape: list[Any] = []
    for m, n in sizes:
        if m == n or n == 1 or (n is None and m != 1):
            shape.append(m)
        elif m == 1 or m is None:
            shape.append(n)
        else:
            remedy = "give operands of equal sizes, or of size 1 where one is to be repeated"
            raise refused(op, (a, b), "they do not broadcast", remedy)
    return tuple(shape)


def refused(op: str, shapes: Sequence[Shape | None], wrong: str, remedy: str) -> ValueError:
    """The error of a node that cannot be."""
    return ValueError(four_parts(f"op-tree node {op!r} of {_written(shapes)}", wrong, "", remedy))


def _written(shapes: Sequence[Shape | None]) -> str:
    return " and ".join("any shape" if each is None else f"shape {each}".replace("None", "?") for each in shapes)


def axes_of(axis: Any, count: int) -> tuple[int, ...]:
    """The axes, counted from 0 on and sorted, of an int, a tuple or None, which is all of them."""
    if axis is None:
        return tuple(range(count))
    return tuple(sorted(each % count for each in (axis if isinstance(axis, tuple) else (axis,))))


def reduced(shape: Shape, axes: Sequence[int], *, kept: bool = False) -> Shape:
    """The shape of a reduction: reduced axes are dropped while there are more than two, others have size 1."""
    spare = 0 if kept else len(shape) - 2
    dropped = axes[:spare] if spare > 0 else ()
    return tuple(1 if n in axes else size for n, size in enumerate(shape) if n not in dropped)


def _checked_axis(op: str, shape: Shape, axis: Any, *, several: bool = True) -> Any:
    """An axis as a node has it: an int, a tuple of them, or None."""
    if isinstance(axis, list | tuple) and several:
        axes = tuple(_checked_axis(op, shape, each) for each in axis)
        if len(set(axes)) < len(axes) or not axes:
            raise refused(
                op, (shape,), f"axis={axis} names {'an axis twice' if axes else 'none'}", "name each axis once"
            )
        return axes
    if axis is None:
        return None
    try:
        number = operator.index(axis)
    except TypeError:
        wrong = f"axis={shortened(axis)} is no whole number"
        remedy = "pass an axis, a tuple of axes or None"
        raise TypeError(four_parts(f"op-tree node {op!r} of shape {shape}", wrong, "", remedy)) from None
    if not -len(shape) <= number < len(shape):
        raise refused(op, (shape,), f"axis={axis} is out of range", f"use 0 to {len(shape) - 1}, or None")
    return number % len(shape)


def known_shape(op: str, operand: Any) -> Shape:
    """The shape of an operand that needs one; ValueError where only a target would give it."""
    if isinstance(operand, NUMBERS):
        raise TypeError(
            four_parts(f"op-tree node {op!r} of the number {operand!r}", "it is no tensor", "", "pass a tensor")
        )
    shape = shape_of(operand)
    if shape is None or None in shape:
        what = "random numbers have" if shape is None else "the count of a onehot has"
        wrong = f"{what} the size of an operand or of the target, and here is none that gives it"
        raise refused(op, (shape,), wrong, "assign it to a tensor, and pass that")
    return shape


def _elementwise(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    shape = shape_of(a) if b is None else broadcast(op, shape_of(a), shape_of(b))
    return {"op": op, "shape": shape, **about}, a, b


def _reduction(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    shape, axis, kept = known_shape(op, a), about.get("axis"), bool(about.get("kept", False))
    found = reduction_of(op, shape, tuple(axis) if isinstance(axis, list) else axis, kept)
    made = {"op": op, "axis": found.axis, "shape": found.shape}
    return ({**made, "kept": True} if kept else made), a, None


class Reduction(NamedTuple):
    """What a reduction does to a shape.

    axis: as a node has it.  axes: all of them, sorted.  shape: of the result.  elements: how many become one.
    """

    axis: Any
    axes: tuple[int, ...]
    shape: Shape
    elements: int


@lru_cache(_SHAPES_LIMIT, typed=True)
def reduction_of(op: str, shape: Shape, axis: Any, kept: bool) -> Reduction:
    """What a reduction over an axis, a tuple of axes or None, all, does to a shape.

    ValueError: an axis is out of range or named twice; there is no element to choose.  TypeError: it is no number.
    """
    axis = _checked_axis(op, shape, axis)
    axes = axes_of(axis, len(shape))
    if op != "sum" and 0 in [shape[each] for each in axes]:
        raise refused(op, (shape,), "there is no element to choose", "give each reduced axis a size of at least 1")
    return Reduction(axis, axes, reduced(shape, axes, kept=kept), math.prod(shape[each] for each in axes))


def _dot(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    m, n = (None if isinstance(each, NUMBERS) else shape_of(each) for each in (a, b))
    if m is None or n is None:
        known_shape(op, a if m is None else b)
    assert m is not None and n is not None
    inner, of_b = m[-1], n[-2]
    if inner is None or of_b is None:
        if inner is of_b or None in (*m[:-1], *n[:-2], n[-1]):
            known_shape(op, a if None in m else b)
    elif inner != of_b:
        wrong = f"the last axis of the first has {inner} elements, the last but one of the second {of_b}"
        raise refused(op, (m, n), wrong, "make them equal; transpose one of them, maybe")
    return {"op": op, "shape": (*m[:-1], *n[:-2], n[-1]), **about}, a, b


def transposed_axes(count: int) -> tuple[int, ...]:
    """How `T` orders axes: all the other way round, of three the last two."""
    return (0, 2, 1) if count == 3 else tuple(range(count))[::-1]


def _transpose(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    shape = known_shape(op, a)
    return {"op": op, "shape": tuple(shape[each] for each in transposed_axes(len(shape))), **about}, a, None


def _take(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    shape, index = known_shape(op, a), shape_of(b)
    assert index is not None
    axis = _checked_axis(op, shape, about.get("axis"), several=False)
    if axis is None:
        return {"op": op, "axis": None, "shape": index}, a, b
    taken = (*shape[:axis], *squeezed(index), *shape[axis + 1 :])
    return {"op": op, "axis": axis, "shape": taken}, a, b


def squeezed(shape: Shape) -> Shape:
    """A shape without axes of size 1; with one axis at least."""
    return tuple(size for size in shape if size != 1) or (1,)


def _onehot(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    a = about.get("idx") if a is None else a  # the keyword of neon's own nodes
    if a is None or isinstance(a, (tuple, *NUMBERS)):
        wrong = f"{type(a).__name__} is no tensor of indices"
        raise TypeError(four_parts(f"op-tree node {op!r}", wrong, "", "make a tensor with dtype=numpy.int32 of them"))
    axis, count = about.get("axis"), np.prod(a.shape, dtype=int)
    if axis not in (0, 1):
        raise refused(op, (a.shape,), f"axis={axis}", "use 0, for one-hot columns, or 1, for one-hot rows")
    if a.dtype.kind not in "iu":
        asked = f"op-tree node {op!r} of indices {a.dtype.name}{list(a.shape)}"
        raise TypeError(four_parts(asked, "they are no whole numbers", "", "make the tensor with dtype=numpy.int32"))
    if max(a.shape) != count:
        raise refused(op, (a.shape,), "indices have one axis", "pass a tensor of shape (n, 1) or (1, n)")
    return {"op": op, "axis": axis, "shape": (None, int(count)) if axis == 0 else (int(count), None)}, a, None


def _rand(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    return {"op": op, "shape": None}, None, None


def _assign(op: str, a: Any, b: Any, about: Mapping[str, Any]) -> Parts:
    return {"op": op, "shape": a.shape}, a, b


BUILDERS: Mapping[str, Callable[[str, Any, Any, Mapping[str, Any]], Parts]] = MappingProxyType(
    {
        **dict.fromkeys((*ONE_OPERAND, *TWO_OPERANDS, "binarize", "shift"), _elementwise),
        **dict.fromkeys(REDUCTIONS, _reduction),
        "dot": _dot,
        "transpose": _transpose,
        "take": _take,
        "onehot": _onehot,
        "rand": _rand,
        "assign": _assign,
    }
)


def operand_count(op: str) -> int:
    """How many operands a node of a name needs; 0 for what is made of none, or of its keywords."""
    if op in ("onehot", "rand"):
        return 0
    return 1 if op in ONE_OPERAND or op in REDUCTIONS or op in ("binarize", "transpose") else 2


def builder_of(op: Any) -> Callable[[str, Any, Any, Mapping[str, Any]], Parts]:
    """What makes nodes of a name; ValueError for an unknown one, with the nearest."""
    builder = BUILDERS.get(op)
    if builder is None:
        remedy = did_you_mean(str(op), sorted(NAMES), f"use one of {', '.join(sorted(NAMES))}")
        raise ValueError(four_parts(f"op-tree node {op!r}", "no op has that name", "", remedy))
    return builder
