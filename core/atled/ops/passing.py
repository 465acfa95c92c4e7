"""Ops that pass their input on: as it is, under another shape, or in another dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.ops.samples import Ints, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Identity(OpSpec):
    """A copy: `y = x`, in the dtype of x.

    Args:
        x: (...) any dtype.

    Returns:
        y: shape of x, dtype of x.
    """

    function = "identity"
    category = "math"
    copies = True
    inputs = (Input("x", kind="keep"),)

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        return x

    def reference(self, x: np.ndarray) -> np.ndarray:
        return x.copy()

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        return (g.gy,)

    def samples(self) -> Sequence[Sample]:
        return Sample((2, 3)), Sample(()), Sample((0, 3)), Sample(Ints((2, 3), 9)).no_gradient()


class Unlink(OpSpec):
    """`y = x` in the same memory, through which no gradient flows.

    Args:
        x: (...) any dtype.

    Returns:
        y: shape of x, dtype of x; a view.
    """

    function = "unlink"
    category = "special"
    inputs = (Input("x", kind="keep"),)
    views = True
    no_gradient = "stops"

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        return x

    def reference(self, x: np.ndarray) -> np.ndarray:
        return x.copy()

    def samples(self) -> Sequence[Sample]:
        return Sample((2, 3)), Sample(()), Sample((0, 3)), Sample(Ints((2, 3), 9))


class Reshape(OpSpec):
    """The same elements, in C order, under another shape.

    Args:
        x: (...) any dtype.
        shape: (S...), the new shape; one entry may be -1 and then follows from the others.
        inplace: a wish of the caller that does not change the result: y shares the memory of x in any case.

    Returns:
        y: (S...) dtype of x; a view. What is written into either is seen in the other.

    Raises:
        ValueError: the sizes differ, or -1 has no one meaning.
    """

    function = "reshape"
    category = "array"
    inputs = (Input("x", kind="keep"),)
    attributes = (Attribute("shape", "ints"), Attribute("inplace", "bool", True))
    views = True

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        shape, size = attributes["shape"], inputs[0].size
        if any(entry < -1 for entry in shape) or shape.count(-1) > 1:
            raise self.error(inputs, f"shape={shape}", "use sizes from 0 on, and -1 at most once")
        if -1 in shape:
            rest = math.prod(entry for entry in shape if entry != -1)
            if not rest or size % rest:
                raise self.error(
                    inputs,
                    f"shape={shape}: {size} elements do not say what -1 is",
                    f"use sizes whose product is {size}",
                )
            shape = tuple(size // rest if entry == -1 else entry for entry in shape)
        if math.prod(shape) != size:
            raise self.error(
                inputs,
                f"shape={shape} has {math.prod(shape)} elements, x has {size}",
                f"use sizes whose product is {size}",
            )
        return {**attributes, "shape": shape}

    def infer(self, x: ArrayDesc, *, shape: tuple[int, ...], inplace: bool) -> ArrayDesc:
        return ArrayDesc(shape, x.dtype)

    def reference(self, x: np.ndarray, *, shape: tuple[int, ...], inplace: bool) -> np.ndarray:
        return x.reshape(shape).copy()

    def gradient(self, g: GradientCall, x: IRValue, **_: Any) -> Sequence[IRValue | None]:
        return (g.reshape(g.gy, x.shape),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 6), shape=(3, 4)),
            Sample((2, 3, 4), shape=(-1, 4)),
            Sample((2, 3), shape=(3, 2), inplace=False),
            Sample((1, 1), shape=()),
            Sample((), shape=(1, 1)),
            Sample((0, 3), shape=(5, 0)),
            Sample((0, 3), shape=(-1, 3)),
            Sample(Ints((2, 3), 9), shape=(6,)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "has 8 elements, x has 6", (2, 3), shape=(2, 4)),
            Refused(ValueError, "do not say what -1 is", (2, 3), shape=(4, -1)),
            Refused(ValueError, "do not say what -1 is", (0, 3), shape=(0, -1)),
            Refused(ValueError, "-1 at most once", (2, 3), shape=(-1, -1)),
            Refused(TypeError, "shape", (2, 3), shape=(1.5, 4)),
        )


class Cast(OpSpec):
    """The same values in another dtype, rounded or truncated as NumPy's `astype` does.

    Args:
        x: (...) any dtype.
        dtype: that of y.

    Returns:
        y: shape of x, any dtype: the one given. Gradients flow out of floating-point dtypes only; that of a
            whole-number x has the dtype of gy.
    """

    category = "array"
    inputs = (Input("x", kind="keep"),)
    attributes = (Attribute("dtype", "dtype", hidden=True),)

    def infer(self, x: ArrayDesc, *, dtype: np.dtype) -> ArrayDesc:
        return x.astype(dtype)

    def reference(self, x: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
        with np.errstate(over="ignore"):  # a large number becomes inf in a narrow dtype
            return x.astype(dtype)

    def gradient(self, g: GradientCall, x: IRValue, *, dtype: np.dtype) -> Sequence[IRValue | None]:
        if not is_float(dtype):
            return (None,)
        return (g.op("Cast", g.gy, dtype=x.dtype) if is_float(x.dtype) else g.gy,)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), dtype="float64"),
            Sample((2, 3), dtype="float32").no_gradient(),
            Sample((2, 3), dtype="float16").no_gradient(),
            Sample((), dtype="int64").no_gradient(),
            Sample(Ints((0, 3), 9), dtype="float32").no_gradient(),
            Sample(Ints((2, 3), 9), dtype="float32").no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(TypeError, "dtype is missing", (2, 3)),
            Refused(TypeError, "pass dtype as a dtype", (2, 3), dtype="floating"),
        )
