"""Errors of ops in the words of the program: the function that was called, and the expressions that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.array_desc import ArrayDesc
from atled.errors import four_parts

if TYPE_CHECKING:
    from atled.keras_backend.expressions.expression import Expression

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
    "or": "|", "xor": "^", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "invert": "~", "getitem": "[]",
}  # fmt: skip  # a table


def function_name(name: str) -> str:
    """The name of a function as programs write it: operators by their signs."""
    plain = name.strip("_")
    if plain == name:
        return name
    sign = _OPERATORS.get(plain) or _OPERATORS.get(plain.removeprefix("r"))
    return plain if sign is None else f"operator {sign}"


def asked(by: str, operands: Sequence[Any], descs: Sequence[Any] | None = None) -> str:
    """A call in words.

    by: the function.  operands: expressions, Python numbers, None.
    descs: their shapes and dtypes where they are known; else the counts of their axes are said.
    """
    parts = []
    for position, each in enumerate(operands):
        desc = None if descs is None else descs[position]
        if hasattr(each, "written"):
            parts.append(f"{called(each)}: {_described(each, desc)}")
        elif each is not None:
            parts.append(repr(each))
    return f"{by}({', '.join(parts)})"


def called(expression: Expression) -> str:
    """The name of an expression, or the function that made it."""
    return expression.by if expression.name is None else expression.name


def counted(count: int, what: str = "axis") -> str:
    """A count of axes, or of what else it is told, in words."""
    several = "axes" if what == "axis" else f"{what}s"
    return f"{count} {what if count == 1 else several}"


def _described(expression: Expression, desc: Any) -> str:
    if isinstance(desc, ArrayDesc):
        return f"{desc.dtype} {desc.shape}"
    return f"{expression.dtype}, {counted(expression.ndim)}"


def reworded(error: Exception, asked: str) -> Exception:
    """An error of an op about another thing that was asked: of the same type, with the other parts of its text."""
    first, *rest = str(error).split("\n")
    _, _, wrong = first.partition("): ")  # what an op was asked ends so: "Dot(x: [2], y: [3]): ..."
    text, _, remedy = "\n".join(rest).rpartition("What to do: ")
    listed = text.removeprefix("Considered:").strip(" \n")
    considered = [line.removeprefix("  ") for line in listed.split("\n")] if "\n" in listed else listed
    return type(error)(four_parts(asked, wrong or first, considered, remedy or "change what it is computed from"))
