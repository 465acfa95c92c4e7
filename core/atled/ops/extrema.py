"""Extrema over axes of which ties get the whole gradient each, or of which only the places are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import kept_shape
from atled.ops.elementwise import Row, define, grid
from atled.ops.reduction import Extremum, Max, Min
from atled.ops.samples import Distinct, Exact, Sample

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

define(
    __name__,
    "reduction",
    (
        Row(
            "PassWhereEqual", "", "where(x0 == x1, g, 0)",
            {"x0": None, "x1": None, "g": "where(x0 == x1, gy, 0)"},
            doc="g where x0 equals x1, else 0: how gradients get to ties.",
            data={"x0": grid(), "x1": grid()}, brief=True,
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side


def _samples() -> Sequence[Sample]:
    return (
        Sample(Distinct((2, 3, 4)), axes=1),
        Sample(Distinct((2, 3, 4, 5)), axes=(-1, 1), keep_dims=True),
        Sample(Distinct((3, 40))),
        Sample(Exact([[1.0, 3.0, 3.0], [2.0, 1.0, 1.0]]), axes=1).no_gradient(),
    )


class _WithTies(Extremum, abstract=True):
    """The value of an extremum, whose gradient goes to all elements that equal it."""

    function = ""
    outputs = ("y",)
    auxiliary = ()

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[ArrayDesc]:
        return super().infer(x, axes=axes, keep_dims=keep_dims)[:1]

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[np.ndarray]:
        return super().reference(x, axes=axes, keep_dims=keep_dims)[:1]

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        shape = kept_shape(x.shape, axes)
        return (g.op("PassWhereEqual", x, g.reshape(g.y, shape), g.reshape(g.gy, shape)),)

    def samples(self) -> Sequence[Sample]:
        return _samples()


class MaxTies(_WithTies, Max):
    """Maximum over axes. NaN if there is one among the elements; each element that equals it gets the whole gradient.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice; the reduced axes hold no element.
    """


class MinTies(_WithTies, Min):
    """Minimum over axes. NaN if there is one among the elements; each element that equals it gets the whole gradient.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice; the reduced axes hold no element.
    """


class _Place(Extremum, abstract=True):
    """The place of an extremum."""

    function = ""
    outputs = ("index",)
    auxiliary = ()
    no_gradient = "stops"

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[ArrayDesc]:
        return super().infer(x, axes=axes, keep_dims=keep_dims)[1:]

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[np.ndarray]:
        return super().reference(x, axes=axes, keep_dims=keep_dims)[1:]

    def samples(self) -> Sequence[Sample]:
        return _samples()


class ArgMax(_Place, Max):
    """Where the first maximum over axes is; NaN counts as one. No gradient flows.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        index: (...) int64; the flat index in C order within the reduced axes; shape of x without them, or with 1 in
            their place.

    Raises:
        ValueError: an axis is out of range or named twice; the reduced axes hold no element.
    """


class ArgMin(_Place, Min):
    """Where the first minimum over axes is; NaN counts as one. No gradient flows.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        index: (...) int64; the flat index in C order within the reduced axes; shape of x without them, or with 1 in
            their place.

    Raises:
        ValueError: an axis is out of range or named twice; the reduced axes hold no element.
    """
