"""Random crops, flips and shifts: each sample of a batch gets a draw of its own.

All three give elements of x in another arrangement. Which ones they are is an auxiliary output, the flat index in x of
each element of y; with it the gradient is that of a look-up in a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops import philox
from atled.ops.axes import begin_from_front
from atled.ops.samples import Refused, Sample
from atled.ops.shifting import BORDER_MODES, shift_sources
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_BASE_AXIS = Attribute("base_axis", "int", 1)
_SEED = Attribute("seed", "int", -1)


class _Rearranged(OpSpec, abstract=True):
    """What the three ops share: samples, the index of what was taken, and the gradient."""

    category = "stochastic"
    inputs = (Input("x"), Input("random_state", kind="random_state", gradient="none"))
    outputs = ("y", "index")
    auxiliary = ("index",)
    random = True

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "base_axis": begin_from_front(self, attributes, inputs)}

    def places(self, random_state: np.ndarray, x: np.ndarray, **attributes: Any) -> list[list[np.ndarray]]:
        """Per sample and axis of a sample, the places on the axis from which the elements come: int64."""
        raise NotImplementedError

    def reference(
        self, x: np.ndarray, random_state: np.ndarray, *, base_axis: int, **attributes: Any
    ) -> Sequence[np.ndarray]:
        batch, shape = x.shape[:base_axis], x.shape[base_axis:]
        numbers = np.arange(x.size).reshape(math.prod(batch), *shape)
        places = self.places(random_state, x, base_axis=base_axis, **attributes)
        taken = [numbers[(sample, *np.ix_(*each))] for sample, each in enumerate(places)]
        (desc, _) = self.infer_outputs([ArrayDesc(x.shape, x.dtype)], {"base_axis": base_axis, **attributes})
        index = np.array(taken, np.int64).reshape(desc.shape)
        return x.reshape(-1)[index], index

    def gradient(self, g: GradientCall, x: IRValue, **_: Any) -> Sequence[IRValue | None]:
        return (g.reshape(g.op("EmbedGrad", g.gy, g.outputs[1], n=x.size), x.shape),)


class RandomCrop(_Rearranged):
    """A part of each sample, at a random place: `y[b, i] = x[b, i + offset[b]]`.

    The offset of sample b along axis a of D is `below(size - crop size + 1)`, made of word `b D + a` of the random
    state.

    Args:
        x: (B..., S...) float; the axes before base_axis tell samples apart.
        random_state: (2,) int64, key and call count; supplied by the engine.
        shape: sizes of y along the trailing axes; default: those of x. Sizes before base_axis must be those of x.
        base_axis: first axis of a sample; negative counts from the end.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: (B..., T...) float; T is shape, and S on axes before it.
        index (auxiliary): shape of y, int64; flat index in x.

    Raises:
        ValueError: a size is negative or above that of x, there are more sizes than axes, base_axis is out of range.
    """

    function = "random_crop"
    attributes = (Attribute("shape", "ints", None), _BASE_AXIS, _SEED)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        attributes = super().normalize(attributes, *inputs)
        x, axis = inputs[0], attributes["base_axis"]
        shape = attributes["shape"] or ()
        if len(shape) > x.ndim:
            raise self.error(inputs, f"shape={shape} has {len(shape)} entries", f"give at most {x.ndim}")
        whole = x.shape[: x.ndim - len(shape)] + shape
        if any(not 0 <= size <= most for size, most in zip(whole, x.shape, strict=True)):
            raise self.error(inputs, f"shape={shape} does not fit", f"use sizes up to {list(x.shape)[-len(shape) :]}")
        if whole[:axis] != x.shape[:axis]:
            raise self.error(inputs, f"shape={shape} crops axes before {axis}", f"give at most {x.ndim - axis} sizes")
        return {**attributes, "shape": whole[axis:]}

    def infer(self, x: ArrayDesc, *, shape: tuple[int, ...], base_axis: int, seed: int) -> Sequence[ArrayDesc]:
        cropped = x.shape[:base_axis] + shape
        return ArrayDesc(cropped, x.dtype), ArrayDesc(cropped, np.int64)

    def places(self, random_state: np.ndarray, x: np.ndarray, **attributes: Any) -> list[list[np.ndarray]]:
        base_axis, shape = attributes["base_axis"], attributes["shape"]
        bounds = [size - part + 1 for size, part in zip(x.shape[base_axis:], shape, strict=True)]
        offsets = _below(random_state, math.prod(x.shape[:base_axis]), bounds)
        return [[np.arange(part) + first for part, first in zip(shape, each, strict=True)] for each in offsets]

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 5, 6), shape=(2, 4), seed=7),
            Sample((3, 5, 6), shape=(4,), seed=7),
            Sample((3, 5, 6), shape=(3, 5, 2), seed=-2),
            Sample((3, 5, 6), shape=(2, 4), base_axis=0, seed=1),
            Sample((2, 3, 4, 5), shape=(2, 2), base_axis=-2, seed=1),
            Sample((3, 5), seed=1),
            Sample((3, 5), shape=(0,), seed=1),
            Sample((0, 5), shape=(3,), seed=1),
            Sample((), base_axis=0, seed=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "shape=.* does not fit", (3, 5, 6), shape=(6, 6)),
            Refused(ValueError, "shape=.* does not fit", (3, 5, 6), shape=(-1,)),
            Refused(ValueError, "has 4 entries", (3, 5, 6), shape=(1, 3, 5, 6)),
            Refused(ValueError, "crops axes before 2", (3, 5, 6), shape=(4, 6), base_axis=2),
            Refused(ValueError, "base_axis=4 is out of range", (3, 5, 6), base_axis=4),
        )


class RandomFlip(_Rearranged):
    """Each sample reversed along some axes, along each of them with probability 1/2.

    Sample b is reversed along entry a of D axes if `below(2)`, made of word `b D + a` of the random state, is 1.

    Args:
        x: (B..., S...) float; the axes before base_axis tell samples apart.
        random_state: (2,) int64, key and call count; supplied by the engine.
        axes: axes of x from base_axis on; negative ones count from the end; default the last one.
        base_axis: first axis of a sample; negative counts from the end.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: shape of x, float.
        index (auxiliary): shape of x, int64; flat index in x.

    Raises:
        ValueError: an axis is out of range, before base_axis or named twice, base_axis is out of range.
    """

    function = "random_flip"
    attributes = (Attribute("axes", "axes", None), _BASE_AXIS, _SEED)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        attributes = super().normalize(attributes, *inputs)
        ndim, axis = inputs[0].ndim, attributes["base_axis"]
        axes = (ndim - 1,) if attributes["axes"] is None else attributes["axes"]
        counted = sorted(each + ndim if each < 0 else each for each in axes)
        if any(not axis <= each < ndim for each in counted) or len(set(counted)) != len(counted):
            remedy = f"use some of {axis} to {ndim - 1}, each once" if axis < ndim else "use a smaller base_axis"
            raise self.error(inputs, f"axes={axes} does not name axes of a sample", remedy)
        return {**attributes, "axes": tuple(counted)}

    def infer(self, x: ArrayDesc, **_: Any) -> Sequence[ArrayDesc]:
        return x, ArrayDesc(x.shape, np.int64)

    def places(self, random_state: np.ndarray, x: np.ndarray, **attributes: Any) -> list[list[np.ndarray]]:
        base_axis, axes = attributes["base_axis"], attributes["axes"]
        flips = _below(random_state, math.prod(x.shape[:base_axis]), [2] * len(axes))
        places = []
        for each in flips:
            flipped = dict(zip(axes, each, strict=True))
            along = [np.arange(size)[:: -1 if flipped.get(a) else 1] for a, size in enumerate(x.shape)]
            places.append(along[base_axis:])
        return places

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((5, 3, 4), seed=7),
            Sample((5, 3, 4), axes=(1, 2), seed=7),
            Sample((5, 3, 4), axes=(-1, 1), seed=-2),
            Sample((2, 3, 4), axes=0, base_axis=0, seed=1),
            Sample((2, 3, 4, 2), axes=[3], base_axis=-2, seed=1),
            Sample((3, 4), axes=(), seed=1),
            Sample((0, 4), seed=1),
            Sample((3, 0), seed=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "use some of 1 to 2", (3, 5, 6), axes=(0,)),
            Refused(ValueError, "use some of 1 to 2", (3, 5, 6), axes=(2, -1)),
            Refused(ValueError, "use a smaller base_axis", (3,)),
            Refused(ValueError, "base_axis=-4 is out of range", (3, 5, 6), base_axis=-4),
        )


class RandomShift(_Rearranged):
    """Each sample shifted by random numbers of places, as `Shift` does it.

    The shift of sample b along axis a of D is `below(2 shifts[a] + 1) - shifts[a]`, of word `b D + a` of the random
    state.

    Args:
        x: (B..., S...) float; the axes before base_axis tell samples apart.
        random_state: (2,) int64, key and call count; supplied by the engine.
        shifts: the farthest shift either way for each of the trailing axes, 0 or more, and 0 on axes before base_axis;
            default 0 everywhere.
        border_mode: "nearest" or "reflect", as `Shift`.
        base_axis: first axis of a sample; negative counts from the end.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: shape of x, float.
        index (auxiliary): shape of x, int64; flat index in x.

    Raises:
        ValueError: more shifts than axes, a shift that is negative or of an axis before base_axis, another border_mode,
            base_axis is out of range.
    """

    function = "random_shift"
    attributes = (
        Attribute("shifts", "ints", None),
        Attribute("border_mode", "str", "nearest", choices=BORDER_MODES),
        _BASE_AXIS,
        _SEED,
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        attributes = super().normalize(attributes, *inputs)
        ndim, axis = inputs[0].ndim, attributes["base_axis"]
        shifts = attributes["shifts"] or ()
        if len(shifts) > ndim:
            raise self.error(inputs, f"shifts={shifts} has {len(shifts)} entries", f"give at most {ndim}")
        if any(shift < 0 for shift in shifts):
            raise self.error(inputs, f"shifts={shifts} has a negative entry", "give how far it may go either way")
        whole = (0,) * (ndim - len(shifts)) + shifts
        if any(whole[:axis]):
            raise self.error(inputs, f"shifts={shifts} moves axes before {axis}", f"give at most {ndim - axis} shifts")
        return {**attributes, "shifts": whole[axis:]}

    def infer(self, x: ArrayDesc, **_: Any) -> Sequence[ArrayDesc]:
        return x, ArrayDesc(x.shape, np.int64)

    def places(self, random_state: np.ndarray, x: np.ndarray, **attributes: Any) -> list[list[np.ndarray]]:
        base_axis, most = attributes["base_axis"], attributes["shifts"]
        drawn = _below(random_state, math.prod(x.shape[:base_axis]), [2 * shift + 1 for shift in most])
        return [
            [
                shift_sources(size, int(number) - far, attributes["border_mode"])
                for size, number, far in zip(x.shape[base_axis:], each, most, strict=True)
            ]
            for each in drawn
        ]

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((5, 3, 4), shifts=(1, 2), seed=7),
            Sample((5, 3, 4), shifts=(1, 2), border_mode="reflect", seed=7),
            Sample((5, 4), shifts=(0, 2), seed=-2),
            Sample((2, 3, 4), shifts=(9,), border_mode="reflect", seed=1),
            Sample((2, 3, 4), shifts=(1, 1, 1), base_axis=0, seed=1),
            Sample((2, 3, 4), shifts=(2,), base_axis=-1, seed=1),
            Sample((2, 3), seed=1),
            Sample((0, 3), shifts=(1,), seed=1),
            Sample((3, 0), shifts=(1,), border_mode="reflect", seed=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "has 4 entries", (3, 5, 6), shifts=(0, 0, 1, 1)),
            Refused(ValueError, "negative entry", (3, 5, 6), shifts=(-1,)),
            Refused(ValueError, "moves axes before 2", (3, 5, 6), shifts=(1, 1), base_axis=2),
            Refused(ValueError, "border_mode='wrap'", (3, 5, 6), border_mode="wrap"),
            Refused(ValueError, "base_axis=4 is out of range", (3, 5, 6), base_axis=4),
        )


def _below(random_state: np.ndarray, samples: int, bounds: Sequence[int]) -> np.ndarray:
    """(samples, axes) int64: whole numbers from 0 to below the bound of each axis, by the rule of `philox.below`."""
    words = philox.words(random_state, samples * len(bounds)).reshape(samples, len(bounds))
    return ((words * np.array(bounds, np.uint64)) >> np.uint64(32)).astype(np.int64)
