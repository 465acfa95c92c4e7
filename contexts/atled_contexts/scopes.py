"""Scopes: which Context is in force, for a block, a thread or the process."""

from __future__ import annotations

import contextvars
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from atled_contexts import discovery
from atled_contexts.context import BackendList, Context
from atled_contexts.errors import ContextScopeError, PluginError, ReferenceWarning, listing, message
from atled_contexts.extras import extras, how_to_install
from atled_contexts.fallback import user_level
from atled_contexts.plugin import REFERENCE
from atled_contexts.record import BLOCKED
from atled_contexts.registry import Loaded, Registry
from atled_contexts.settings import setting
from atled_contexts.surroundings import SetWithin, change_everywhere

_P = ParamSpec("_P")
_R = TypeVar("_R")

_scope: contextvars.ContextVar[Context | None] = contextvars.ContextVar("atled_context_scope", default=None)


class _Default:
    """The Context outside of all scopes: the one that was set, else `Context()` of the present plugins."""

    __slots__ = ("chosen", "own")

    def __init__(self) -> None:
        self.chosen: Context | None = None
        # The Context made of the plugins of a generation, its frozen form before any assignment to it, and that
        # generation. One tuple: threads that look meanwhile find all of it or nothing.
        self.own: tuple[Context, Context, int] | None = None

    def get(self) -> Context:
        if self.chosen is not None:
            return self.chosen
        if self.own is not None:
            made, offered, generation = self.own
            # One that was assigned to is what the user wants.
            if generation == discovery.current.generation or made.frozen is not offered:
                return made
        generation = discovery.current.generation  # read first: a change while making it shows next time
        made = Context()
        self.own = made, made.frozen, generation
        return made

    def is_own(self, context: Context) -> bool:
        """Whether a Context is the one that was made here."""
        return self.own is not None and context is self.own[0]


_default = _Default()
_told_slow = False


def get_current_context() -> Context:
    """The Context in force: that of the innermost scope, else the default one."""
    return _scope.get() or _default.get()


def context_in_force() -> Context:
    """The frozen form of the Context in force, for code that keeps it beyond the present call; see `surroundings`."""
    return get_current_context().frozen


def tell_if_slow() -> None:
    """Called before a computation: where the default Context is slow for want of a backend, says so once."""
    if not (_told_slow or _is_chosen()):
        _tell(why_slow(_default.get()))


def tell_if_reference(context: Context) -> None:
    """Called where the best Context for the host was taken: says once if it is slow for want of a backend."""
    if not (_told_slow or _is_chosen()):
        _tell(_why_reference("the best Context for the host", context))


def _is_chosen() -> bool:
    """Whether a Context was chosen, by a scope or as the default: then the reference is known of."""
    return _scope.get() is not None or _default.chosen is not None


def _tell(slow: str) -> None:
    global _told_slow
    if slow:
        warnings.warn(slow, ReferenceWarning, user_level())
        _told_slow = True  # only now: where warnings are errors, every call is one


def why_slow(context: Context) -> str:
    """Why the default Context is the reference, and what to do; "" where it is not, or the reference was asked for."""
    return _why_reference("the default Context", context) if _default.is_own(context) else ""


def _why_reference(what: str, context: Context) -> str:
    """Why nothing but the reference was there to take, and what to do; "" where that is not so."""
    if context.backends[0][0] != REFERENCE:
        return ""
    records = discovery.registry().records
    if setting("ATLED_BACKENDS") or any(record.state == BLOCKED for record in records):
        return ""
    broken = [record for record in records if not record.usable]
    why = "; ".join(f"plugin {record.name} is {record.state}: {record.reason}" for record in broken)
    remedies = [record.remedy for record in broken] or [extra.install for extra in extras() if extra.default]
    return (
        f"{what} is the reference, in plain NumPy, which is slow: {why or 'nothing faster is installed'} "
        f"(what to do: {'; or '.join(remedies)}; ATLED_BACKENDS=reference says that the reference is meant)"
    )


def set_default_context(ctx: Context) -> None:
    """Choose the Context outside of all scopes, for every thread of the process.

    ContextScopeError (an AssertionError) inside a `context_scope`, where it would not be seen.
    """
    _check_context(ctx, "set_default_context")
    scope = _scope.get()
    if scope is not None:
        raise ContextScopeError(
            message(
                f"set_default_context({ctx!r})",
                f"it was called inside a scope with {scope!r}",
                "",
                "call it outside of all scopes, or open another scope: with context_scope(ctx):",
            )
        )
    _default.chosen = ctx
    change_everywhere()


def reset_default_context() -> None:
    """Take `set_default_context` back: the default is that of the present plugins again."""
    _default.chosen = _default.own = None
    change_everywhere()


def context_scope(ctx: Context) -> SetWithin[Context]:
    """Put `ctx` in force for a `with` block, in this thread or asyncio task."""
    _check_context(ctx, "context_scope")
    return _enter(ctx)


# `Any`: the arguments of a Context, which checks them.
def using(*backends: BackendList, **changes: Any) -> SetWithin[Context]:
    """Override the backend list of the present Context for a `with` block: `with using("reference"):`.

    The other arguments stay where they fit; an entry without a type config takes that of the present first entry.
    changes: other arguments of a Context to override, with or without backends: `with using(fallback="raise"):`.
    """
    return _enter(get_current_context().using(*backends, **changes))


def _enter(ctx: Any) -> SetWithin[Any]:  # Any: a variable of "Context or None" is set, and a Context given
    return SetWithin(_scope, ctx, comes_again=True)


def bind(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A callable that runs `function` in the scopes of here and now, in whichever thread it is called.

        Thread(target=bind(work)).start()

    It may be called often and by several threads at the same time; scopes that it opens stay its own.
    """
    captured = contextvars.copy_context()

    @wraps(function)
    def bound(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        # A contextvars.Context can be entered only once at a time, hence a copy (a constant-time one) per call.
        return captured.copy().run(function, *args, **kwargs)

    return bound


# `Any`: options are the plugin's own.
def get_extension_context(
    name: str, *, type_config: str = "float", device_id: str | int = "0", **options: Any
) -> Context:
    """The Context that the plugin of that extension name proposes: `get_extension_context("cpu")`.

    A plugin without the hook `atled_preset` proposes its backend of that name, then the reference.

    device_id: a string, or a number as scripts pass it.  options: `fallback`, `deterministic`, `local_errors` as in
        Context; what else there is goes to the plugin.
    PluginError: no usable plugin has the name. What the plugin's preset raises passes through.
    """
    fields = {key: options.pop(key) for key in ("fallback", "deterministic", "local_errors") if key in options}
    device = str(device_id) if isinstance(device_id, int) and not isinstance(device_id, bool) else device_id
    asked = f"get_extension_context({name!r})"
    registry = discovery.registry()
    plugin = _extension(registry, name, asked)
    given: dict[str, Any]  # for a Context, which checks them
    if plugin.hooks.has("atled_preset"):
        given = {"name": name, "type_config": type_config, "device_id": device, "options": options}
        preset = plugin.hooks.call("atled_preset", **given)
        what = f"its atled_preset gave {preset!r}"
    elif any(info.name == name for info in plugin.record.declared):
        backends = [f"{name}:{type_config}", f"reference:{type_config}"]
        given = {"array_class": next(iter(registry.array_class_names(name)), ""), "device_id": device, **options}
        preset = Context(backends, **given)
    else:
        preset, what = None, "it has neither a backend of that name nor the hook atled_preset"
    if not isinstance(preset, Context):
        raise PluginError(
            message(
                asked,
                f"{plugin.record.title} lists this extension name, but {what}",
                "",
                "make the Context by hand: Context(['name:float'])",
            )
        )
    return preset.replace(**fields) if fields else preset


def _extension(registry: Registry, name: str, asked: str) -> Loaded:
    found = registry.extensions(name)
    if len(found) == 1:
        return found[0]
    if found:
        titles = listing(plugin.record.title for plugin in found)
        raise PluginError(message(asked, "several plugins have a preset of that name", titles, "block one of them"))
    known = registry.extension_names
    lines = [f"usable are {listing(known)}"]
    lines += [f"{record.title} is {record.state}: {record.reason}" for record in registry.records if not record.usable]
    offering = [record.remedy for record in registry.records if record.info and name in record.info.extension_names]
    remedy = "; ".join(offering) or how_to_install(name, known)
    raise PluginError(message(asked, "no usable plugin has an extension of that name", lines, remedy))


def _check_context(ctx: object, function: str) -> None:
    if not isinstance(ctx, Context):
        raise TypeError(
            message(f"{function}({ctx!r})", f"that is {type(ctx).__name__}, not a Context", "", "pass Context(...)")
        )
