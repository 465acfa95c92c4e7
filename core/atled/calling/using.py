"""Another Context for one call: `F.relu(x, using="cpu")`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from atled.errors import four_parts
from atled_contexts import Context, context_in_force, context_scope, plugin_generation

Using = str | Sequence[str] | Context
"""Backends in order of preference, as a Context takes them, or a whole Context."""

_R = TypeVar("_R")
_LIMIT = 256
# Making a Context checks it against the plugins, some 40 us: too much for each call.
_made: dict[Hashable, Context] = {}


def overridden(using: Using) -> Context:
    """The present Context with other backends; a Context is taken as it is.

    ContextError: unknown or unusable backends.  TypeError: neither backends nor a Context.
    """
    if isinstance(using, Context):
        return using
    if not isinstance(using, str | list | tuple):
        raise TypeError(
            four_parts(
                f"using={using!r}",
                f"that is {type(using).__name__}",
                "",
                "pass a backend such as 'cpu' or 'cpu:half', a list of them, or a Context",
            )
        )
    present = context_in_force()
    backends = using if isinstance(using, str) else tuple(using)
    key = (present, backends, plugin_generation())
    found = _made.get(key)
    if found is None:
        # Frozen: code of the user that runs in the call sees it, and must not change what later calls find here.
        found = present.using(list(backends) if isinstance(backends, tuple) else backends).frozen
        if len(_made) >= _LIMIT:
            _made.clear()
        _made[key] = found
    return found


def under(using: Using) -> AbstractContextManager[Context]:
    """A `with` block under a Context with other backends; see `overridden`."""
    return context_scope(overridden(using))


def takes_using(function: Callable[..., _R]) -> Callable[..., _R]:
    """Decorator for functions that call ops: they get one more argument, the keyword `using`; see `overridden`.

    A function that has an argument of that name stays as it is.
    """
    signature = inspect.signature(function)
    if "using" in signature.parameters:
        return function

    @functools.wraps(function)
    def call(*args: Any, using: Using | None = None, **kwargs: Any) -> _R:
        if using is None:
            return function(*args, **kwargs)
        with under(using):
            return function(*args, **kwargs)

    parameters = list(signature.parameters.values())
    added = inspect.Parameter("using", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Using | None")
    is_last = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    parameters.insert(len(parameters) - is_last, added)
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # where help() looks
    return call
