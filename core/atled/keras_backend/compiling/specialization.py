"""A specialization: expressions described for inputs of known shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, four_parts
from atled.keras_backend.expressions.expression import Expression, in_order
from atled.keyed import Description, NdArray, outcome
from atled.ops.spec import SPECS

if TYPE_CHECKING:
    from atled.keras_backend.expressions.calls import Call


class Value(NamedTuple):
    """An expression in a description.

    desc: its shape and dtype.  number: the value of the description; -1 while none is needed.
    known: its elements, where nothing has to run for them.
    parts: the values of which it consists, where it has several.
    """

    desc: ArrayDesc
    number: int = -1
    known: np.ndarray | None = None
    parts: tuple[Value, ...] = ()


class NeedsValueError(Exception):
    """Sizes depend on a value that only a run knows: `expression`, which has to be computed first.

    kept: what the run that computes it may give as well, for the next one to begin with.
    """

    def __init__(self, expression: Expression, kept: Sequence[Expression] = ()) -> None:
        super().__init__(f"the value of {expression!r}")
        self.expression = expression
        self.kept = kept


class Specialization:
    """Describes expressions, each once, and those that depend on nothing but sizes and constants not at all."""

    def __init__(self, known: Mapping[Expression, np.ndarray], reached: Sequence[Expression] = ()) -> None:
        """known: values of expressions that were computed before, because sizes depend on them.

        reached: all expressions that the function computes, for those that ask who reads them.
        """
        self.description = Description()
        self.reached = reached
        self._values: dict[Expression, Value] = {}
        self._constants: dict[int, int] = {}  # by identity of what is known, its leaf
        for expression, value in known.items():
            self._values[expression] = self.known(value)

    def input(self, expression: Expression, array: NdArray) -> int:
        """Have an array be the value of an expression; its leaf."""
        value = self._values[expression] = self.array(array)
        return value.number

    def add(self, wanted: Iterable[Expression]) -> None:
        """Describe expressions and all that they need."""
        for each in in_order(wanted, self._values):
            self._values[each] = each.described(self)

    def value(self, expression: Expression) -> Value:
        """That of an expression that was added."""
        return self._values[expression]

    def number(self, expression: Expression) -> int:
        """Its value in the description; what is known becomes an array there."""
        value = self._values[expression]
        if value.number < 0:
            assert value.known is not None
            made = self.description.leaf(NdArray.from_numpy_array(value.known))
            value = self._values[expression] = value._replace(number=made)
        return value.number

    def found(self, expression: Expression) -> Value | None:
        """That of an expression, if it is there by now."""
        return self._values.get(expression)

    @contextlib.contextmanager
    def scope(self, values: Mapping[Expression, Value], hidden: Container[Expression] = ()) -> Iterator[None]:
        """The step of a loop or a side of a branch: what is described there is not there behind it.

        values: of expressions that mean something within it only.
        hidden: what is described anew within it although it is described outside.
        """
        outer = self._values
        self._values = {each: value for each, value in outer.items() if each not in hidden} | dict(values)
        try:
            yield
        finally:
            self._values = outer

    def size(self, given: Any) -> int:
        """A size, bound or count: a number, or an expression that is known; else NeedsValueError."""
        if not isinstance(given, Expression):
            return int(given)
        value = self._values[given]
        if value.known is None:
            raise NeedsValueError(given)
        return int(value.known)

    # What expressions ask for when they are described.

    def array(self, array: NdArray) -> Value:
        """An array from outside."""
        return Value(ArrayDesc(array.shape, array.dtype), self.description.leaf(array))

    def known(self, value: np.ndarray) -> Value:
        """What nothing has to run for."""
        return Value(ArrayDesc(value.shape, value.dtype), -1, value)

    def call(self, call: Call) -> Value:
        """A call of an op."""
        attributes = {
            name: tuple(self.size(each) for each in value) if isinstance(value, tuple) else value
            for name, value in call.attributes.items()
        }
        values = [self._values[each] if isinstance(each, Expression) else each for each in call.operands]
        operands = [each.desc if isinstance(each, Value) else None if each is None else type(each) for each in values]
        try:
            desc, *_ = outcome(call.op, operands, attributes)
        except (RefusedError, TypeError, OverflowError) as error:
            raise type(error)(
                four_parts(f"{call!r}, written at {call.written}", str(error), "", "change what it is computed from")
            ) from error
        if all(not isinstance(each, Value) or each.known is not None for each in values):
            return self._folded(call, values, attributes, desc)
        d = self.description
        numbers = [
            None if each is None else self.number(each) if isinstance(each, Expression) else d.number(each)
            for each in call.operands
        ]
        return Value(desc, d.call(call.op, *numbers, **attributes))

    def _folded(self, call: Call, values: list[Any], attributes: dict[str, Any], desc: ArrayDesc) -> Value:
        """A call on what is known: computed now, by the reference."""
        spec = SPECS[call.op]
        arrays = [np.asarray(each.known if isinstance(each, Value) else each) for each in values]
        found = spec.reference(
            *arrays, **spec.check_attributes(attributes, [ArrayDesc(a.shape, a.dtype) for a in arrays])
        )
        made = found if isinstance(found, np.ndarray) or np.isscalar(found) else found[0]
        return self.known(np.asarray(made).astype(desc.dtype))
