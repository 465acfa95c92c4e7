"""Axes that attributes name: counted from the front, and what is left of a shape without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atled.ops.spec import OpSpec


def from_front(spec: OpSpec, inputs: Sequence[Any], name: str, axis: int, ndim: int, *, last: int | None = None) -> int:
    """An axis counted from the front; ValueError for one that is not there.

    name: of the attribute.  last: the last axis that the error offers, if some are there that do not do either.
    """
    if not -ndim <= axis < ndim:
        raise spec.error(inputs, f"{name}={axis} is out of range", f"use 0 to {ndim - 1 if last is None else last}")
    return axis % ndim


def begin_from_front(spec: OpSpec, attributes: dict[str, Any], inputs: Sequence[Any]) -> int:
    """The attribute `base_axis`, with which samples begin, counted from the front; they may have no axes at all."""
    ndim, axis = inputs[0].ndim, attributes["base_axis"]
    if not -ndim <= axis <= ndim:
        raise spec.error(inputs, f"base_axis={axis} is out of range", f"use 0 to {ndim}")
    return int(axis + ndim if axis < 0 else axis)


def axis_or_last(spec: OpSpec, attributes: dict[str, Any], inputs: Sequence[Any]) -> int:
    """The attribute `axis` counted from the front of the first input, its last axis by default."""
    ndim = inputs[0].ndim
    axis = attributes["axis"]
    if not ndim:
        raise spec.error(inputs, "an array without axes", "add an axis by reshape")
    if axis is None:
        return ndim - 1
    return from_front(spec, inputs, "axis", axis, ndim)


def base_axis_from_front(spec: OpSpec, attributes: dict[str, Any], inputs: Sequence[Any]) -> int:
    """The attribute `base_axis` counted from the front of the first input."""
    ndim = inputs[0].ndim
    if not ndim:
        raise spec.error(inputs, "an array without axes", "add an axis by reshape")
    return from_front(spec, inputs, "base_axis", attributes["base_axis"], ndim)


def kept_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape with the reduced axes kept at size 1."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def dropped_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape without the reduced axes."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)
