"""The operators, members and indices of expressions."""

from __future__ import annotations

from typing import Any


class Operators:
    """Take expressions, Python and NumPy numbers and arrays on either side; `==` and `!=` compare identity."""

    __slots__ = ()
    # NumPy leaves operators to the expression then, instead of making an array of objects of it.
    __array_ufunc__ = None

    ndim: int

    def __add__(self, other: Any) -> Any:
        return _call("Add2", self, other)

    def __radd__(self, other: Any) -> Any:
        return _call("Add2", other, self)

    def __sub__(self, other: Any) -> Any:
        return _call("Sub2", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _call("Sub2", other, self)

    def __mul__(self, other: Any) -> Any:
        return _call("Mul2", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _call("Mul2", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _call("Div2", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _call("Div2", other, self)

    def __pow__(self, other: Any) -> Any:
        return _call("Pow2", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _call("Pow2", other, self)

    def __neg__(self) -> Any:
        return _call("Neg", self)

    def __abs__(self) -> Any:
        return _call("Magnitude", self)

    def __lt__(self, other: Any) -> Any:
        return _call("IsLess", self, other)

    def __le__(self, other: Any) -> Any:
        return _call("IsLessEqual", self, other)

    def __gt__(self, other: Any) -> Any:
        return _call("IsGreater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _call("IsGreaterEqual", self, other)

    @property
    def shape(self) -> Any:
        """Its sizes, an expression of int64: indexable, iterable, usable wherever sizes are wanted."""
        from atled.keras_backend.expressions.sizes import ShapeOf  # it is an expression itself

        return ShapeOf(self)  # type: ignore[arg-type]  # expressions alone have these operators

    @property
    def T(self) -> Any:
        """It with its axes in reverse order."""
        return _call("Transpose", self, axes=tuple(range(self.ndim))[::-1])

    def dot(self, other: Any) -> Any:
        """The matrix product with another one."""
        return _call("Dot", self, other)

    def eval(self) -> Any:
        """Its value as a NumPy array; it must not need placeholders."""
        from atled.keras_backend.compiling.function import function  # functions compute expressions

        return function([], self)()


def _call(op: str, *operands: Any, **attributes: Any) -> Any:
    from atled.keras_backend.expressions.calls import call  # a call is an expression itself

    return call(op, *operands, **attributes)
