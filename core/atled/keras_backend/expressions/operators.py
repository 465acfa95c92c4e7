"""The operators, members and indices of expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from atled.errors import four_parts


class Operators:
    """Take expressions, Python and NumPy numbers and arrays on either side; `==` and `!=` compare identity."""

    __slots__ = ()
    # NumPy leaves operators to the expression then, instead of making an array of objects of it.
    __array_ufunc__ = None

    ndim: int
    type: Any
    name: str | None

    def __add__(self, other: Any) -> Any:
        return _arithmetic("Add2", self, other)

    def __radd__(self, other: Any) -> Any:
        return _arithmetic("Add2", other, self)

    def __sub__(self, other: Any) -> Any:
        return _arithmetic("Sub2", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic("Sub2", other, self)

    def __mul__(self, other: Any) -> Any:
        return _arithmetic("Mul2", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _arithmetic("Mul2", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _arithmetic("Div2", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _arithmetic("Div2", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _arithmetic("FloorDivide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _arithmetic("FloorDivide", other, self)

    def __mod__(self, other: Any) -> Any:
        return _arithmetic("Modulo", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _arithmetic("Modulo", other, self)

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _power(other, self)

    def __neg__(self) -> Any:
        return _arithmetic("Neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return _call("Magnitude", self)

    # Truth values only: the smaller one is "and", the larger one "or".

    def __and__(self, other: Any) -> Any:
        return _logic("MinimumTies", self, other)

    def __rand__(self, other: Any) -> Any:
        return _logic("MinimumTies", other, self)

    def __or__(self, other: Any) -> Any:
        return _logic("MaximumTies", self, other)

    def __ror__(self, other: Any) -> Any:
        return _logic("MaximumTies", other, self)

    def __xor__(self, other: Any) -> Any:
        return _logic("IsNotEqual", self, other)

    def __rxor__(self, other: Any) -> Any:
        return _logic("IsNotEqual", other, self)

    def __invert__(self) -> Any:
        return _logic("IsEqual", self, False)

    def __lt__(self, other: Any) -> Any:
        return _call("IsLess", self, other)

    def __le__(self, other: Any) -> Any:
        return _call("IsLessEqual", self, other)

    def __gt__(self, other: Any) -> Any:
        return _call("IsGreater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _call("IsGreaterEqual", self, other)

    def __getitem__(self, index: Any) -> Any:
        from atled.keras_backend.expressions.indexing import indexed  # what it gives is an expression itself

        return indexed(self, index)  # type: ignore[arg-type]  # expressions alone have these operators

    @property
    def shape(self) -> Any:
        """Its sizes, an expression of int64: indexable, iterable, usable wherever sizes are wanted."""
        from atled.keras_backend.expressions.sizes import shape_of  # it is an expression itself

        return shape_of(self)  # type: ignore[arg-type]  # expressions alone have these operators

    @property
    def size(self) -> Any:
        """The count of its elements, an expression of int64 without axes."""
        return _call("Prod", self.shape)

    @property
    def T(self) -> Any:
        """It with its axes in reverse order; its name is that of this one and ".T"."""
        made = _call("Transpose", self, axes=tuple(range(self.ndim))[::-1])
        made.name = None if self.name is None else f"{self.name}.T"
        return made

    def dot(self, other: Any) -> Any:
        """The matrix product with another one, by the rules of `numpy.dot`."""
        return _call("Dot", self, other)

    def eval(self, given: Mapping[Any, Any] | None = None) -> Any:
        """Its value as a NumPy array.

        given: values of the placeholders that it needs.
        """
        from atled.keras_backend.compiling.function import function  # functions compute expressions

        values = dict(given or {})
        return function(list(values), self)(*values.values())

    # What Python would otherwise do itself, wrongly.

    def __bool__(self) -> bool:
        if self.type.kind == "b":
            wrong, remedy = "its value is not known before a function runs", "use B.ifelse, or evaluate it by B.eval"
            raise TypeError(four_parts(f"the truth of {self!r}", wrong, "", remedy))
        return True

    def __iter__(self) -> Iterator[Any]:
        self._refuse("iterating over", "how many elements it has is not known before a function runs")

    def __len__(self) -> int:
        self._refuse("the length of", "it is not known before a function runs")

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse("a NumPy array of", "its values are not known before a function runs")

    def _refuse(self, what: str, wrong: str) -> NoReturn:
        raise TypeError(
            four_parts(f"{what} {self!r}", wrong, "", "use .shape[0], a function of the backend, or B.eval for a value")
        )


def _call(op: str, *operands: Any, **attributes: Any) -> Any:
    from atled.keras_backend.expressions.calls import call  # a call is an expression itself

    return call(op, *operands, **attributes)


def _arithmetic(op: str, *operands: Any) -> Any:
    from atled.keras_backend.expressions.promotion import arithmetic  # what it gives is an expression itself

    return arithmetic(op, *operands)


def _power(x: Any, a: Any) -> Any:
    from atled.keras_backend.expressions.promotion import power  # what it gives is an expression itself

    return power(x, a)


def _logic(op: str, *operands: Any) -> Any:
    from atled.keras_backend.expressions.promotion import logic  # what it gives is an expression itself

    return logic(op, *operands)
