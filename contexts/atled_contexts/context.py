"""Context: what the user asks for, checked when it is made and whenever an attribute is assigned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from atled_contexts import discovery
from atled_contexts.backend_list import Pairs, parse_backends
from atled_contexts.context_check import BackendCheck, check_fallback, check_types, default_pairs
from atled_contexts.errors import did_you_mean, listing, message
from atled_contexts.settings import setting
from atled_contexts.surroundings import change_everywhere

BackendList = str | list[str] | tuple[str, ...]

_DEFAULT_DEVICE_ID = "0"


class _Values(NamedTuple):
    """What a Context holds at one time; array_class_given is "" where the default was asked for."""

    backends: Pairs
    array_class: str
    device_id: str
    fallback: str
    deterministic: bool
    local_errors: bool
    array_class_given: str


class Context:
    """Which backends may compute, in order of preference, on which device, with which arrays.

        Context(["cudnn:half", "cuda:float", "cpu:float"], device_id="0")

    backend: "name:type_config", "name" (type config float), or a sequence of those. None: the backends of
        ATLED_BACKENDS, else the usable backend with the highest default priority.
    array_class: name of the array class; "": the default one of the first usable backend.
    device_id: which device, as a string.
    fallback: what running elsewhere than listed does: "raise", "warn" (once per op and reason) or "quiet" (counted
        only). None: ATLED_FALLBACK, else "warn".
    deterministic: whether equal inputs must give equal bits. None: ATLED_DETERMINISTIC, else no.
    local_errors: whether the rounding error of an output may come only from the inputs that the output is defined by.
        It excludes algorithms such as Winograd's, in which an outlier or an inf also spoils outputs nearby. None:
        ATLED_LOCAL_ERRORS, else no.

    Each is an attribute that can be assigned: `ctx.device_id = "1"` is checked as here, and holds from the next call on
    wherever this Context is in force. What was recorded or compiled before keeps the values of then (`frozen`). A
    Context that was hashed, as in a set or a dict, refuses: its place there depends on its values.

    A backend whose plugin is absent or unusable stays in a list that has a usable one. Making a Context discovers the
    plugins. ContextError: malformed, unknown, or nothing usable. TypeError: an argument of the wrong type.
    """

    __slots__ = ("_frozen", "_hash", "_values")

    _frozen: Context | None  # itself for one that cannot be changed; None until it is first read
    _hash: int | None  # None until it is asked for
    _values: _Values

    def __init__(
        self,
        backend: BackendList | None = None,
        array_class: str = "",
        device_id: str = _DEFAULT_DEVICE_ID,
        *,
        fallback: str | None = None,
        deterministic: bool | None = None,
        local_errors: bool | None = None,
    ) -> None:
        asked = _asked(backend, array_class, device_id)
        flags = {"deterministic": deterministic, "local_errors": local_errors}
        check_types(asked, array_class, device_id, fallback, flags)
        mode = setting("ATLED_FALLBACK") if fallback is None else check_fallback(asked, fallback)
        given = parse_backends(backend, asked) if backend is not None else None
        registry = discovery.registry()
        pairs = default_pairs(registry) if given is None else given
        check = BackendCheck(registry, pairs, asked)
        check.require_usable()
        values = _Values(
            pairs,
            check.array_class(array_class),
            check.device_id(device_id),
            mode,
            setting("ATLED_DETERMINISTIC") if deterministic is None else deterministic,
            setting("ATLED_LOCAL_ERRORS") if local_errors is None else local_errors,
            array_class,
        )
        self._hold(values, None)

    def _hold(self, values: _Values, frozen: Context | None) -> None:
        keep = object.__setattr__  # the class's own assigns what users see
        keep(self, "_values", values)
        keep(self, "_frozen", frozen)
        keep(self, "_hash", None)

    @property
    def frozen(self) -> Context:
        """An equal Context that cannot be changed: what recorded calls, caches and plans hold.

        The same object at each call, until an attribute is assigned.
        """
        found, values = self._frozen, self._values
        # Of other values: another thread assigned while this property was at work.
        if found is None or found._values is not values:
            found = Context.__new__(Context)
            found._hold(values, found)
            object.__setattr__(self, "_frozen", found)
        return found

    @property
    def backend(self) -> list[str]:
        """The list as "name:type_config" strings; a fresh list at each call."""
        return _as_entries(self._values.backends)

    @property
    def backends(self) -> Pairs:
        """The list as (name, type config) pairs."""
        return self._values.backends

    @property
    def array_class(self) -> str:
        """Name of the array class."""
        return self._values.array_class

    @property
    def device_id(self) -> str:
        """Which device."""
        return self._values.device_id

    @property
    def fallback(self) -> str:
        """What running elsewhere than listed does: "raise", "warn" or "quiet"."""
        return self._values.fallback

    @property
    def deterministic(self) -> bool:
        """Whether equal inputs must give equal bits."""
        return self._values.deterministic

    @property
    def local_errors(self) -> bool:
        """Whether the error of an output may come only from the inputs that the output is defined by."""
        return self._values.local_errors

    # `Any`: the values have the types of the constructor's arguments, which checks them.
    def replace(self, **changes: Any) -> Context:
        """A Context with other values of some arguments; checked like a new one.

        With a new backend list the array class and the device id stay where they fit it.
        """
        values = dict(zip(_ARGUMENTS, self._arguments(), strict=True))
        for name in changes:
            if name not in values:
                raise TypeError(
                    message(
                        f"replace({name}=...)",
                        "a Context has no such argument",
                        f"it has {listing(_ARGUMENTS)}",
                        did_you_mean(name, _ARGUMENTS, "use one of these"),
                    )
                )
        if "backend" in changes:
            values.update(self._fitting(changes["backend"]))
        return Context(**{**values, **changes})

    # `Any`: as in `replace`.
    def using(self, *backends: BackendList, **changes: Any) -> Context:
        """This Context with another backend list: `using("reference")`, `using("cuda", "cpu")`.

        An entry without a type config takes that of this Context's first entry.
        changes: other arguments to change, as in `replace`: `using("cpu", fallback="raise")`.
        """
        if not backends:
            return self.replace(**changes)
        given = backends[0] if len(backends) == 1 else backends
        pairs = parse_backends(given, f"using({', '.join(map(repr, backends))})", self._values.backends[0][1])
        return self.replace(backend=_as_entries(pairs), **changes)

    def with_type_configs(self, type_configs: Iterable[str]) -> Context:
        """The same backends, each under another type config, frozen.

        Unlike `replace` it takes those that a backend does not offer: selection says so then, and asks the next one.
        """
        names = (name for name, _ in self._values.backends)
        pairs = tuple(dict.fromkeys(zip(names, type_configs, strict=True)))
        made = Context.__new__(Context)
        made._hold(self._values._replace(backends=pairs), None)
        return made.frozen

    def _fitting(self, backend: BackendList | None) -> dict[str, str]:
        """The array class and the device id for another list: the own ones where they fit, else its default."""
        asked = f"replace(backend={backend!r})"
        registry = discovery.registry()
        pairs = parse_backends(backend, asked) if backend is not None else default_pairs(registry)
        check = BackendCheck(registry, pairs, asked)
        ids = check.device_ids()
        default_id = ids[0] if ids and _DEFAULT_DEVICE_ID not in ids else _DEFAULT_DEVICE_ID
        return {
            "array_class": given if (given := self._values.array_class_given) in check.array_classes() else "",
            "device_id": self.device_id if self.device_id in ids else default_id,
        }

    def _arguments(self) -> tuple[Any, ...]:
        """The values in the order of `_ARGUMENTS`."""
        values = self._values
        # The array class as given: "" stays "", the default of the machine that loads a pickle.
        flags = values.fallback, values.deterministic, values.local_errors
        return self.backend, values.array_class_given, values.device_id, *flags

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return self is other or self._values[:-1] == other._values[:-1]

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(self._values[:-1]))
        assert self._hash is not None
        return self._hash

    def __repr__(self) -> str:
        extra = f", fallback={self.fallback!r}" if self.fallback != "warn" else ""
        extra += ", deterministic=True" if self.deterministic else ""
        extra += ", local_errors=True" if self.local_errors else ""
        return f"Context({self.backend!r}, {self.array_class!r}, {self.device_id!r}{extra})"

    # `Any`: as in `replace`, which checks; a refused value leaves the Context as it is.
    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _ARGUMENTS:
            raise AttributeError(
                message(
                    f"{self!r}.{name} = {value!r}",
                    "a Context has no such attribute",
                    f"it has {listing(_ARGUMENTS)}",
                    did_you_mean(name, _ARGUMENTS, "assign one of these"),
                )
            )
        if self._frozen is self:
            self._refuse(name, "calls that were recorded or compiled under it hold this Context")
        if self._hash is not None:
            self._refuse(name, "it was hashed, as in a set or a dict, where its place depends on its values")
        self._hold(self.replace(**{name: value})._values, None)
        change_everywhere()

    def __delattr__(self, name: str) -> NoReturn:
        self._refuse(name, "every attribute of a Context has a value")

    def _refuse(self, name: str, reason: str) -> NoReturn:
        raise AttributeError(
            message(f"{self!r}.{name}", f"cannot be changed: {reason}", "", f"make another: ctx.replace({name}=...)")
        )

    # Loading makes a Context of the arguments: the plugins that are usable there decide whether it can be.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._arguments()

    def __copy__(self) -> Context:
        copied = Context.__new__(Context)
        copied._hold(self._values, None)
        return copied

    def __deepcopy__(self, memo: object) -> Context:
        return self.__copy__()


_ARGUMENTS = ("backend", "array_class", "device_id", "fallback", "deterministic", "local_errors")


# `Any`: see `replace`; the constructor checks. A pickle of an earlier version has fewer values.
def _rebuild(*values: Any) -> Context:
    return Context(**dict(zip(_ARGUMENTS, values, strict=False)))


def _as_entries(pairs: Pairs) -> list[str]:
    return [f"{name}:{type_config}" for name, type_config in pairs]


def _asked(backend: object, array_class: object, device_id: object) -> str:
    values = [repr(backend)] if backend is not None else []
    values += [f"array_class={array_class!r}"] if array_class != "" else []
    values += [f"device_id={device_id!r}"] if device_id != _DEFAULT_DEVICE_ID else []
    named = setting("ATLED_BACKENDS") if backend is None else ()
    by_setting = f" with ATLED_BACKENDS={','.join(named)!r}" if named else ""
    return f"Context({', '.join(values)}){by_setting}"
