"""The arguments of a layer, from which its signature and its docstring are made."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atled.errors import four_parts
from atled.ops.spec import REQUIRED

_WIDTH = 116


class Argument:
    """One argument of a layer.

    Args:
        name: its name in the signature.
        annotation: its type, as Python text.
        default: a value, or REQUIRED.
        doc: what it is, in the words of the docstring: shape and dtype of an array, range of a number.
        keyword_only: whether it cannot be given by position: what NNabla 1.0 did not have, whatever came later.
    """

    __slots__ = ("annotation", "default", "doc", "keyword_only", "name")

    def __init__(self, name: str, annotation: str, default: Any, doc: str, *, keyword_only: bool = False) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.doc = doc
        self.keyword_only = keyword_only


def first_value(argument: str, parameter: str, default: str) -> Argument:
    """The argument for the first value of a parameter; default: what that is otherwise, in words."""
    text = f"first value of {parameter}, an array of its shape or an initializer; default {default}"
    return Argument(argument, "Initializer | None", None, text)


class Signature:
    """What a layer takes.

    Args:
        function: the layer's name.
        arguments: what users may give, in order.
        hidden: what they may not give; it has its default in every call.
    """

    def __init__(self, function: str, arguments: Sequence[Argument], hidden: Iterable[Argument] = ()) -> None:
        self._function = function
        self._names = tuple(argument.name for argument in arguments)
        self._positional = tuple(argument.name for argument in arguments if not argument.keyword_only)
        self._defaults = {a.name: a.default for a in (*hidden, *arguments) if a.default is not REQUIRED}
        self._count = len({*self._defaults, *self._names})
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(a.name, kinds[a.keyword_only], default=a.default, annotation=a.annotation)
            for a in arguments
        ]
        self.python = inspect.Signature(parameters, return_annotation="Any")

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, defaults and hidden ones included.

        Raises:
            TypeError: one is missing, unknown or given twice.
        """
        # `inspect.Signature.bind` takes some ten times as long: it only says what is wrong.
        positional = self._positional
        values = self._defaults.copy()
        values.update(zip(positional, args, strict=False))
        is_wrong = len(args) > len(positional)
        if kwargs:
            values.update(kwargs)
            is_wrong |= not kwargs.keys() <= set(self._names).difference(positional[: len(args)])
        if is_wrong or len(values) != self._count:
            self._refuse(args, kwargs)
        return values

    def _refuse(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        try:
            self.python.bind(*args, **kwargs)
        except TypeError as error:
            given = (name if name not in self._defaults else f"{name}={self._defaults[name]!r}" for name in self._names)
            asked = f"parametric_functions.{self._function}"
            remedy = f"call {self._function}({', '.join(given)}, name=None)"
            raise TypeError(four_parts(asked, str(error), "", remedy)) from None


def docstring(summary: str, sections: Mapping[str, Mapping[str, str] | str]) -> str:
    """A docstring: a summary, then sections of entries, or of text, by title; an empty one is left out."""
    blocks = [summary]
    for title, content in sections.items():
        entries = [f"{name}: {text}." for name, text in content.items()] if isinstance(content, Mapping) else [content]
        if any(entries):
            blocks.append("\n".join([f"{title}:", *map(_entry, entries)]))
    return "\n\n".join(blocks) + "\n"


def _entry(text: str) -> str:
    """An entry, indented and wrapped; `textwrap` takes ten times as long, which is felt when layers are imported."""
    lines, line = [], "   "
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH:
            lines.append(line)
            line = "       "
        line += f" {word}"
    return "\n".join([*lines, line])
