"""Layer calls: methods that describe what they compute, which then runs, is kept, or is shown as a plan."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from atled.errors import four_parts
from atled.keyed import WeakRegister
from atled.named_tuple import NamedTuple
from atled.neon.calls.layer_objects import LayerObject
from atled.neon.transforms.transform import Transform
from atled.neon.trees.tensor import Tensor
from atled.plugin import register_cache

_LIMIT = 1024
"""So many keys of calls a backend keeps; a network of some hundred layers makes fewer."""

_PLAIN = frozenset((int, float, bool, str, type(None)))


class Program(Protocol):
    """What a call does: a `Description` of the core, or what runs in the same way."""

    def run(self) -> Any:
        """Compute and write the results; where that fails, every tensor is as it was."""

    @property
    def plan(self) -> Any:
        """What is run: `print` shows its steps, and who runs them."""


class Described(NamedTuple):
    """What a layer call is to do, and what it gives back.

    is_kept: whether it does the same when it is called with the same arguments again.
    """

    program: Program
    result: Tensor | None = None
    is_kept: bool = True


class _Kept(NamedTuple):
    """A call that was made: its program, and the tensor that it gives back.

    needed: its tensors and parameter objects, with the first of which it is forgotten.  plain: its other arguments.
    """

    run: Callable[[], Any]
    result: Callable[[], Tensor | None] | None
    needed: list[weakref.ref[Any]]
    plain: list[Any]


class _NotKeptError(Exception):
    """An argument about which it cannot be told that it says the same again."""


def layer_call(
    describe: Callable[..., Described], ignored: Sequence[str] = ("layer", "ngLayer")
) -> Any:  # Any: a function with `describe` as an attribute
    """Make a method of a backend that runs what `describe` says, and keeps that while the tensors in question live.

    describe: a method with the arguments of the call. It checks them, and writes nothing.
    ignored: arguments that count for nothing, such as those by which neon's layers pass themselves.
    """
    signature = inspect.signature(describe)
    positions = [position for position, each in enumerate([*signature.parameters][1:]) if each in ignored]

    @functools.wraps(describe)
    def call(self: DescribedCalls, *given: Any, **named: Any) -> Any:
        if positions:
            given = tuple([None if position in positions else each for position, each in enumerate(given)])
            named = {of: each for of, each in named.items() if of not in ignored}
        # What an entry is found by in this way it keeps alive, or is forgotten with: an id means one object.
        same = (describe, *map(id, given), *named, *map(id, named.values())) if named else (describe, *map(id, given))
        found = self._kept_calls.get(same)
        if found is None:  # as for all where the backend was cleaned up: it has forgotten them
            return self._found_by_value(describe, same, given, named)
        found.run()
        return None if found.result is None else found.result()

    call.describe = describe  # type: ignore[attr-defined]
    # `describe` returns what is to be done; whoever calls the method gets a tensor or nothing.
    call.__signature__ = signature.replace(return_annotation=signature.empty)  # type: ignore[attr-defined]
    return call


image_call = functools.partial(layer_call, ignored=("layer_op", "repeat"))
"""The same for calls whose `layer` is a parameter object, which counts."""


class DescribedCalls:
    """Runs layer calls, keeps them, and shows their plans."""

    closed = False

    @functools.cached_property
    def _kept_calls(self) -> dict[tuple[Any, ...], _Kept]:
        """By what was given: tensors by identity and others by value, or all of it by identity."""
        _BACKENDS.add(self)
        return {}

    def plan(self, call: str | Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a layer call would run with these arguments; nothing is computed.

        `print(be.plan(be.compound_dot, a, b, c, beta=1.0))` shows its steps and who runs them, or why it runs step by
        step in Python.

        call: a layer call of this backend, or its name.  ValueError: it is none, or one that is no single program.
        """
        method = getattr(type(self), call, None) if isinstance(call, str) else getattr(call, "__func__", call)
        describe = getattr(method, "describe", None)
        if describe is None:
            remedy = "name a layer call, such as compound_dot; an op-tree has a plan of its own"
            raise ValueError(four_parts(f"the plan of {call!r}", "it is no call with one", "", remedy))
        return describe(self, *args, **kwargs).program.plan

    def _found_by_value(
        self, describe: Callable[..., Described], same: tuple[Any, ...], given: Sequence[Any], named: dict[str, Any]
    ) -> Tensor | None:
        """Run a call whose arguments are not the objects of an earlier one: it may be known by what they say."""
        try:
            key = (describe.__name__, *map(_part, given), *[(name, _part(each)) for name, each in named.items()])
        except _NotKeptError:
            described = describe(self, *given, **named)
            described.program.run()
            return described.result
        found = self._kept_calls.get(key)
        if found is not None:
            found.run()
            return None if found.result is None else found.result()
        described = describe(self, *given, **named)
        described.program.run()
        if described.is_kept:
            arguments = [*given, *named.values()]
            is_fixed = all(type(each) in _PLAIN or isinstance(each, Tensor | LayerObject) for each in arguments)
            self._keep(described, [key, same] if is_fixed else [key], arguments)
        return described.result

    def _keep(self, described: Described, keys: Sequence[tuple[Any, ...]], arguments: Sequence[Any]) -> None:
        """Keep a call until one of its tensors is gone, or a parameter object has another attribute."""
        kept = self._kept_calls
        if len(kept) >= _LIMIT:
            kept.clear()

        def forget(_: object, drop: Callable[..., Any] = kept.pop) -> None:
            for key in keys:
                drop(key, None)

        needed = [weakref.ref(each, forget) for each in _needed(arguments)]
        for each in arguments:
            if isinstance(each, LayerObject):
                each.when_changed(forget)
        plain = [each for each in arguments if type(each) in _PLAIN]
        result = None if described.result is None else weakref.ref(described.result)
        kept.update(dict.fromkeys(keys, _Kept(described.program.run, result, needed, plain)))


_BACKENDS: WeakRegister[DescribedCalls] = WeakRegister()
"""Those that may keep calls."""


def _count() -> int:
    return sum(len(backend._kept_calls) for backend in _BACKENDS.alive())


def _forget() -> None:
    for backend in _BACKENDS.alive():
        backend._kept_calls.clear()


register_cache("layer calls", _count, _forget)


def _part(given: Any) -> Any:
    """An argument as a part of a key: equal parts, equal calls."""
    if type(given) in _PLAIN:
        return given
    if isinstance(given, Tensor | LayerObject):
        return id(given)
    if isinstance(given, list | tuple):
        return tuple([id(each) if isinstance(each, Tensor) else _part(each) for each in given])
    if isinstance(given, Transform):
        state = vars(given)
        if all(type(each) in _PLAIN for each in state.values()):
            return (type(given), *state.items())
    raise _NotKeptError


def _needed(given: Sequence[Any]) -> Iterator[Tensor | LayerObject]:
    """What is told apart by its identity."""
    for each in given:
        if isinstance(each, Tensor | LayerObject):
            yield each
        elif isinstance(each, list | tuple):
            yield from _needed(each)
