"""What a plugin says of itself: the values that its hooks return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from atled_contexts.errors import listing, message
from atled_contexts.type_configs import STANDARD, TypeConfig

if TYPE_CHECKING:
    from atled_contexts.context import Context

API_VERSION = "1.1"

REFERENCE = "reference"  # the backend of the op specs' own NumPy references, asked last; the core registers it

HOST_FAMILY = "host"  # the device family of all backends that compute in host memory

KINDS = ("cpu", "gpu", "simulated", "other")  # of backends, by what computes

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_VERSION = re.compile(r"(\d+)\.(\d+)\Z")


def is_name(text: object) -> bool:
    """Whether `text` may name a backend, a type config or an extension."""
    return isinstance(text, str) and _NAME.match(text) is not None


class BackendInfo:
    """One backend, as its plugin describes it.

    name: as a Context writes it.
    type_configs: names of those it offers. Given as names, where they are standard ones (float, half, double, bf16,
        tf32), or as `TypeConfig`s.  declared: those that say their dtypes, by name.
    default_priority: the default Context takes the usable backend with the highest one above 0; 0 is never.
    host: whether it computes in host memory.
    device_family: backends of one family work on the same device and the same arrays ("cuda" for cuda and cudnn).
        Host backends are all one family; a device backend's own name is the default.
    array_classes: names of the array classes it works on, its default first. They may be registered by
        another plugin of the same device family.
    kind: what computes: "cpu", "gpu", "simulated" or "other". If not given, "cpu" for a host backend, else "other".
    rank: among the backends of its kind the usable one with the highest is the best (`best_backend`); cpu has 10.
    """

    __slots__ = (
        "array_classes",
        "declared",
        "default_priority",
        "device_family",
        "host",
        "kind",
        "name",
        "rank",
        "type_configs",
    )

    def __init__(
        self,
        name: str,
        type_configs: Iterable[str | TypeConfig] = ("float",),
        default_priority: int = 0,
        host: bool = False,
        *,
        device_family: str = "",
        array_classes: Iterable[str] = (),
        kind: str = "",
        rank: int = 0,
    ) -> None:
        self.name = name
        self.type_configs, self.declared = _type_configs(name, type_configs)
        self.default_priority = default_priority
        self.host = host
        self.device_family = HOST_FAMILY if host else device_family or name
        self.array_classes = _names("BackendInfo", "array_classes", array_classes)
        self.kind = kind or ("cpu" if host else "other")
        self.rank = rank
        _check_name("BackendInfo", "name", name)
        if self.kind not in KINDS:
            raise ValueError(
                message(f"BackendInfo({name!r})", f"kind {kind!r} is unknown", "", f"use one of {listing(KINDS)}")
            )
        if not self.type_configs:
            raise ValueError(message(f"BackendInfo({name!r})", "has no type config", "", "name one, such as 'float'"))

    def __repr__(self) -> str:
        return f"BackendInfo({self.name!r}, type_configs={self.type_configs!r}, host={self.host!r})"


class PluginInfo:
    """One plugin: what `atled_info` returns.

    api_version: the plugin API it is written for, "major.minor".
    distribution, version: what to name in `pip install`.
    extension_names: what `get_extension_context` knows its presets by.
    """

    __slots__ = ("api_version", "backends", "distribution", "extension_names", "name", "version")

    def __init__(
        self,
        name: str,
        api_version: str,
        distribution: str,
        version: str,
        backends: Iterable[BackendInfo] = (),
        extension_names: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.api_version = api_version
        self.distribution = distribution
        self.version = version
        self.backends = tuple(backends)
        self.extension_names = _names("PluginInfo", "extension_names", extension_names)
        _check_name("PluginInfo", "name", name)
        api_number(api_version)
        for backend in self.backends:
            if not isinstance(backend, BackendInfo):
                raise TypeError(
                    message(f"PluginInfo({name!r})", f"backends holds {backend!r}", "", "give BackendInfo objects")
                )

    def __repr__(self) -> str:
        backends = listing(backend.name for backend in self.backends)
        return f"PluginInfo({self.name!r}, api {self.api_version}, {self.distribution} {self.version}, {backends})"


class Usable:
    """The answer of `atled_probe` when the plugin can work here."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Usable()"


class Unusable:
    """The answer of `atled_probe` when the plugin cannot work here.

    reason: why, in words.  remedy: what the user can do, best a command.  cause: the exception behind it.
    """

    __slots__ = ("cause", "reason", "remedy")

    def __init__(self, reason: str, remedy: str, cause: BaseException | None = None) -> None:
        self.reason = reason
        self.remedy = remedy
        self.cause = cause

    def __repr__(self) -> str:
        return f"Unusable({self.reason!r}, {self.remedy!r})"


class Warming:
    """One thing that `atled_warm` offers to prepare.

    name: of it, for the progress display.  is_ready: whether `prepare` would have nothing to do.
    prepare: prepares it and keeps it for later processes; raises where that fails.
    """

    __slots__ = ("is_ready", "name", "prepare")

    def __init__(self, name: str, prepare: Callable[[], object], *, is_ready: bool = False) -> None:
        self.name = name
        self.prepare = prepare
        self.is_ready = is_ready

    def __repr__(self) -> str:
        return f"Warming({self.name!r}, is_ready={self.is_ready})"


class FallbackEvent:
    """The argument of `atled_observe`: an op goes to a backend as a fallback; one per new decision, not per call.

    op: name of the op.  context: the Context in force.  backend: where it went.  reason: why, in words.
    """

    __slots__ = ("backend", "context", "op", "reason")

    def __init__(self, op: str, context: Context, backend: str, reason: str) -> None:
        self.op = op
        self.context = context
        self.backend = backend
        self.reason = reason

    def __repr__(self) -> str:
        return f"FallbackEvent({self.op!r}, {self.backend!r}, {self.reason!r})"


def api_number(text: object) -> tuple[int, int]:
    """A plugin API version "major.minor" as two numbers; ValueError for anything else."""
    match = _VERSION.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            message(f"api_version={text!r}", "is not 'major.minor'", "", f"write {API_VERSION!r}, the present one")
        )
    return int(match[1]), int(match[2])


def _check_name(owner: str, field: str, name: object) -> None:
    if not is_name(name):
        raise ValueError(message(f"{owner}({field}={name!r})", "is not a name", "", "use letters, digits, '_-.'"))


def _type_configs(backend: str, given: Iterable[str | TypeConfig]) -> tuple[tuple[str, ...], dict[str, TypeConfig]]:
    """Names of all type configs, and what those that say their dtypes declare."""
    entries = given if isinstance(given, str) else tuple(given)
    names = [entry.name if isinstance(entry, TypeConfig) else entry for entry in entries]
    checked = _names("BackendInfo", "type_configs", given if isinstance(given, str) else names)
    declared = {name: STANDARD[name] for name in checked if name in STANDARD}
    for config in entries:
        if isinstance(config, TypeConfig) and declared.setdefault(config.name, config) != config:
            known = declared[config.name]
            raise ValueError(
                message(f"BackendInfo({backend!r})", f"{config} is not {known}", "", "give it a name of its own")
            )
    return checked, declared


def _names(owner: str, field: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):  # a string is an iterable of characters: the comma of a 1-tuple was forgotten
        raise TypeError(message(f"{owner}({field}={names!r})", "is a string", "", f"write {field}=({names!r},)"))
    found = tuple(names)
    for name in found:
        _check_name(owner, field, name)
    return found
