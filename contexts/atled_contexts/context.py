"""Context: what the user asks for, as a frozen value that is checked when it is made."""

from __future__ import annotations

from typing import Any, NoReturn

from atled_contexts import discovery
from atled_contexts.backend_list import Pairs, parse_backends
from atled_contexts.context_check import BackendCheck, check_fallback, check_types, default_pairs
from atled_contexts.errors import did_you_mean, listing, message
from atled_contexts.settings import setting

BackendList = str | list[str] | tuple[str, ...]

_DEFAULT_DEVICE_ID = "0"


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

    A backend whose plugin is absent or unusable stays in a list that has a usable one. Making a Context discovers the
    plugins. ContextError: malformed, unknown, or nothing usable. TypeError: an argument of the wrong type.
    """

    __slots__ = ("_backends", "_given_array_class", "_hash", "array_class", "deterministic", "device_id", "fallback")

    _backends: Pairs
    _given_array_class: str
    _hash: int
    array_class: str
    deterministic: bool
    device_id: str
    fallback: str

    def __init__(
        self,
        backend: BackendList | None = None,
        array_class: str = "",
        device_id: str = _DEFAULT_DEVICE_ID,
        *,
        fallback: str | None = None,
        deterministic: bool | None = None,
    ) -> None:
        asked = _asked(backend, array_class, device_id)
        check_types(asked, array_class, device_id, fallback, deterministic)
        strict = setting("ATLED_DETERMINISTIC") if deterministic is None else deterministic
        mode = setting("ATLED_FALLBACK") if fallback is None else check_fallback(asked, fallback)
        given = parse_backends(backend, asked) if backend is not None else None
        registry = discovery.registry()
        pairs = default_pairs(registry) if given is None else given
        check = BackendCheck(registry, pairs, asked)
        check.require_usable()
        keep = object.__setattr__  # the class's own refuses
        keep(self, "_backends", pairs)
        keep(self, "_given_array_class", array_class)
        keep(self, "array_class", check.array_class(array_class))
        keep(self, "device_id", check.device_id(device_id))
        keep(self, "fallback", mode)
        keep(self, "deterministic", strict)
        keep(self, "_hash", hash(self._key()))

    @property
    def backend(self) -> list[str]:
        """The list as "name:type_config" strings; a fresh list at each call."""
        return _as_entries(self._backends)

    @property
    def backends(self) -> Pairs:
        """The list as (name, type config) pairs."""
        return self._backends

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
        return _rebuild(**{**values, **changes})

    # `Any`: as in `replace`.
    def using(self, *backends: BackendList, **changes: Any) -> Context:
        """This Context with another backend list: `using("reference")`, `using("cuda", "cpu")`.

        An entry without a type config takes that of this Context's first entry.
        changes: other arguments to change, as in `replace`: `using("cpu", fallback="raise")`.
        """
        if not backends:
            return self.replace(**changes)
        given = backends[0] if len(backends) == 1 else backends
        pairs = parse_backends(given, f"using({', '.join(map(repr, backends))})", self._backends[0][1])
        return self.replace(backend=_as_entries(pairs), **changes)

    def _fitting(self, backend: BackendList | None) -> dict[str, str]:
        """The array class and the device id for another list: the own ones where they fit, else its default."""
        asked = f"replace(backend={backend!r})"
        registry = discovery.registry()
        pairs = parse_backends(backend, asked) if backend is not None else default_pairs(registry)
        check = BackendCheck(registry, pairs, asked)
        ids = check.device_ids()
        default_id = ids[0] if ids and _DEFAULT_DEVICE_ID not in ids else _DEFAULT_DEVICE_ID
        return {
            "array_class": self._given_array_class if self._given_array_class in check.array_classes() else "",
            "device_id": self.device_id if self.device_id in ids else default_id,
        }

    def _arguments(self) -> tuple[list[str], str, str, str, bool]:
        # The array class as it was given: "" stays free to mean the default of wherever a pickle arrives.
        return self.backend, self._given_array_class, self.device_id, self.fallback, self.deterministic

    def _key(self) -> tuple[Pairs, str, str, str, bool]:
        return self._backends, self.array_class, self.device_id, self.fallback, self.deterministic

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return self is other or (self._hash == other._hash and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        extra = f", fallback={self.fallback!r}" if self.fallback != "warn" else ""
        extra += ", deterministic=True" if self.deterministic else ""
        return f"Context({self.backend!r}, {self.array_class!r}, {self.device_id!r}{extra})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._refuse_change(name)

    def __delattr__(self, name: str) -> NoReturn:
        self._refuse_change(name)

    def _refuse_change(self, name: str) -> NoReturn:
        raise AttributeError(
            message(f"{self!r}.{name}", "a Context cannot be changed", "", f"make another: ctx.replace({name}=...)")
        )

    # Made anew from its arguments where it arrives, for what is usable there decides whether it can be.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._arguments()

    def __copy__(self) -> Context:
        return self

    def __deepcopy__(self, memo: object) -> Context:
        return self


_ARGUMENTS = ("backend", "array_class", "device_id", "fallback", "deterministic")


# `Any`: see `replace`; the constructor checks.
def _rebuild(backend: Any, array_class: Any, device_id: Any, fallback: Any, deterministic: Any) -> Context:
    return Context(backend, array_class, device_id, fallback=fallback, deterministic=deterministic)


def _as_entries(pairs: Pairs) -> list[str]:
    return [f"{name}:{type_config}" for name, type_config in pairs]


def _asked(backend: object, array_class: object, device_id: object) -> str:
    values = [repr(backend)] if backend is not None else []
    values += [f"array_class={array_class!r}"] if array_class != "" else []
    values += [f"device_id={device_id!r}"] if device_id != _DEFAULT_DEVICE_ID else []
    return f"Context({', '.join(values)})"
