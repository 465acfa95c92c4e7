"""Arithmetic of operands of different dtypes, where the backend's rules are not NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import NUMBERS, call, expression, operand
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.messages import asked
from atled.keras_backend.settings import floatx

_MOST_PRODUCTS = 8
"""Above this exponent rounding adds up, and a power takes no longer."""
_NARROW = (np.int8, np.int16, np.int32, np.int64)


def arithmetic(op: str, *operands: Any) -> Expression:
    """An elementwise op on operands of any dtypes.

    Integers with a Python float give `floatx()`, and so do quotients of integers. Truth values count as 0 and 1.
    """
    given = [operand(each) for each in operands]
    kinds = {each.type.kind for each in given if isinstance(each, Expression)}
    if not kinds:
        given = [expression(each) for each in given]
        kinds = {each.type.kind for each in given if isinstance(each, Expression)}
    if "f" not in kinds and _gives_floats(op, given):
        given = [cast(each, floatx()) for each in given]
    elif kinds == {"b"} and op not in ("MaximumTies", "MinimumTies"):
        narrow = _narrow(given)
        given = [cast(each, narrow) for each in given]
    if not any(each.type.kind == "f" for each in given if isinstance(each, Expression)):
        _check_held(given)
    if op in ("FloorDivide", "Modulo") and "f" not in kinds:
        # Computed in floats, which are exact for whole numbers up to 2**53.
        return cast(call(op, *given), _common(given))
    return call(op, *given)


def _check_held(given: list[Any]) -> None:
    """Refuse Python numbers that are none of the dtype of the integers beside them, which they do not widen."""
    dtypes = [each.type for each in given if isinstance(each, Expression)]
    common = np.result_type(*dtypes)
    if common.kind not in "iu":
        return
    low, high = np.iinfo(common).min, np.iinfo(common).max
    if any(type(each) is int and not low <= each <= high for each in given):
        wrong = f"{common} holds {low} to {high}, and a Python number widens nothing"
        raise OverflowError(four_parts(asked(place()[1], given), wrong, "", "cast the expression to a wider dtype"))


def _common(given: list[Any]) -> np.dtype:
    """The dtype of operands, as NumPy promotes them."""
    return np.result_type(*(each.type if isinstance(each, Expression) else each for each in given))


def power(x: Any, a: Any) -> Expression:
    """x to the power of a; by products where that is a small whole number, which is exact for integers."""
    if isinstance(x, Expression) and _is_whole(a, x) and 2 <= a <= _MOST_PRODUCTS:
        return _product(x, int(a))
    return arithmetic("Pow2", x, a)


def _is_whole(a: Any, x: Expression) -> bool:
    """Whether an exponent is a whole number, which does not make floats of integers."""
    return type(a) is int or (isinstance(a, float) and a.is_integer() and x.type.kind == "f")


def _product(x: Expression, count: int) -> Expression:
    """x times itself, with few products."""
    if count == 1:
        return x
    square = arithmetic("Square", _product(x, count // 2))
    return arithmetic("Mul2", square, x) if count % 2 else square


def cast(x: Any, dtype: Any) -> Any:
    """An expression in another dtype; Python numbers as they are."""
    if not isinstance(x, Expression) or x.type == np.dtype(dtype):
        return x
    return call("Cast", x, ndim=x.ndim, dtype=dtype)


def _gives_floats(op: str, given: list[Any]) -> bool:
    """Whether an op makes floats of integers."""
    if op == "Pow2" and type(given[1]) is int and given[1] < 0:
        return True
    return op == "Div2" or any(type(each) is float for each in given)


def _narrow(given: list[Any]) -> type:
    """The narrowest dtype of integers that holds all Python numbers among operands."""
    numbers = [int(each) for each in given if type(each) in NUMBERS]
    fitting = (each for each in _NARROW if all(np.iinfo(each).min <= n <= np.iinfo(each).max for n in numbers))
    return next(fitting, np.int64)


def logic(op: str, *operands: Any) -> Expression:
    """An elementwise op on truth values.  TypeError: one of them is of another dtype."""
    given = [operand(each) for each in operands]
    for each in given:
        dtype = each.type.name if isinstance(each, Expression) else type(each).__name__
        if dtype != "bool":
            raise TypeError(
                four_parts(
                    asked(place()[1], given),
                    f"an operand is of {dtype}",
                    "",
                    "use it on what comparisons give; compare with 0 first",
                )
            )
    return call(op, *given)
