"""Random ops: samples of distributions, and dropout; `philox` says how the random state becomes numbers.

The engine supplies the random state to implementations and references; shape rules and gradients do not see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, four_parts
from atled.ops import philox
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_RANDOM_STATE = Input("random_state", kind="random_state", gradient="none")
_SHAPE = Attribute("shape", "ints", ())
_SEED = Attribute("seed", "int", -1)
_INT32 = np.iinfo(np.int32)


def _value_error(asked: str, wrong: str, remedy: str) -> RefusedError:
    return RefusedError(four_parts(asked, wrong, "", remedy))


class Draw(OpSpec, abstract=True):
    """What the ops that draw an array of a given shape share."""

    category = "stochastic"
    inputs = (_RANDOM_STATE,)
    random = True
    no_gradient = "stops"

    def normalize(self, attributes: dict[str, Any], *inputs: ArrayDesc | None) -> dict[str, Any]:
        if any(size < 0 for size in attributes["shape"]):
            raise _value_error(
                f"{self.name}(shape={attributes['shape']})", "a size is negative", "give sizes of 0 or more"
            )
        return attributes

    def infer(self, *, shape: tuple[int, ...], **attributes: Any) -> ArrayDesc:
        return ArrayDesc(shape, attributes.get("dtype", np.int32))

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "a size is negative", shape=(2, -1)),
            Refused(TypeError, "shape", shape=(2, 1.5)),
        )


class Rand(Draw):
    """Uniform random numbers: `y = low + (high - low) * uniform`.

    Args:
        random_state: (2,) int64, key and call count; supplied by the engine.
        low, high: bounds; low included, high not, except where rounding to the dtype reaches it.
        shape: (S...), of y.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.
        dtype: dtype of the result; set by the engine.

    Returns:
        y: (S...) float.

    Raises:
        ValueError: a size is negative.
    """

    function = "rand"
    attributes = (
        Attribute("low", "float", 0.0),
        Attribute("high", "float", 1.0),
        _SHAPE,
        _SEED,
        Attribute("dtype", "dtype", np.dtype(np.float32), hidden=True),
    )

    def reference(
        self, random_state: np.ndarray, *, low: float, high: float, shape: tuple[int, ...], seed: int, dtype: np.dtype
    ) -> np.ndarray:
        return np.asarray(low + (high - low) * philox.uniform(random_state, shape)).astype(dtype)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(shape=(3, 5), seed=7),
            Sample(low=-2.5, high=3.0, shape=(67,), seed=-2),
            Sample(seed=1),
            Sample(shape=(0, 3), seed=1),
        )


class Randn(Draw):
    """Normal random numbers: `y = mu + sigma * normal`, by the Box-Muller method.

    Args:
        random_state: (2,) int64, key and call count; supplied by the engine.
        mu: mean.
        sigma: standard deviation, 0 or more.
        shape: (S...), of y.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.
        dtype: dtype of the result; set by the engine.

    Returns:
        y: (S...) float.

    Raises:
        ValueError: sigma is negative, a size is negative.
    """

    function = "randn"
    attributes = (
        Attribute("mu", "float", 0.0),
        Attribute("sigma", "float", 1.0),
        _SHAPE,
        _SEED,
        Attribute("dtype", "dtype", np.dtype(np.float32), hidden=True),
    )

    def check_values(self, attributes: Mapping[str, Any]) -> None:
        """ValueError for a negative standard deviation."""
        if not attributes["sigma"] >= 0:
            raise _value_error(f"Randn(sigma={attributes['sigma']})", "sigma is not 0 or more", "use sigma >= 0")

    def reference(
        self, random_state: np.ndarray, *, mu: float, sigma: float, shape: tuple[int, ...], seed: int, dtype: np.dtype
    ) -> np.ndarray:
        return np.asarray(mu + sigma * philox.normal(random_state, shape)).astype(dtype)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(shape=(3, 5), seed=7),
            Sample(mu=-1.0, sigma=0.5, shape=(67,), seed=-2),
            Sample(seed=1),
            Sample(shape=(0, 3), seed=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (*super().refused(), Refused(ValueError, "sigma", sigma=-1.0, shape=(2,)))


class Randint(Draw):
    """Random whole numbers: `y = low + below(high - low)`.

    Args:
        random_state: (2,) int64, key and call count; supplied by the engine.
        low, high: bounds, low included, high not; both fit int32.
        shape: (S...), of y.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: (S...) int32.

    Raises:
        ValueError: high is not above low, a bound does not fit int32, a size is negative.
    """

    function = "randint"
    attributes = (Attribute("low", "int", 0), Attribute("high", "int", 1), _SHAPE, _SEED)

    def normalize(self, attributes: dict[str, Any], *inputs: ArrayDesc | None) -> dict[str, Any]:
        low, high = attributes["low"], attributes["high"]
        asked = f"Randint(low={low}, high={high})"
        if high <= low:
            raise _value_error(asked, "there is no whole number from low to below high", "use high > low")
        if low < _INT32.min or high - 1 > _INT32.max:
            raise _value_error(asked, "the bounds do not fit int32", f"use {_INT32.min} to {_INT32.max + 1}")
        return super().normalize(attributes, *inputs)

    def reference(
        self, random_state: np.ndarray, *, low: int, high: int, shape: tuple[int, ...], seed: int
    ) -> np.ndarray:
        return np.asarray(philox.below(random_state, shape, high - low).astype(np.int64) + low).astype(np.int32)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(low=-3, high=4, shape=(3, 5), seed=7),
            Sample(low=int(_INT32.min), high=int(_INT32.max) + 1, shape=(67,), seed=-2),
            Sample(seed=1),
            Sample(high=5, shape=(0, 3), seed=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            *super().refused(),
            Refused(ValueError, "use high > low", low=3, high=3, shape=(2,)),
            Refused(ValueError, "do not fit int32", low=0, high=2**31 + 1, shape=(2,)),
            Refused(TypeError, "high", high=1.5, shape=(2,)),
        )


class Dropout(OpSpec):
    """Dropout: `y = x * mask`, `mask = 1 / (1 - p) where uniform >= p, else 0`.

    The comparison is of the 24 random bits with p * 2**24 in float64, so that no backend rounds p first; the scale
    1 / (1 - p) is computed in float64 too and rounded once.

    Source: Srivastava and others, "Dropout", JMLR 2014; scaled at training time.

    Args:
        x: (...) float.
        random_state: (2,) int64, key and call count; supplied by the engine.
        p: probability to drop an element, 0 <= p < 1.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: shape of x, float.
        mask (auxiliary): shape of x, float; what x was multiplied with.

    Raises:
        ValueError: p is out of range.
    """

    function = "dropout"
    category = "stochastic"
    inputs = (Input("x"), _RANDOM_STATE)
    attributes = (Attribute("p", "float", 0.5), _SEED)
    outputs = ("y", "mask")
    auxiliary = ("mask",)
    random = True

    def check_values(self, attributes: Mapping[str, Any]) -> None:
        """ValueError for a p out of range."""
        if not 0 <= attributes["p"] < 1:
            raise _value_error(f"Dropout(p={attributes['p']})", "p is out of range", "use 0 <= p < 1")

    def infer(self, x: ArrayDesc, **attributes: Any) -> Sequence[ArrayDesc]:
        return x, x

    def reference(self, x: np.ndarray, random_state: np.ndarray, *, p: float, seed: int) -> Sequence[np.ndarray]:
        kept = philox.bits24(random_state, x.shape) >= math.ldexp(p, 24)
        mask = np.where(kept, 1.0 / (1.0 - p), 0.0).astype(x.dtype)
        return np.asarray(x * mask), mask

    def gradient(self, g: GradientCall, x: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return (g.op("Mul2", g.gy, g.outputs[1]),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 5), seed=7),
            Sample((5, 67), p=0.3, seed=-2),
            Sample((3, 4), p=0.0, seed=1),
            Sample((), p=0.9, seed=1),
            Sample((0, 3), seed=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "p is out of range", (3, 4), p=1.0),
            Refused(ValueError, "p is out of range", (3, 4), p=-0.1),
            Refused(ValueError, "p is out of range", (3, 4), p=math.nan),
            Refused(TypeError, "p", (3, 4), p="half"),
        )
