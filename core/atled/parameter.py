"""Parameters by name, in scopes that nest: `conv1/conv/W`."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Union

import numpy as np

from atled.arrays.array import check_shape
from atled.errors import did_you_mean, four_parts
from atled.initializer import BaseInitializer
from atled.limits.sizes import within_memory
from atled.variable import Variable
from atled_contexts import lock_across_forks

__all__ = [
    "clear_parameters",
    "get_parameter",
    "get_parameter_or_create",
    "get_parameters",
    "parameter_scope",
    "pop_parameter",
    "set_parameter",
]

Initializer = np.ndarray | BaseInitializer | Callable[[tuple[int, ...]], Any]

_Names = tuple[str, ...]
# What a scope holds, in the order in which it came; an inner scope is a dict of its own.
_Scope = dict[str, Union[Variable, "_Scope"]]

LOCK = lock_across_forks()
"""Held while scopes are read or changed; hold it to make one step of several."""

_root: _Scope = {}

# Names, not the dict itself: if another thread clears the scope meanwhile, it is simply made again.
_current: ContextVar[_Names] = ContextVar("atled_parameter_scope", default=())

present_scope: Callable[[], _Names] = _current.get
"""The names from the root to the current scope."""


class _Findings:
    """What callers found out about names: a table that an empty one replaces when an entry may not hold any more.

    That is when a parameter or a scope is taken out or replaced; adding one changes no other name. A caller takes the
    table first, then looks at the parameters, then enters what it found.
    """

    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table: dict[Hashable, Any] = {}

    def forget(self) -> None:
        self.table = {}


FINDINGS = _Findings()


class _Change:
    """One entry that was put into a scope, and how to take it back."""

    __slots__ = ("entry", "names", "previous")

    def __init__(self, names: _Names, previous: Variable | None, entry: Variable | _Scope) -> None:
        self.names = names
        self.previous = previous
        self.entry = entry

    def undo(self) -> None:
        *outer, last = self.names
        scope = _entry(tuple(outer))
        if not isinstance(scope, dict) or scope.get(last) is not self.entry:
            return  # it was changed since
        FINDINGS.forget()
        if self.previous is not None:
            scope[last] = self.previous
        elif isinstance(self.entry, Variable) or not self.entry:
            del scope[last]


_changes: ContextVar[list[_Change] | None] = ContextVar("atled_parameter_changes", default=None)


@contextlib.contextmanager
def parameter_scope(name: str) -> Iterator[None]:
    """Within the block, names of parameters are relative to this scope of the current one.

    The scope is made on entry if it is not there. The current scope belongs to the thread or asyncio task (a new
    thread starts at the root); the parameters in it belong to the whole process.

    Args:
        name: name of the scope; slashes nest, superfluous ones are ignored, "" stays in the current scope.

    Raises:
        TypeError: name is not text.
        ValueError: a parameter has the name of the scope.
    """
    names = _current.get() + _split("parameter_scope", name)
    with LOCK:
        _make_scope(names)
    token = _current.set(names)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def undone_on_error() -> Iterator[None]:
    """If the block ends with an exception, parameters and scopes that it put in place are taken out again."""
    outer = _changes.get()
    changes: list[_Change] = []
    token = _changes.set(changes)
    try:
        yield
    except BaseException:
        with LOCK:
            for change in reversed(changes):
                change.undo()
        raise
    finally:
        _changes.reset(token)
    if outer is not None:
        outer.extend(changes)


def get_parameters(
    params: dict[str, Variable] | None = None, path: str = "", grad_only: bool = True
) -> dict[str, Variable]:
    """The parameters below the current scope.

    Args:
        params: a dict to add them to; None: a new one.
        path: put before each name, with a slash.
        grad_only: leave out those with need_grad False.

    Returns:
        name relative to the current scope -> the stored Variable itself; in creation order, a scope counting from
        when it was first entered and all of its parameters standing together.
    """
    found: dict[str, Variable] = OrderedDict() if params is None else params
    with LOCK:
        scope = _entry(_current.get())
        if isinstance(scope, dict):
            _collect(scope, f"{path}/" if path else "", grad_only, found)
    return found


def get_parameter(key: str) -> Variable | None:
    """The stored Variable of that name in the current scope, or None if there is none.

    Raises:
        ValueError: key names a scope, or leads through a parameter.
    """
    names = _key("get_parameter", key)
    with LOCK:
        return _parameter("get_parameter", key, names)


def set_parameter(key: str, param: Variable) -> None:
    """Store a Variable under a name in the current scope; one that has the name already gives way and keeps its place.

    Raises:
        TypeError: param is not a Variable.
        ValueError: key names a scope, or leads through a parameter.
    """
    names = _key("set_parameter", key)
    if not isinstance(param, Variable):
        raise TypeError(
            four_parts(
                f"set_parameter({key!r}, {type(param).__name__})",
                "not a Variable",
                "",
                "pass a Variable; Variable.from_numpy_array makes one of a NumPy array",
            )
        )
    with LOCK:
        previous = _parameter("set_parameter", key, names)
        _put(names, previous, param)


def holds_parameter(param: Variable) -> bool:
    """Whether a Variable is a parameter in the current scope itself, not in an inner one."""
    with LOCK:
        scope = _entry(_current.get())
        return isinstance(scope, dict) and any(entry is param for entry in scope.values())


def pop_parameter(key: str) -> Variable | None:
    """Take the Variable of that name out of the current scope and return it; None if there is none.

    Raises:
        ValueError: key names a scope, or leads through a parameter.
    """
    names = _key("pop_parameter", key)
    with LOCK:
        param = _parameter("pop_parameter", key, names)
        if param is not None:
            FINDINGS.forget()
            del _scope_at(names[:-1])[names[-1]]
    return param


def clear_parameters() -> None:
    """Forget every parameter and scope below the current scope; Variables that others hold live on."""
    with LOCK:
        scope = _entry(_current.get())
        if isinstance(scope, dict):
            FINDINGS.forget()
            scope.clear()


def get_parameter_or_create(
    name: str,
    shape: Sequence[int] | None = None,
    initializer: Initializer | None = None,
    need_grad: bool = True,
) -> Variable:
    """The parameter of that name in the current scope, made if it is not there.

    Args:
        name: relative to the current scope; slashes nest.
        shape: sizes per axis; may be left out if `initializer` is an array.
        initializer: the first values: an array, an initializer, or a function from a shape to something that
            broadcasts to it. None: zeros. Looked at only if the parameter is made, but for the shape of an array.
        need_grad: whether it is trained.

    Returns:
        the stored Variable. If its need_grad is the other one: an unlinked Variable with the need_grad asked for that
        shares data and gradient; the stored one stays as it is.

    Raises:
        TypeError: initializer is nothing of the above, or shape and array are missing.
        ValueError: the stored parameter, or the array, has another shape; the function's result does not broadcast;
            name names a scope or leads through a parameter.
    """
    names = _key("get_parameter_or_create", name)
    wanted = _wanted_shape(name, shape, initializer)
    with LOCK:
        param = _parameter("get_parameter_or_create", name, names)
    if param is None:
        # Outside the lock: an initializer is foreign code. Of two threads that come here the first one's is kept.
        made = _make(name, wanted, initializer, need_grad)
        with LOCK:
            param = _parameter("get_parameter_or_create", name, names)
            if param is None:
                _put(names, None, made)
                return made
    if wanted is not None and param.shape != wanted:
        raise ValueError(
            four_parts(
                f"get_parameter_or_create({name!r}, shape={wanted}) in scope {_where()}",
                f"the stored parameter has shape {param.shape}",
                "",
                "use another name or scope for another layer, or clear_parameters() to start again",
            )
        )
    return param if param.need_grad == bool(need_grad) else param.unlinked(need_grad=bool(need_grad))


def _wanted_shape(name: str, shape: Sequence[int] | None, initializer: Any) -> tuple[int, ...] | None:
    """The shape asked for, by itself or by an array of values; None if neither says."""
    if shape is None:
        return initializer.shape if isinstance(initializer, np.ndarray) else None
    wanted = check_shape(shape)
    if isinstance(initializer, np.ndarray) and initializer.shape != wanted:
        raise ValueError(
            four_parts(
                f"get_parameter_or_create({name!r}, shape={wanted}) in scope {_where()}",
                f"the initializer is an array of shape {initializer.shape}",
                "",
                f"pass an array of shape {wanted}",
            )
        )
    return wanted


def _make(name: str, shape: tuple[int, ...] | None, initializer: Any, need_grad: bool) -> Variable:
    asked = f"get_parameter_or_create({name!r}, shape={shape}) in scope {_where()}"
    if shape is None:
        raise TypeError(four_parts(asked, "the parameter is not there yet and no shape was given", "", "pass shape="))
    if initializer is None:
        return Variable(shape, need_grad=bool(need_grad))
    values = initial_values(asked, initializer, shape)
    param = Variable(shape, need_grad=bool(need_grad))
    try:
        param.d = values
    except (TypeError, ValueError) as error:
        raise type(error)(
            four_parts(
                asked,
                f"the initializer gave {values.dtype} values of shape {values.shape}",
                "",
                f"give numbers of shape {shape}",
            )
        ) from error
    return param


def initial_values(asked: str, initializer: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What an initializer gives for a shape; TypeError if it is none.

    asked: what is said of it where it fails.
    """
    if isinstance(initializer, np.ndarray):
        return initializer
    if not callable(initializer):
        raise TypeError(
            four_parts(
                asked,
                f"initializer is of type {type(initializer).__name__}",
                "",
                "pass a NumPy array, an initializer such as ConstantInitializer(0), or a function of the shape",
            )
        )
    with within_memory(asked):
        return np.asarray(initializer(shape))


def _split(what: str, name: str) -> _Names:
    if not isinstance(name, str):
        raise TypeError(four_parts(f"{what}({name!r})", f"got {type(name).__name__}", "", "pass the name as text"))
    if name and "/" not in name:
        return (name,)  # the common case, in a tenth of the time
    return tuple(part for part in name.split("/") if part)


def _key(what: str, key: str) -> _Names:
    """The names from the root to a parameter."""
    names = _split(what, key)
    if not names:
        raise ValueError(four_parts(f"{what}({key!r})", "a parameter needs a name", "", "pass a name such as 'W'"))
    return _current.get() + names


def _where() -> str:
    return repr("/".join(_current.get()))


def _entry(names: _Names) -> Variable | _Scope | None:
    """What stands under names from the root: a parameter, a scope, or nothing."""
    entry: Variable | _Scope | None = _root
    for name in names:
        if not isinstance(entry, dict):
            return None
        entry = entry.get(name)
    return entry


def _scope_at(names: _Names) -> _Scope:
    scope = _entry(names)
    assert isinstance(scope, dict)
    return scope


def _parameter(what: str, key: str, names: _Names) -> Variable | None:
    """The parameter under names, None if there is none; refuses names that cannot be a parameter's."""
    entry = _entry(names)
    if entry is None:
        _check_scopes(f"{what}({key!r})", names[:-1])
    if isinstance(entry, dict):
        raise ValueError(
            four_parts(
                f"{what}({key!r}) in scope {_where()}",
                "this is a scope, not a parameter",
                f"in it: {', '.join(entry) or 'nothing'}",
                did_you_mean(names[-1], entry, "name a parameter in it, or use another name"),
            )
        )
    return entry


def _check_scopes(asked: str, names: _Names) -> None:
    """Refuse names from the root that lead through a parameter."""
    for count in range(1, len(names) + 1):
        if isinstance(_entry(names[:count]), Variable):
            raise ValueError(
                four_parts(
                    f"{asked} in scope {_where()}",
                    f"{'/'.join(names[:count])!r} is a parameter, not a scope",
                    "",
                    "use another name, or pop_parameter to make room",
                )
            )


def _make_scope(names: _Names) -> _Scope:
    """The scope under names from the root, made with all that lead to it where they are not there."""
    entry = _entry(names)
    if isinstance(entry, dict):
        return entry
    _check_scopes(f"parameter_scope({'/'.join(names)!r})", names)
    scope = _root
    for position, name in enumerate(names):
        inner = scope.get(name)
        if inner is None:
            inner = scope[name] = {}
            _note(_Change(names[: position + 1], None, inner))
        assert isinstance(inner, dict)
        scope = inner
    return scope


def _put(names: _Names, previous: Variable | None, param: Variable) -> None:
    if previous is not None:
        FINDINGS.forget()
    _make_scope(names[:-1])[names[-1]] = param
    _note(_Change(names, previous, param))


def _note(change: _Change) -> None:
    changes = _changes.get()
    if changes is not None:
        changes.append(change)


def _collect(scope: _Scope, prefix: str, grad_only: bool, found: dict[str, Variable]) -> None:
    # No recursion: names from a file may nest deeper than Python's stack.
    pending = [(prefix, iter(scope.items()))]
    while pending:
        prefix, entries = pending[-1]
        for name, entry in entries:
            if isinstance(entry, dict):
                pending.append((f"{prefix}{name}/", iter(entry.items())))
                break
            if not grad_only or entry.need_grad:
                found[prefix + name] = entry
        else:
            pending.pop()


def __dir__() -> list[str]:
    return sorted(__all__)
