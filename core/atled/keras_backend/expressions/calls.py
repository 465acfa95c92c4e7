"""Calls of op specs that wait for the sizes of their operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, four_parts
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.leaves import Constant, array_of
from atled.keras_backend.expressions.messages import asked, reworded
from atled.keras_backend.settings import floatx, intx
from atled.keyed import outcome
from atled.ops.spec import SPECS

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

Operand = Expression | int | float | bool | None
NUMBERS = (bool, int, float)
Rule = Callable[["Specialization", Sequence["Value"]], dict[str, Any]]
"""The attributes of a call, by what describes it and the values of the operands that are expressions."""


class Call(Expression):
    """The first result of an op on operands.

    op: name of the op spec.  operands: expressions, Python numbers, None for absent ones.
    attributes: those of the op; sizes in them may be expressions.
    """

    __slots__ = ("attributes", "op", "operands")

    def __init__(self, op: str, operands: Sequence[Operand], attributes: dict[str, Any], ndim: int, dtype: Any) -> None:
        super().__init__(ndim, dtype)
        self.op = op
        self.operands = tuple(operands)
        self.attributes = attributes

    @property
    def needed(self) -> Sequence[Expression]:
        """Operands, and expressions among the attributes."""
        sizes = [
            each for value in self.attributes.values() for each in (value if isinstance(value, tuple) else (value,))
        ]
        return [each for each in (*self.operands, *sizes) if isinstance(each, Expression)]

    @property
    def paths(self) -> Sequence[Expression]:
        """Operands, unless the op lets no gradient pass."""
        return () if self.op == "Unlink" else [each for each in self.operands if isinstance(each, Expression)]

    def attributes_for(self, into: Specialization) -> dict[str, Any]:
        """Those of the op, with the sizes that a specialization knows."""
        return {
            name: tuple(into.size(each) for each in value)
            if isinstance(value, tuple)
            else into.size(value)
            if isinstance(value, Expression)
            else value
            for name, value in self.attributes.items()
        }

    def described(self, into: Specialization) -> Value:
        """The call, on values whose sizes are known."""
        return into.call(self)


class SizedCall(Call):
    """A call whose attributes follow from the sizes of its operands.

    rule: says them.  sizes: the expressions that it asks for.
    """

    __slots__ = ("rule", "sizes")

    def __init__(
        self, op: str, operands: Sequence[Operand], rule: Rule, sizes: Iterable[Any], ndim: int, dtype: Any
    ) -> None:
        super().__init__(op, operands, {}, ndim, dtype)
        self.rule = rule
        self.sizes = [each for each in sizes if isinstance(each, Expression)]

    @property
    def needed(self) -> Sequence[Expression]:
        """Operands and sizes."""
        return [*(each for each in self.operands if isinstance(each, Expression)), *self.sizes]

    def attributes_for(self, into: Specialization) -> dict[str, Any]:
        """What the rule says."""
        return self.rule(into, [into.value(each) for each in self.operands if isinstance(each, Expression)])


class Output(Expression):
    """A further result of a call.

    of: the call.  position: which one; the call itself is the first, of position 0.
    """

    __slots__ = ("of", "position")

    def __init__(self, of: Call, position: int, ndim: int, dtype: Any) -> None:
        super().__init__(ndim, dtype)
        self.of = of
        self.position = position

    @property
    def needed(self) -> Sequence[Expression]:
        """The call."""
        return (self.of,)

    def described(self, into: Specialization) -> Value:
        """The result at its position."""
        return into.value(self.of).parts[self.position]


def operand(x: Any) -> Operand:
    """What a call takes: an expression or a Python number as it is, anything else that NumPy makes an array of.

    NumPy's float64 is a Python float, and taken for one: it widens nothing.
    """
    if isinstance(x, Expression) or x is None or type(x) in NUMBERS:
        return x
    if isinstance(x, float):
        return float(x)
    if isinstance(x, list | tuple) and any(isinstance(each, Expression) for each in x):
        return call("Stack", *x, axis=0)
    return Constant(array_of(x, f"{place()[1]} of a {type(x).__name__}"))


def expression(x: Any) -> Expression:
    """An operand as an expression: Python numbers are constants of the dtypes of the settings."""
    given = operand(x)
    if isinstance(given, Expression):
        return given
    if given is None:
        raise TypeError(
            four_parts(f"{place()[1]} of None", "there is nothing to compute with", "", "pass an expression")
        )
    dtype = np.bool_ if isinstance(given, bool) else intx() if isinstance(given, int) else floatx()
    return Constant(np.asarray(given, dtype))


def call(op: str, *operands: Any, ndim: int | None = None, dtype: Any = None, **attributes: Any) -> Call:
    """The first result of an op.

    ndim, dtype: of the result; None where sizes of 1 in all operands tell both. An op that is told its dtype by an
        attribute gets it.
    """
    given = _given(op, operands)
    if dtype is not None and "dtype" in SPECS[op].attribute_names:
        attributes["dtype"] = np.dtype(dtype)
    if ndim is None or dtype is None:
        desc, *_ = _outcome(op, given, attributes)
        ndim = len(desc.shape) if ndim is None else ndim
        dtype = desc.dtype if dtype is None else dtype
    return Call(op, given, attributes, ndim, dtype)


def calls(op: str, *operands: Any, **attributes: Any) -> list[Expression]:
    """All results of an op that has several, auxiliary ones included."""
    given = _given(op, operands)
    descs = _outcome(op, given, attributes)
    first = Call(op, given, attributes, len(descs[0].shape), descs[0].dtype)
    further = [Output(first, position + 1, len(each.shape), each.dtype) for position, each in enumerate(descs[1:])]
    return [first, *further]


def sized_call(op: str, *operands: Any, rule: Rule, ndim: int, dtype: Any, sizes: Iterable[Any] = ()) -> SizedCall:
    """The first result of an op whose attributes follow from sizes.

    rule: the attributes.  sizes: what it asks for besides the operands.  ndim, dtype: of the result.
    """
    return SizedCall(op, _given(op, operands), rule, sizes, ndim, dtype)


def _given(op: str, operands: Sequence[Any]) -> list[Operand]:
    """Operands of a call: Python numbers stay such beside expressions, in elementwise ops alone."""
    given = [operand(each) for each in operands]
    is_elementwise = SPECS[op].program is not None
    if is_elementwise and None in given:
        expression(None)  # raises
    if not is_elementwise or all(each is None or type(each) in NUMBERS for each in given):
        return [None if each is None else expression(each) for each in given]
    return given


def _outcome(op: str, given: Sequence[Operand], attributes: dict[str, Any]) -> tuple[ArrayDesc, ...]:
    """What the op's own rules say of the results, for sizes of 1, which fit each other everywhere."""
    descs = [
        ArrayDesc((1,) * each.ndim, each.type) if isinstance(each, Expression) else None if each is None else type(each)
        for each in given
    ]
    try:
        return outcome(op, descs, attributes)
    except (RefusedError, ValueError, TypeError, OverflowError) as error:
        raise reworded(error, asked(place()[1], given)) from None  # the op's own words are in it
