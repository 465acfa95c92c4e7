"""Sizes of expressions, which are known before anything runs."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import Call
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.leaves import Constant

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

Size = Expression | int


class SizeOf(Expression):
    """One size of an expression, int64 without axes.

    of: what has the size; it is described, and computed only where something else reads it.  axis: which one.
    """

    __slots__ = ("axis", "of")

    def __init__(self, of: Expression, axis: int) -> None:
        super().__init__(0, np.int64)
        self.of = of
        self.axis = axis

    @property
    def needed(self) -> Sequence[Expression]:
        """What has the size."""
        return (self.of,)

    @property
    def paths(self) -> Sequence[Expression]:
        """None: sizes have no gradients."""
        return ()

    def described(self, into: Specialization) -> Value:
        """Known."""
        return into.known(np.array(into.value(self.of).desc.shape[self.axis], np.int64))


class Sizes(Expression):
    """A vector of sizes, int64; of known length, so that it is iterable.

    entries: ints and expressions without axes.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Sequence[Size]) -> None:
        super().__init__(1, np.int64)
        self.entries = tuple(entries)

    @property
    def needed(self) -> Sequence[Expression]:
        """The entries that are expressions."""
        return [each for each in self.entries if isinstance(each, Expression)]

    @property
    def paths(self) -> Sequence[Expression]:
        """None: sizes have no gradients."""
        return ()

    def described(self, into: Specialization) -> Value:
        """Known."""
        return into.known(np.array([into.size(each) for each in self.entries], np.int64))

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Size]:
        return iter(self.entries)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and not any(
            isinstance(each, Expression) for each in (index.start, index.stop, index.step)
        ):
            return Sizes(self.entries[index])
        if isinstance(index, int | np.integer):
            if not -len(self) <= index < len(self):
                raise IndexError(
                    four_parts(
                        f"size {index} of {self!r}",
                        f"there are {len(self)}",
                        "",
                        "index the axes that there are, from 0 on or from -1 down",
                    )
                )
            return self.entries[index]
        return super().__getitem__(index)


def shape_of(x: Expression) -> Sizes:
    """The sizes of an expression."""
    return Sizes([SizeOf(x, axis) for axis in range(x.ndim)])


def sizes(given: Any) -> tuple[Size, ...]:
    """What a program gives as a shape: a number, a list or tuple of numbers and expressions, or a vector of sizes.

    TypeError: an entry is no whole number, or how many there are is not known.
    """
    if isinstance(given, Expression) and given.ndim == 1:
        return _entries(given)
    entries = given if isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim) else (given,)
    return tuple(size(each) for each in entries)


def size(given: Any) -> Size:
    """One size, bound or count."""
    if isinstance(given, Expression):
        if given.ndim == 0 and given.type.kind in "iu":
            return given
        wrong = f"{given!r} is no whole number"
    else:
        try:
            return operator.index(given)
        except TypeError:
            wrong = f"{given!r} is no whole number"
    raise TypeError(
        four_parts(f"a size of {place()[1]}", wrong, "", "give an int, or an integer expression without axes")
    )


def _entries(given: Expression) -> tuple[Size, ...]:
    """Those of a vector, as far as its length is known when it is written."""
    if isinstance(given, Sizes):
        return given.entries
    if isinstance(given, Constant):
        return tuple(size(each) for each in given.value)
    if isinstance(given, Call) and given.op == "Stack":
        return tuple(size(each) for each in given.operands)
    if isinstance(given, Call) and given.op == "Concatenate":
        return tuple(entry for each in given.operands if isinstance(each, Expression) for entry in _entries(each))
    raise TypeError(
        four_parts(
            f"a shape of {place()[1]}",
            f"how many sizes {given!r} has is not known",
            "",
            "give a tuple of its elements: (sizes[0], sizes[1])",
        )
    )
