"""Calls that make elementwise op-trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.errors import four_parts
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.operand import Operand, of_one, of_two


def built(op: str, a: Any, b: Any, out: Any = None, **about: Any) -> Any:
    """What `OpTreeNode.build` gives; TypeError where it finds an operand of a foreign type."""
    made = OpTreeNode.build(op, a, b, out=out, **about)
    if made is NotImplemented:
        types = " and ".join(type(each).__name__ for each in (a, b) if each is not None)
        wrong = "operands are tensors, op-trees and numbers"
        raise TypeError(four_parts(f"op-tree node {op!r} of {types}", wrong, "", "make a tensor of it, by array"))
    return made


def _of_one(op: str, a: Any, out: Any) -> Any:
    """An elementwise node of one operand, as `built` gives it, quicker."""
    return of_one(op, a) if out is None and isinstance(a, Operand) else built(op, a, None, out)


def _of_two(op: str, a: Any, b: Any, out: Any) -> Any:
    """An elementwise node of two operands, as `built` gives it, quicker where the first is no number."""
    if out is None and isinstance(a, Operand):
        made = of_two(op, a, b)
        if made is not NotImplemented:
            return made
    return built(op, a, b, out)


class TreeCalls:
    """Makes elementwise op-trees of tensors, op-trees and numbers, which broadcast as in NumPy.

    Each call returns an op-tree; or `out`, to which it was assigned, where that is given. Comparisons are 1 or 0 in the
    dtype of the operands.

    ValueError: shapes do not broadcast.  TypeError: an operand of another type.
    """

    def absolute(self, a: Any, out: Any = None) -> Any:
        """Absolute values."""
        return _of_one("abs", a, out)

    def fabs(self, a: Any, out: Any = None) -> Any:
        """Absolute values; the same as `absolute`."""
        return _of_one("abs", a, out)

    def negative(self, a: Any, out: Any = None) -> Any:
        """Values with the other sign."""
        return _of_one("neg", a, out)

    def sgn(self, a: Any, out: Any = None) -> Any:
        """Signs: 1, 0 or -1."""
        return _of_one("sgn", a, out)

    def sqrt(self, a: Any, out: Any = None) -> Any:
        """Square roots, NaN below 0."""
        return _of_one("sqrt", a, out)

    def square(self, a: Any, out: Any = None) -> Any:
        """Squares."""
        return _of_one("sqr", a, out)

    def exp(self, a: Any, out: Any = None) -> Any:
        """Exponentials."""
        return _of_one("exp", a, out)

    def exp2(self, a: Any, out: Any = None) -> Any:
        """2 to the powers of a."""
        return _of_one("exp2", a, out)

    def log(self, a: Any, out: Any = None) -> Any:
        """Natural logarithms: -inf at 0, NaN below."""
        return _of_one("log", a, out)

    def log2(self, a: Any, out: Any = None) -> Any:
        """Logarithms to base 2: -inf at 0, NaN below."""
        return _of_one("log2", a, out)

    def safelog(self, a: Any, out: Any = None) -> Any:
        """Natural logarithms, but -50 below exp(-50)."""
        return _of_one("safelog", a, out)

    def sig(self, a: Any, out: Any = None) -> Any:
        """Logistic function `1 / (1 + exp(-a))`."""
        return _of_one("sig", a, out)

    def sig2(self, a: Any, out: Any = None) -> Any:
        """Logistic function to base 2, `1 / (1 + 2 ** -a)`."""
        return _of_one("sig2", a, out)

    def tanh(self, a: Any, out: Any = None) -> Any:
        """Hyperbolic tangents."""
        return _of_one("tanh", a, out)

    def tanh2(self, a: Any, out: Any = None) -> Any:
        """Hyperbolic tangents to base 2, `(2 ** (2 * a) - 1) / (2 ** (2 * a) + 1)`."""
        return _of_one("tanh2", a, out)

    def rint(self, a: Any, out: Any = None) -> Any:
        """Nearest whole numbers, halves to the even one."""
        return _of_one("rint", a, out)

    def finite(self, a: Any, out: Any = None) -> Any:
        """1 where a is a number and not infinite, else 0."""
        return _of_one("finite", a, out)

    def reciprocal(self, a: Any, out: Any = None) -> Any:
        """`1 / a`."""
        return built("div", 1.0, a, out)

    def add(self, a: Any, b: Any, out: Any = None) -> Any:
        """`a + b`."""
        return _of_two("add", a, b, out)

    def subtract(self, a: Any, b: Any, out: Any = None) -> Any:
        """`a - b`."""
        return _of_two("sub", a, b, out)

    def multiply(self, a: Any, b: Any, out: Any = None) -> Any:
        """`a * b`."""
        return _of_two("mul", a, b, out)

    def divide(self, a: Any, b: Any, out: Any = None) -> Any:
        """`a / b`."""
        return _of_two("div", a, b, out)

    def true_divide(self, a: Any, b: Any, out: Any = None) -> Any:
        """`a / b`; the same as `divide`."""
        return _of_two("div", a, b, out)

    def power(self, a: Any, b: Any, out: Any = None) -> Any:
        """`a ** b`."""
        return _of_two("pow", a, b, out)

    def maximum(self, a: Any, b: Any, out: Any = None) -> Any:
        """The larger ones of two; NaN where one is."""
        return _of_two("maximum", a, b, out)

    def minimum(self, a: Any, b: Any, out: Any = None) -> Any:
        """The smaller ones of two; NaN where one is."""
        return _of_two("minimum", a, b, out)

    def equal(self, a: Any, b: Any, out: Any = None) -> Any:
        """1 where a equals b, else 0."""
        return _of_two("eq", a, b, out)

    def not_equal(self, a: Any, b: Any, out: Any = None) -> Any:
        """1 where a does not equal b, else 0."""
        return _of_two("ne", a, b, out)

    def less(self, a: Any, b: Any, out: Any = None) -> Any:
        """1 where a is less than b, else 0."""
        return _of_two("lt", a, b, out)

    def less_equal(self, a: Any, b: Any, out: Any = None) -> Any:
        """1 where a is less than b or equal, else 0."""
        return _of_two("le", a, b, out)

    def greater(self, a: Any, b: Any, out: Any = None) -> Any:
        """1 where a is greater than b, else 0."""
        return _of_two("gt", a, b, out)

    def greater_equal(self, a: Any, b: Any, out: Any = None) -> Any:
        """1 where a is greater than b or equal, else 0."""
        return _of_two("ge", a, b, out)

    def clip(self, a: Any, a_min: Any, a_max: Any, out: Any = None) -> Any:
        """`minimum(maximum(a, a_min), a_max)`."""
        return built("minimum", built("maximum", a, a_min), a_max, out)

    def binarize(self, a: Any = None, *given: Any, **named: Any) -> Any:
        """1 or -1, in one of the forms `(a, stochastic=True, out=None)` and `(ary, out, stochastic=True)`.

        stochastic: 1 with probability `clip((a + 1) / 2, 0, 1)`, drawn when it is computed; else 1 from 0 on.
        """
        arguments = _by_type({"a": a, **named}, given)
        stochastic = bool(arguments.get("stochastic", True))
        return built("binarize", arguments["a"], None, arguments.get("out"), stochastic=stochastic)

    def shift(self, a: Any, b: Any, value: bool = True, out: Any = None) -> Any:
        """Product of a and a power of two: `a * sign(b) * 2 ** rint(log2(abs(b)))`, or `a * 2 ** b` without `value`.

        abs(b) counts as exp(-50) where it is smaller.
        """
        return built("shift", a, b, out, value=bool(value))


def _by_type(named: dict[str, Any], given: Sequence[Any]) -> dict[str, Any]:
    """The arguments of binarize by name, of which those that are given by position are told by their types."""
    arguments = dict(named)
    if "ary" in arguments:
        given, arguments["a"] = (
            ((arguments["a"], *given) if arguments["a"] is not None else given),
            arguments.pop("ary"),
        )
    for each in given:
        name = "out" if each is None or isinstance(each, Operand) else "stochastic"
        if name in arguments:
            raise TypeError(four_parts("binarize", f"{name} is given twice", "", "pass (a, stochastic, out)"))
        arguments[name] = each
    unknown = sorted(set(arguments) - {"a", "out", "stochastic"})
    if unknown:
        raise TypeError(four_parts("binarize", f"it takes no {unknown[0]}", "", "pass (a, stochastic, out)"))
    return arguments
