"""Calls of op specs that wait for the sizes of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Constant
from atled.keyed import outcome

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

Operand = Expression | int | float | bool | None


class Call(Expression):
    """The first result of an op on operands.

    op: name of the op spec.  operands: expressions, Python numbers, None for absent ones.
    attributes: those of the op; sizes in them may be expressions.
    """

    __slots__ = ("attributes", "op", "operands")

    def __init__(
        self, op: str, operands: Sequence[Operand], attributes: dict[str, Any], ndim: int, dtype: np.dtype
    ) -> None:
        super().__init__(ndim, dtype)
        self.op = op
        self.operands = tuple(operands)
        self.attributes = attributes

    @property
    def needed(self) -> Sequence[Expression]:
        """Operands, and expressions among the attributes."""
        sizes = [each for value in self.attributes.values() if isinstance(value, tuple) for each in value]
        return [each for each in (*self.operands, *sizes) if isinstance(each, Expression)]

    @property
    def paths(self) -> Sequence[Expression]:
        """Operands, unless the op lets no gradient pass."""
        return () if self.op == "Unlink" else [each for each in self.operands if isinstance(each, Expression)]

    def described(self, into: Specialization) -> Value:
        """The call, on values whose sizes are known."""
        return into.call(self)


def operand(x: Any) -> Operand:
    """What a call takes: an expression or a Python number as it is, anything else that NumPy makes an array of."""
    if isinstance(x, Expression) or x is None or type(x) in (bool, int, float):
        return x
    values = np.asarray(x)
    if values.dtype.kind not in "biuf":
        raise TypeError(
            four_parts(
                f"an operand of type {type(x).__name__}",
                f"NumPy makes an array of {values.dtype} of it",
                "",
                "pass an expression, a number, or an array of numbers",
            )
        )
    return Constant(values)


def call(op: str, *operands: Any, ndim: int | None = None, dtype: Any = None, **attributes: Any) -> Expression:
    """The first result of an op.

    ndim, dtype: of the result; None where sizes of 1 in all operands tell both.
    """
    given = [operand(each) for each in operands]
    if ndim is None or dtype is None:
        # The op's own rules say count of axes and dtype; sizes of 1 fit each other everywhere.
        descs = [
            ArrayDesc((1,) * each.ndim, each.type)
            if isinstance(each, Expression)
            else None
            if each is None
            else type(each)
            for each in given
        ]
        desc, *_ = outcome(op, descs, attributes)
        ndim = len(desc.shape) if ndim is None else ndim
        dtype = desc.dtype if dtype is None else dtype
    return Call(op, given, attributes, ndim, np.dtype(dtype))
