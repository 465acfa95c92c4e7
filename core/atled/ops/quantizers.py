"""Quantizers: values rounded to multiples of a step or to powers of two, with straight-through gradients."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from atled.errors import RefusedError, four_parts
from atled.ops.elementwise import Elementwise, Row, grid
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute

# Samples keep off the jumps: no multiple of 0.25, moved by 0.02, is near the middle between two quantized values.
_OFF_JUMPS = {"x": grid(0.02, 0.25)}
_MOST_BITS = 32
_LARGEST_EXPONENT = 126  # of normal float32 numbers, whatever their sign


class _Quantizer(Elementwise, abstract=True):
    """An elementwise op whose formula has numbers that follow from whole numbers and flags given by the user.

    row: the formula; its attributes are those numbers, hidden from the user unless they are among `settings`.
    settings: the attributes that the user gives.
    fewest_bits: how many bits must be left for the size of a value.
    """

    row: Row
    settings: ClassVar[Sequence[Attribute]]
    fewest_bits: ClassVar[int]

    def __init__(self, name: str, doc: str | None = None) -> None:
        super().__init__(self.row, "quantized", module=__name__)
        given = {item.name for item in self.settings}
        hidden = (Attribute(key, "float", 0.0, hidden=True) for key in self.row.attributes if key not in given)
        self.attributes = (*self.settings, *hidden)
        text = inspect.cleandoc(type(self).__doc__ or "") if doc is None else doc
        rule, arguments, rest = text.partition("Args:\n")
        formula = f"As a formula of x and of numbers that follow from the attributes:\n\n    y = {self.row.y}\n\n"
        self.doc = rule + formula + arguments + rest
        self._finish()

    def size_bits(self, attributes: Mapping[str, Any]) -> int:
        """How many of the n bits say how large a value is."""
        raise NotImplementedError

    def numbers(self, attributes: Mapping[str, Any], bits: int) -> dict[str, float]:
        """The hidden attributes."""
        raise NotImplementedError

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        n, bits = attributes["n"], self.size_bits(attributes)
        if bits < self.fewest_bits or n > _MOST_BITS:
            least = n - bits + self.fewest_bits
            raise self.error(inputs, f"n={n} bits", f"use {least} to {_MOST_BITS}")
        return {**attributes, **self.numbers(attributes, bits)}

    def check_values(self, attributes: Mapping[str, Any]) -> None:
        """Refuses nothing; it is here so that no call is remembered by its visible attributes alone."""

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "n=0 bits", (3, 4), n=0),
            Refused(ValueError, "n=33 bits", (3, 4), n=33),
            Refused(TypeError, "n=1.5", (3, 4), n=1.5),
        )


def _modes(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Numbers that stand for the flags that both quantizers have."""
    raw = not attributes["quantize"]
    return {"raw": float(raw), "passing": float(raw or not attributes["ste_fine_grained"])}


class FixedPointQuantize(_Quantizer):
    """Rounding to multiples of delta that n bits can hold: `y = sign(x) floor(|x| / delta + 0.5) delta`, clipped.

    The largest value is `(2^(n - 1) - 1) delta` and the smallest its negative with sign; without, they are
    `(2^n - 1) delta` and 0. The gradient is straight-through: `dx = dy`; with ste_fine_grained only where x is not
    beyond the largest and the smallest value, else 0.

    Args:
        x: (...) float.
        sign: whether one of the bits is for the sign.
        n: number of bits; 1 to 32, 2 at least with sign.
        delta: the step, above 0.
        quantize: False: y is x, with its gradient.
        ste_fine_grained: whether the gradient is 0 where x is clipped.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: n is out of range, delta is not above 0.
    """

    row = Row(
        "FixedPointQuantize",
        "fixed_point_quantize",
        "where(raw > 0, x, minimum(maximum(sign(x) * floor(abs(x) / delta + 0.5) * delta, low), high))",
        {"x": "where(x < low or x > high, passing * gy, gy)"},
        {"delta": 0.0625, "low": 0.0, "high": 0.0, "passing": 0.0, "raw": 0.0},
        doc="",
        data=_OFF_JUMPS,
        tried={"low": -0.4375, "high": 0.4375, "passing": 0.5},
        surrogate=True,
    )
    settings = (
        Attribute("sign", "bool", True),
        Attribute("n", "int", 8),
        Attribute("delta", "float", 0.0625),
        Attribute("quantize", "bool", True),
        Attribute("ste_fine_grained", "bool", True),
    )
    fewest_bits = 1

    def check_values(self, attributes: Mapping[str, Any]) -> None:
        """ValueError for a step that is not above 0."""
        if not 0 < attributes["delta"] < math.inf:
            raise RefusedError(
                four_parts(
                    f"{self.name}(delta={attributes['delta']})", "the step is not above 0", "", "use a delta above 0"
                )
            )

    def size_bits(self, attributes: Mapping[str, Any]) -> int:
        return attributes["n"] - attributes["sign"]

    def numbers(self, attributes: Mapping[str, Any], bits: int) -> dict[str, float]:
        high = (2**bits - 1) * attributes["delta"]
        return {
            "low": -high if attributes["sign"] else 0.0,
            "high": high,
            **_modes(attributes),
        }

    def samples(self) -> Sequence[Sample]:
        x = grid(0.02, 0.25)
        samples = (
            Sample(x((3, 4))),
            Sample(x((3, 4)), n=4),
            Sample(x((3, 4)), sign=False, n=4, delta=0.2),
            Sample(x((5, 67)), n=3, delta=0.4, ste_fine_grained=False),
            Sample((3, 4), quantize=False),
            Sample(x(()), sign=False),
            Sample(x((0, 3))),
        )
        return tuple(sample.no_gradient() for sample in samples)

    def refused(self) -> Sequence[Refused]:
        return (
            *super().refused(),
            Refused(ValueError, "use 2 to 32", (3, 4), n=1),
            Refused(ValueError, "delta above 0", (3, 4), delta=0.0),
            Refused(TypeError, "sign", (3, 4), sign="yes"),
        )


class Pow2Quantize(_Quantizer):
    """Rounding to powers of two that n bits can hold: `y = sign(x) 2^round(log2 |x|)`, clipped.

    Of the n bits one is for the sign if there is one, and one for 0 with with_zero; with n' bits left, the largest
    size is 2^m and the smallest `2^(m - 2^n' + 1)`. With with_zero, sizes below the smallest / sqrt(2) become 0, else
    the smallest. Negative numbers without sign become 0, or without with_zero the smallest size.

    The gradient is straight-through: `dx = dy`; with ste_fine_grained 0 where |x| rounds to more than the largest
    size, and for negative x without sign.

    Args:
        x: (...) float.
        sign: whether values have a sign.
        with_zero: whether 0 is among the values.
        n: number of bits; up to 32, at least as many as sign and with_zero take.
        m: exponent of the largest size; -126 to 126.
        quantize: False: y is x, with its gradient.
        ste_fine_grained: whether the gradient is 0 where x is clipped.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: n or m is out of range.
    """

    row = Row(
        "Pow2Quantize",
        "pow2_quantize",
        "where(raw > 0, x, where(x < bottom, nothing, where(x < 0, -1, 1) * where(abs(x) < least, 0, "
        "2 ** minimum(maximum(round(log(abs(x)) / log(2)), low), high))))",
        {"x": "where(x < bottom or round(log(abs(x)) / log(2)) > high, passing * gy, gy)"},
        {"bottom": 0.0, "nothing": 0.0, "least": 0.0, "low": 0.0, "high": 0.0, "passing": 0.0, "raw": 0.0},
        doc="",
        data=_OFF_JUMPS,
        tried={"bottom": -1.1, "high": -1.0, "passing": 0.5},
        surrogate=True,
    )
    settings = (
        Attribute("sign", "bool", True),
        Attribute("with_zero", "bool", True),
        Attribute("n", "int", 8),
        Attribute("m", "int", 1),
        Attribute("quantize", "bool", True),
        Attribute("ste_fine_grained", "bool", True),
    )
    fewest_bits = 0

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if not -_LARGEST_EXPONENT <= attributes["m"] <= _LARGEST_EXPONENT:
            raise self.error(inputs, f"m={attributes['m']}", f"use {-_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}")
        return super().normalize(attributes, *inputs)

    def size_bits(self, attributes: Mapping[str, Any]) -> int:
        return attributes["n"] - attributes["sign"] - attributes["with_zero"]

    def numbers(self, attributes: Mapping[str, Any], bits: int) -> dict[str, float]:
        low = float(attributes["m"] - 2**bits + 1)
        with_zero = attributes["with_zero"]
        return {
            "bottom": -math.inf if attributes["sign"] else 0.0,
            "nothing": 0.0 if with_zero else 2.0**low,
            "least": 2.0 ** (low - 0.5) if with_zero else 0.0,
            "low": low,
            "high": float(attributes["m"]),
            **_modes(attributes),
        }

    def samples(self) -> Sequence[Sample]:
        x = grid(0.02, 0.25)
        samples = (
            Sample(x((3, 4))),
            Sample(x((3, 4)), n=4, m=0),
            Sample(x((3, 4)), with_zero=False, n=3),
            Sample(x((3, 4)), sign=False, n=3, m=0),
            Sample(x((5, 67)), sign=False, with_zero=False, n=2, m=0, ste_fine_grained=False),
            Sample((3, 4), quantize=False),
            Sample(x(()), n=2),
            Sample(x((0, 3))),
        )
        return tuple(sample.no_gradient() for sample in samples)

    def refused(self) -> Sequence[Refused]:
        return (
            *super().refused(),
            Refused(ValueError, "use 2 to 32", (3, 4), n=1),
            Refused(ValueError, "m=127", (3, 4), m=127),
            Refused(TypeError, "m=0.5", (3, 4), m=0.5),
        )
