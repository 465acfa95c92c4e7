"""The k largest elements of each sample: of the data (TopKData), or of the gradient (TopKGrad)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import from_front
from atled.ops.samples import Distinct, Exact, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _TopK(OpSpec, abstract=True):
    """What both ops share: samples are the elements from `base_axis` on, and k of each are chosen."""

    category = "stochastic"
    inputs = (Input("x"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        x, k = inputs[0], attributes["k"]
        axis = from_front(self, inputs, "base_axis", attributes["base_axis"], x.ndim)
        size = math.prod(x.shape[axis:])
        if not 1 <= k <= size:
            remedy = f"use 1 to {size}" if size else "give each sample at least one element"
            raise self.error(inputs, f"k={k} of the {size} elements of a sample", remedy)
        return {**attributes, "base_axis": axis}

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "k=0 of the 4 elements", (3, 4), k=0),
            Refused(ValueError, "k=13 of the 12 elements", (2, 3, 4), k=13),
            Refused(ValueError, "base_axis=2 is out of range", (3, 4), k=1, base_axis=2),
            Refused(ValueError, "at least one element", (3, 0), k=1),
            Refused(TypeError, "k is missing", (3, 4)),
        )


class TopKData(_TopK):
    """The k largest elements of each sample; of equal ones the first.

    With reduce, they come in descending order. Without, y is x with all other elements set to 0.

    The gradient with reduce goes to the chosen elements; without, it is that of the identity, `dx = dy` everywhere.

    Args:
        x: (B..., S...) float; the elements from base_axis on are one sample.
        k: how many; 1 to the size of a sample.
        abs: whether to choose and order by magnitude; the values keep their sign.
        reduce: whether to leave the others out.
        base_axis: first axis of a sample; negative counts from the end.

    Returns:
        y: (B..., k) float with reduce, else the shape of x.
        index (auxiliary): (B..., k) int64; flat index in x of the chosen elements, largest first.

    Raises:
        ValueError: k or base_axis is out of range.
    """

    function = "top_k_data"
    attributes = (
        Attribute("k", "int"),
        Attribute("abs", "bool", False),
        Attribute("reduce", "bool", True),
        Attribute("base_axis", "int", 1),
    )
    outputs = ("y", "index")
    auxiliary = ("index",)

    def infer(self, x: ArrayDesc, *, k: int, abs: bool, reduce: bool, base_axis: int) -> Sequence[ArrayDesc]:
        chosen = (*x.shape[:base_axis], k)
        return ArrayDesc(chosen, x.dtype) if reduce else x, ArrayDesc(chosen, np.int64)

    def reference(self, x: np.ndarray, *, k: int, abs: bool, reduce: bool, base_axis: int) -> Sequence[np.ndarray]:
        batch = x.shape[:base_axis]
        count, size = math.prod(batch), math.prod(x.shape[base_axis:])
        rows = x.reshape(count, size)
        # Stable, so that of equal elements the first comes first.
        order = np.argsort(-np.abs(rows) if abs else -rows, axis=1, kind="stable")[:, :k]
        index = (order + size * np.arange(count)[:, np.newaxis]).reshape(*batch, k)
        if reduce:
            return x.reshape(-1)[index], index
        y = np.zeros(x.shape, x.dtype)
        y.reshape(-1)[index] = x.reshape(-1)[index]
        return y, index

    def gradient(self, g: GradientCall, x: IRValue, *, reduce: bool, **_: Any) -> Sequence[IRValue | None]:
        if not reduce:
            return (g.gy,)
        return (g.reshape(g.op("EmbedGrad", g.gy, g.outputs[1], n=x.size), x.shape),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Distinct((3, 7)), k=2),
            Sample(Distinct((3, 7)), k=3, abs=True),
            Sample(Distinct((2, 3, 4)), k=5),
            Sample(Distinct((2, 3, 4)), k=2, base_axis=-1),
            Sample(Distinct((2, 3)), k=6, base_axis=0),
            Sample(Distinct((3, 7)), k=2, reduce=False).no_gradient(),
            Sample(Distinct((2, 3, 4)), k=3, abs=True, reduce=False).no_gradient(),
            Sample(Exact([[1.0, 3.0, 3.0, -3.0], [2.0, 2.0, 2.0, 2.0]]), k=2).no_gradient(),
            Sample(Distinct((0, 3)), k=2),
        )


class TopKGrad(_TopK):
    """The identity, whose gradient keeps the k largest elements of each sample of dy and sets the others to 0.

    Args:
        x: (B..., S...) float; the elements from base_axis on are one sample.
        k: how many; 1 to the size of a sample.
        abs: whether to choose by magnitude.
        base_axis: first axis of a sample; negative counts from the end.

    Returns:
        y: shape of x, float; the values of x.

    Raises:
        ValueError: k or base_axis is out of range.
    """

    function = "top_k_grad"
    attributes = (Attribute("k", "int"), Attribute("abs", "bool", False), Attribute("base_axis", "int", 1))
    copies = True

    def infer(self, x: ArrayDesc, **_: Any) -> ArrayDesc:
        return x

    def reference(self, x: np.ndarray, **_: Any) -> np.ndarray:
        return x.copy()

    def gradient(self, g: GradientCall, x: IRValue, **choice: Any) -> Sequence[IRValue | None]:
        gx, _ = g.op("TopKData", g.gy, reduce=False, **choice)
        return (gx,)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 7), k=2).no_gradient(),
            Sample((2, 3, 4), k=5, abs=True).no_gradient(),
            Sample((2, 3), k=6, base_axis=0),
            Sample((0, 3), k=1, base_axis=-1),
        )
