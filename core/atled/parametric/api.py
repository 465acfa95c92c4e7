"""The decorator of functions that make parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from atled.calling.using import takes_using
from atled.errors import four_parts, shortened
from atled.parameter import FINDINGS, parameter_scope, undone_on_error
from atled.parametric.cached_layers import CachedLayer, LayerCall, key_of, remember

_R = TypeVar("_R")


def parametric_function_api(
    scope_name: str | None = None, param_desc: Sequence[tuple[str, str, str, bool]] | None = None
) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Decorator for functions that make parameters: they get two more arguments, `name` and the keyword `using`.

    The function is called within the scope `scope_name`, which comes under a scope `name` if the caller gives one:
    `affine(x, 10, name="fc1")` keeps its weight as `fc1/affine/W`. If it ends with an exception, the parameters that it
    made are taken out again. `affine(x, 10, using="cpu")` computes it, now and later, with other backends than the
    Context in force, as for `atled.functions`.

        @parametric_function_api("scale")
        def scale(inp):
            s = get_parameter_or_create("s", (1,) * inp.ndim, ConstantInitializer(1))
            return functions.mul2(inp, s)

    Args:
        scope_name: scope of the function's parameters; None: none of its own.
        param_desc: of each parameter its name, what it is, its shape in words, and its need_grad; they are told at
            the end of the function's docstring.

    Raises:
        TypeError: the decorated function has an argument `name` already, or param_desc is of another form.
    """
    told = _told(param_desc)

    def decorate(function: Callable[..., _R]) -> Callable[..., _R]:
        signature = inspect.signature(function)
        named, position = _with_name(function, signature)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            table = FINDINGS.table
            key = key_of(function, args, kwargs)
            found: CachedLayer | None = None if key is None else table.get(key)
            if found is not None and found.is_valid():
                return found.run(args[0])
            if position is not None and len(args) == position + 1 and "name" not in kwargs:
                args, kwargs["name"] = args[:-1], args[-1]
            name = kwargs.pop("name", None)
            scope = scope_name or ""
            if name is not None:
                scope = f"{name}/{scope}" if isinstance(name, str) else name  # no text: refused below
            with undone_on_error(), parameter_scope(scope):
                result: Any = function(*args, **kwargs)
                if type(result) is not LayerCall:
                    return result
                if key is not None:
                    remember(table, key, result)
                return result.run()

        call.__signature__ = named  # type: ignore[attr-defined]  # where inspect and help() look
        if told:
            call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{told}".lstrip()
        return takes_using(call)

    return decorate


def _told(param_desc: Sequence[tuple[str, str, str, bool]] | None) -> str:
    """What a docstring says of parameters."""
    if not param_desc:
        return ""
    try:
        lines = [f"    {name}: {shape}; {what}; need_grad={bool(flag)}" for name, what, shape, flag in param_desc]
    except (TypeError, ValueError) as error:
        raise TypeError(
            four_parts(
                f"parametric_function_api(param_desc={shortened(param_desc)})",
                f"not of the form that is wanted ({error})",
                "",
                "give a list of (name, what it is, its shape, its need_grad), all but the last as text",
            )
        ) from error
    return "\n".join(["Parameters:", *lines])


def _with_name(function: Callable[..., Any], signature: inspect.Signature) -> tuple[inspect.Signature, int | None]:
    """The signature with `name=None` as last argument, and its position, None where only a keyword can give it."""
    parameters = list(signature.parameters.values())
    if "name" in signature.parameters:
        raise TypeError(
            four_parts(
                f"parametric_function_api on {getattr(function, '__name__', function)!r}",
                "the function has an argument `name` already, which the decorator adds",
                "",
                "rename that argument",
            )
        )
    kinds = [parameter.kind for parameter in parameters]
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    kind = inspect.Parameter.KEYWORD_ONLY if takes_any else inspect.Parameter.POSITIONAL_OR_KEYWORD
    position = sum(1 for other in kinds if other <= kind)
    added = inspect.Parameter("name", kind, default=None, annotation="str | None")
    parameters.insert(position, added)
    return signature.replace(parameters=parameters), None if takes_any else position
