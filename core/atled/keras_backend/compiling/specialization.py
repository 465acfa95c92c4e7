"""A specialization: expressions described for inputs of known shapes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError
from atled.keras_backend.compiling.constants import Constants
from atled.keras_backend.expressions.expression import Expression, below, in_order, reached
from atled.keras_backend.expressions.messages import asked, reworded
from atled.keras_backend.expressions.needs import NeedsValueError
from atled.keyed import Description, NdArray, outcome
from atled.named_tuple import NamedTuple
from atled.ops.spec import SPECS

if TYPE_CHECKING:
    from atled.keras_backend.expressions.calls import Call


_FOLDED = 64
"""Of how many elements what is made from nothing may be to be computed by the reference, when it is described."""
_COMPUTED = ("compute", "precise")


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


class Specialization:
    """Describes expressions, each once, and those that depend on nothing but sizes and constants not at all.

    description: to which all is added.  reached: all expressions that the function computes.
    """

    def __init__(self, reached: Sequence[Expression] = (), constants: Constants | None = None) -> None:
        """reached: all expressions that the function computes, for those that ask who reads them.

        constants: what other specializations of the function have computed; None: there are none.
        """
        self.description = Description()
        self.reached = reached
        self._constants = Constants(reached) if constants is None else constants
        self._values: dict[Expression, Value] = {}
        # Described outside of the loop or branch that is being described: what that has of these are constants to it.
        self._outside: Mapping[Expression, Value] = {}
        # With respect to these there are gradients: they are values of their own, and computed.
        self._wanted = {other for each in reached for other in each.anchors}

    def input(self, expression: Expression, array: NdArray) -> int:
        """Have an array be the value of an expression; its leaf."""
        value = self._values[expression] = self.array(array)
        return value.number

    def know(self, known: Mapping[Expression, np.ndarray]) -> None:
        """Have values of expressions that were computed before, because sizes depend on them."""
        self._values |= {each: self.known(value) for each, value in known.items()}

    def replace(self, replaced: Mapping[Expression, Expression], known: Mapping[Expression, np.ndarray]) -> None:
        """Have expressions stand for others, all at once: what replaces one is computed as if none were replaced.

        known: values of expressions that were computed before, while nothing was replaced.
        """
        given = dict(self._values)
        self.know(known)
        try:
            self.add(replaced.values())
        except NeedsValueError as error:
            error.is_replacing = True
            raise
        self._values = given | {each: self._values[new] for each, new in replaced.items()}

    def add(self, wanted: Iterable[Expression]) -> None:
        """Describe expressions and all that they need."""
        for each in in_order(wanted, self._values):
            value = each.described(self)
            self._values[each] = self._apart(value) if each in self._wanted else value

    def value(self, expression: Expression) -> Value:
        """That of an expression that was added."""
        return self._values[expression]

    def number(self, expression: Expression) -> int:
        """Its value in the description; what is known becomes an array there."""
        value = self._values[expression]
        if value.number < 0:
            value = self._values[expression] = self._numbered(value)
        return value.number

    def found(self, expression: Expression) -> Value | None:
        """That of an expression, if it is there by now."""
        return self._values.get(expression)

    @property
    def is_within(self) -> bool:
        """Whether the step of a loop or a side of a branch is being described."""
        return bool(self._outside)

    @contextlib.contextmanager
    def scope(self, values: Mapping[Expression, Value], hidden: Container[Expression] = ()) -> Iterator[None]:
        """The step of a loop or a side of a branch: what is described there is not there behind it.

        values: of expressions that mean something within it only.
        hidden: what is described anew within it although it is described outside.
        """
        before = self._values, self._outside
        self._outside = {each: value for each, value in self._values.items() if each not in hidden}
        self._values = {**self._outside, **values}
        try:
            yield
        finally:
            self._values, self._outside = before

    def numbers_from(self, expression: Expression, sources: Sequence[Expression]) -> list[int]:
        """The values of an expression, and of sources that it is computed from, in the present loop or branch.

        Gradients flow within one alone, so what was computed around it is computed once more inside.
        """
        again = self._between(expression, sources) if self._outside else set()
        before = self._values
        if not again.isdisjoint(self._outside):
            self._values = {each: value for each, value in before.items() if each not in again}
        try:
            self.add([expression, *sources])
            return [self.number(each) for each in (expression, *sources)]
        finally:
            self._values = before

    @staticmethod
    def _between(expression: Expression, sources: Sequence[Expression]) -> set[Expression]:
        """All that an expression is computed from and that depends on a source."""
        found: set[Expression] = set()
        for each in reached([expression]):
            if any(other in found or other in sources for other in below(each)):
                found.add(each)
        return found

    def size(self, given: Any) -> int:
        """A size, bound or count: a number, or an expression that is known; else NeedsValueError."""
        return int(self.scalar(given))

    def scalar(self, given: Any) -> int | float:
        """A number, or an expression without axes that is known; else NeedsValueError."""
        if not isinstance(given, Expression):
            return given
        value = self._values[given]
        if value.known is None:
            raise NeedsValueError(given)
        return value.known.item()

    # What expressions ask for when they are described.

    def array(self, array: NdArray) -> Value:
        """An array from outside."""
        return Value(ArrayDesc(array.shape, array.dtype), self.description.leaf(array))

    def known(self, value: np.ndarray) -> Value:
        """What nothing has to run for."""
        return Value(ArrayDesc(value.shape, value.dtype), -1, value)

    def parts(self, values: Sequence[Value]) -> Value:
        """Several values, as the value of what gives them."""
        return Value(ArrayDesc((), np.dtype(bool)), parts=tuple(values))

    def of(self, desc: ArrayDesc, number: int) -> Value:
        """What a run computes."""
        return Value(desc, number)

    def call(self, call: Call) -> Value:
        """A call of an op."""
        constant = self._constants.find(call)
        if constant is not None:
            return self.known(constant)
        values = [self._values[each] if isinstance(each, Expression) else each for each in call.operands]
        operands = [each.desc if isinstance(each, Value) else None if each is None else type(each) for each in values]
        try:
            attributes = call.attributes_for(self)
            desc, *further = outcome(call.op, operands, attributes)
        except (RefusedError, TypeError, OverflowError) as error:
            asked_for = f"{asked(call.by, call.operands, operands)}, written at {call.written}"
            raise reworded(error, asked_for) from None  # the op's own words are in it
        known = [each.known for each in values if isinstance(each, Value) and each.known is not None]
        is_small = math.prod(desc.shape) <= max([_FOLDED, *(each.size for each in known)])
        if is_small and not further and all(not isinstance(each, Value) or each.known is not None for each in values):
            return self._folded(call, values, attributes, desc)
        d = self.description
        numbers = [
            None if each is None else self.number(each) if isinstance(each, Expression) else d.number(each)
            for each in call.operands
        ]
        first = Value(desc, d.call(call.op, *numbers, **attributes))
        others = [Value(each, d.output(first.number, position + 1)) for position, each in enumerate(further)]
        return first._replace(parts=(first, *others)) if others else first

    def _folded(self, call: Call, values: list[Any], attributes: dict[str, Any], desc: ArrayDesc) -> Value:
        """A call on what is known: computed now, by the reference."""
        spec = SPECS[call.op]
        given = [each.known if isinstance(each, Value) else each for each in values]
        computed = [each for position, each in enumerate(given) if spec.input_at(position).kind in _COMPUTED]
        if computed:
            # As nodes do, which take their dtypes from all of their operands; Python numbers widen nothing.
            floor = () if desc.dtype == np.bool_ else (desc.dtype,)
            kinds = [each.dtype if isinstance(each, np.ndarray) else each for each in computed if each is not None]
            common = np.result_type(*floor, *kinds)
            for position, each in enumerate(given):
                if each is not None and spec.input_at(position).kind in _COMPUTED:
                    given[position] = np.asarray(each, common)
        descs = [None if each is None else ArrayDesc(each.shape, each.dtype) for each in map(_array, given)]
        found = spec.reference(*map(_array, given), **spec.check_attributes(attributes, descs))
        made = found if isinstance(found, np.ndarray) or np.isscalar(found) else found[0]
        return self.known(self._constants.add(call, np.asarray(made).astype(desc.dtype)))

    def _numbered(self, value: Value) -> Value:
        """What is known, as an array of the description."""
        assert value.known is not None
        return value._replace(number=self.description.leaf(self._constants.array(value.known)))

    def _apart(self, value: Value) -> Value:
        """A value that is computed, and that no other expression has as well."""
        d = self.description
        if value.number < 0:
            return self._numbered(value)._replace(known=None)
        kind, *_ = d.entries[value.number] or (0,)
        if isinstance(kind, int) and kind >= 0:
            return value  # an array from outside
        if value.number != len(d.entries) - 1 or not isinstance(kind, str):
            value = value._replace(number=d.call("Identity", value.number))
        return value._replace(number=d.apart(value.number))


def _array(given: Any) -> Any:
    return None if given is None else np.asarray(given)
