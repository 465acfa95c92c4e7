"""Measures of how well predictions fit their targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last
from atled.ops.indices import check_range, check_target
from atled.ops.samples import Exact, Ints, Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec


class _Scored(OpSpec, abstract=True):
    """What the measures of class scores share: `axis`, and that no gradient flows."""

    category = "validation"
    inputs = (Input("x", gradient="none"), Input("target", kind="index", gradient="none"))
    outputs = ("output",)
    no_gradient = "stops"

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "axis": axis_or_last(self, attributes, inputs)}


class TopNError(_Scored):
    """1 where the label is not among the n best scores, else 0; ties count against it.

    The label's score is compared with all scores along axis, itself included: an error where more than n of them are
    equal or larger.

    Args:
        x: (..., C, ...) float; scores, one per class along axis.
        target: (..., 1, ...) whole numbers in [0, C), 1 being the size of axis.
        axis: of the classes, of size C; default the last one.
        n: how many best scores count; at least 1.

    Returns:
        output: shape of target, float; 0 or 1. No gradient flows.

    Raises:
        ValueError: target has another shape, axis is out of range, n is below 1.
        IndexError: a label is out of range.
    """

    function = "top_n_error"
    attributes = (Attribute("axis", "int", None), Attribute("n", "int", 1))

    def infer(self, x: ArrayDesc, target: ArrayDesc, *, axis: int, n: int) -> ArrayDesc:
        check_target(self, (x, target), x, target, axis)
        if n < 1:
            raise self.error((x, target), f"n={n}", "use 1 or more")
        return ArrayDesc(target.shape, x.dtype)

    def reference(self, x: np.ndarray, target: np.ndarray, *, axis: int, n: int) -> np.ndarray:
        check_range(self.name, "target", target, x.shape[axis])
        score = np.take_along_axis(x, target, axis)
        return ((x >= score).sum(axis=axis, keepdims=True) > n).astype(x.dtype)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((5, 4), Ints((5, 1), 4)),
            Sample((5, 4), Ints((5, 1), 4), n=2),
            Sample((2, 3, 4), Ints((2, 1, 4), 3), axis=1),
            Sample(Exact([[1.0, 1.0, 0.0], [2.0, 1.0, 1.0]]), Exact([[0], [1]]), n=2),
            Sample((0, 4), Ints((0, 1), 4)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "target has shape", (5, 4), Ints((5,), 4)),
            Refused(ValueError, "n=0", (5, 4), Ints((5, 1), 4), n=0),
            Refused(IndexError, "out of range", (2, 4), Exact([[0], [4]])),
        )


class BinaryError(OpSpec):
    """1 where `x >= 0.5` differs from `target >= 0.5`, else 0.

    Args:
        x, target: (...) float, of one shape.

    Returns:
        output: shape of x, float; 0 or 1. No gradient flows.

    Raises:
        ValueError: the shapes differ.
    """

    function = "binary_error"
    category = "validation"
    inputs = (Input("x", gradient="none"), Input("target", gradient="none"))
    outputs = ("output",)
    no_gradient = "stops"

    def infer(self, x: ArrayDesc, target: ArrayDesc) -> ArrayDesc:
        if x.shape != target.shape:
            raise self.error((x, target), "x and target differ in shape", "make them equal")
        return x

    def reference(self, x: np.ndarray, target: np.ndarray) -> np.ndarray:
        return ((x >= 0.5) != (target >= 0.5)).astype(x.dtype)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Uniform((3, 4), 0.0, 1.0), Ints((3, 4), 2)),
            Sample(Exact([0.5, 0.25]), Exact([1.0, 0.5])),
            Sample((), ()),
            Sample((0, 3), (0, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (Refused(ValueError, "differ in shape", (3, 4), (3, 1)),)


class ConfusionMatrix(_Scored):
    """Counts of class (row) taken for class (column); what a position is taken for is the first maximum of its scores.

    Args:
        x: (..., C, ...) float; scores, one per class along axis; C at least 1.
        target: (..., 1, ...) whole numbers in [0, C), 1 being the size of axis.
        axis: of the classes, of size C; default the last one.

    Returns:
        output: (C, C) int32 counts. No gradient flows.

    Raises:
        ValueError: target has another shape, axis is out of range, there are no classes.
        IndexError: a label is out of range.
    """

    function = "confusion_matrix"
    attributes = (Attribute("axis", "int", None),)

    def infer(self, x: ArrayDesc, target: ArrayDesc, *, axis: int) -> ArrayDesc:
        check_target(self, (x, target), x, target, axis)
        classes = x.shape[axis]
        if not classes:
            raise self.error((x, target), f"axis {axis} has size 0", "give at least one class")
        return ArrayDesc((classes, classes), np.int32)

    def reference(self, x: np.ndarray, target: np.ndarray, *, axis: int) -> np.ndarray:
        check_range(self.name, "target", target, x.shape[axis])
        counts = np.zeros((x.shape[axis], x.shape[axis]), np.int32)
        np.add.at(counts, (target, x.argmax(axis=axis, keepdims=True)), 1)
        return counts

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((9, 3), Ints((9, 1), 3)),
            Sample((2, 3, 4), Ints((2, 1, 4), 3), axis=1),
            Sample(Exact([[1.0, 1.0]]), Exact([[1]])),
            Sample((0, 3), Ints((0, 1), 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "target has shape", (9, 3), Ints((9, 3), 3)),
            Refused(ValueError, "has size 0", (9, 0), Ints((9, 1), 3)),
            Refused(IndexError, "out of range", (2, 3), Exact([[0], [3]])),
        )
