"""What every expression has: count of axes, dtype, a name, and the line of the program that made it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.messages import counted, function_name
from atled.keras_backend.expressions.operators import Operators

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value
    from atled.keras_backend.expressions.leaves import Variable

_ATLED = str(Path(__file__).parents[2])


class Expression(Operators):
    """A value of a program that functions compute; immutable, equal to itself alone, hashed by identity.

    ndim: count of axes.  type: its dtype.  name: for messages and plots; None where it was given none.
    by: the function that the program called.  written: file and line of the program that did.
    """

    __slots__ = ("__weakref__", "by", "name", "ndim", "type", "written")

    def __init__(self, ndim: int, dtype: Any, name: str | None = None) -> None:
        self.ndim = ndim
        self.type = np.dtype(dtype)
        self.name = name
        self.written, self.by = place()

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return self.type.name

    @property
    def needed(self) -> Sequence[Expression]:
        """The expressions that it is computed from."""
        return ()

    @property
    def advances(self) -> Mapping[Variable, Expression]:
        """What each function that computes it assigns to variables, such as the rows of a random generator."""
        return {}

    @property
    def anchors(self) -> Sequence[Expression]:
        """What a gradient is with respect to: the way from there to what is differentiated is described beside it."""
        return ()

    @property
    def inside(self) -> Sequence[Expression]:
        """Those that are described within it alone, unless others need them as well: the sides of a branch."""
        return ()

    @property
    def paths(self) -> Sequence[Expression]:
        """Those of `needed` and `inside` through which gradients flow."""
        return self.needed

    def described(self, into: Specialization) -> Value:
        """Its value in a description, once those of `needed` are there."""
        raise NotImplementedError(type(self).__name__)

    @property
    def shown(self) -> str:
        """It, and where it was written, for messages."""
        return f"{self!r}, written at {self.written}"

    def __reduce__(self) -> Any:
        """Not copied and not pickled: what it is computed from would be another one."""
        asked, wrong = f"a copy or a pickle of {self!r}", "only variables can be copied and pickled"
        raise TypeError(four_parts(asked, wrong, "", "keep the values of variables, and write the expression anew"))

    def __repr__(self) -> str:
        name = self.by if self.name is None else repr(self.name)
        return f"<{type(self).__name__} {name}: {counted(self.ndim)}, {self.dtype}>"


def place() -> tuple[str, str]:
    """File and line of the innermost frame outside of the library, and the function of the library that it called."""
    frame = sys._getframe(1)
    by = frame.f_code.co_name
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ATLED):
        by = frame.f_code.co_name
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}", function_name(by)


def advances_of(reached: Iterable[Expression]) -> dict[Variable, Expression]:
    """What a function assigns that computes expressions, each of which is behind what it needs."""
    found: dict[Variable, Expression] = {}
    for each in reached:
        found.update(each.advances)  # a loop goes on from where a variable begins, so its last value counts
    return found


def in_order(wanted: Iterable[Expression], known: Any = ()) -> list[Expression]:
    """All that the wanted expressions are computed from, and these, each behind what it needs.

    What a branch has inside comes before it where something else needs that, too; else not at all.
    known: expressions to stop at.
    """
    found = _sorted(wanted, known, _needed)
    if not any(each.inside for each in found):
        return found
    outside = set(found)

    def needed(each: Expression) -> Sequence[Expression]:
        if not each.inside:
            return each.needed
        return [*each.needed, *(other for other in _sorted(each.inside, known, below) if other in outside)]

    return _sorted(wanted, known, needed)


def below(each: Expression) -> Sequence[Expression]:
    """What an expression is computed from, or may be."""
    return [*each.needed, *each.inside]


def reached(
    wanted: Iterable[Expression], by: Callable[[Expression], Sequence[Expression]] = below
) -> dict[Expression, None]:
    """All expressions on the ways down from the wanted ones, and these."""
    return dict.fromkeys(_sorted(wanted, (), by))


def _needed(each: Expression) -> Sequence[Expression]:
    return each.needed


def _sorted(
    wanted: Iterable[Expression], known: Any, by: Callable[[Expression], Sequence[Expression]]
) -> list[Expression]:
    """The wanted expressions and those on the ways down from them, each behind all that is below it."""
    found: dict[Expression, None] = {}
    stack: list[tuple[Expression, bool]] = [(each, False) for each in wanted][::-1]
    while stack:
        each, is_ready = stack.pop()
        if each in found or each in known:
            continue
        if is_ready:
            found[each] = None
        else:
            stack.append((each, True))
            stack += [(other, False) for other in by(each) if other not in found][::-1]
    return list(found)
