"""Shifts along axes, with the border repeated or reflected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

BORDER_MODES = ("nearest", "reflect")


def shift_sources(size: int, shift: int, border_mode: str) -> np.ndarray:
    """(size,) int64: the element of an axis that moves to each place when all move up by `shift`.

    border_mode: "nearest" repeats the first and the last element, "reflect" goes on with the mirror image, in which
        they are repeated once (c b a | a b c | c b a), then with the image of that.
    """
    wanted = np.arange(size) - shift
    if border_mode == "nearest" or not size:
        return wanted.clip(0, max(size - 1, 0))
    place = wanted % (2 * size)
    return np.where(place < size, place, 2 * size - 1 - place)


def shifted(x: np.ndarray, shifts: Sequence[int], border_mode: str) -> np.ndarray:
    """A copy of x with its elements moved along each axis."""
    y = x.copy()
    for axis, shift in enumerate(shifts):
        if shift:
            y = y.take(shift_sources(x.shape[axis], shift, border_mode), axis=axis)
    return y


def shifted_back(gy: np.ndarray, shifts: Sequence[int], border_mode: str) -> np.ndarray:
    """The adjoint of `shifted`: each element is added to the place it came from."""
    gx = gy.copy()
    for axis, shift in enumerate(shifts):
        if shift:
            # In float64: the elements of a whole axis may meet in one place.
            collected = np.zeros(gy.shape)
            places = shift_sources(gy.shape[axis], shift, border_mode)
            np.add.at(np.moveaxis(collected, axis, 0), places, np.moveaxis(gx, axis, 0))
            gx = collected.astype(gy.dtype)
    return gx


class _Shifting(OpSpec, abstract=True):
    """What a shift and its adjoint share: how far along which axes, and what happens at the border."""

    category = "array"
    attributes = (
        Attribute("shifts", "ints", None),
        Attribute("border_mode", "str", "nearest", choices=BORDER_MODES),
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        shifts, ndim = attributes["shifts"] or (), inputs[0].ndim
        if len(shifts) > ndim:
            raise self.error(
                inputs, f"shifts={shifts} has {len(shifts)} entries", f"give one per trailing axis, at most {ndim}"
            )
        return {**attributes, "shifts": (0,) * (ndim - len(shifts)) + shifts}

    def infer(self, x: ArrayDesc, **_: Any) -> ArrayDesc:
        return x

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4), shifts=(1, -2)),
            Sample((3, 4), shifts=(1, -2), border_mode="reflect"),
            Sample((2, 3, 4), shifts=(3,)),
            Sample((2, 3, 4), shifts=(-1, 0), border_mode="reflect"),
            Sample((2, 3), shifts=(5, -7)),
            Sample((2, 3), shifts=(5, -7), border_mode="reflect"),
            Sample((2, 3)),
            Sample((2, 1), shifts=(0, 3), border_mode="reflect"),
            Sample((), shifts=()),
            Sample((0, 3), shifts=(2, 1)),
            Sample((0, 3), shifts=(2, 1), border_mode="reflect"),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "shifts=.* has 3 entries", (3, 4), shifts=(1, 2, 3)),
            Refused(ValueError, "border_mode='wrap'", (3, 4), shifts=(1,), border_mode="wrap"),
            Refused(TypeError, "shifts", (3, 4), shifts=(0.5,)),
        )


class Shift(_Shifting):
    """Elements moved along the trailing axes, those of the border filling the gap: `y[i] = x[source(i - shift)]`.

    Args:
        x: (...) float.
        shifts: how far, for each of the trailing axes; positive moves to higher indices; default 0 everywhere.
        border_mode: "nearest": source(i) is the element of the axis that is nearest to i; "reflect": the axis is
            continued by its mirror image, the first and last element repeated once (c b a | a b c | c b a).

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: more shifts than axes, another border_mode.
    """

    function = "shift"
    inputs = (Input("x"),)
    integers = "exact"

    def reference(self, x: np.ndarray, *, shifts: tuple[int, ...], border_mode: str) -> np.ndarray:
        return shifted(x, shifts, border_mode)

    def gradient(self, g: GradientCall, x: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return (g.op("ShiftGrad", g.gy, **attributes),)


class ShiftGrad(_Shifting):
    """Gradient of `Shift`, its adjoint: each gy is added to the place from which its element came.

    Args:
        gy: (...) float.
        shifts, border_mode: as `Shift`.

    Returns:
        gx: shape of gy, float.

    Raises:
        ValueError: more shifts than axes, another border_mode.
    """

    inputs = (Input("gy"),)
    outputs = ("gx",)

    def reference(self, gy: np.ndarray, *, shifts: tuple[int, ...], border_mode: str) -> np.ndarray:
        return shifted_back(gy, shifts, border_mode)

    def gradient(self, g: GradientCall, gy: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return (g.op("Shift", g.gy, **attributes),)
