"""Checks of a Context's arguments: whether the plugins that are there have what it asks for."""

from __future__ import annotations

from collections.abc import Mapping

from atled_contexts.backend_list import DEFAULT_TYPE_CONFIG, Pairs, check_type_config, parse_backends
from atled_contexts.errors import ContextError, PluginError, did_you_mean, listing, message
from atled_contexts.registry import BackendStatus, Registry
from atled_contexts.settings import FALLBACK_MODES, setting
from atled_contexts.type_configs import why_missing


class BackendCheck:
    """One backend list looked up in the registry.

    asked: how to name the request in an error.  usable: names of the usable backends of the list, in order.
    """

    def __init__(self, registry: Registry, pairs: Pairs, asked: str) -> None:
        self._registry = registry
        self._pairs = pairs
        self._asked = asked
        self._statuses = {name: registry.status(name) for name, _ in pairs}
        self.usable = tuple(name for name, status in self._statuses.items() if status.usable)

    def require_usable(self) -> None:
        """ContextError for a type config that its backend does not offer, or where no backend is usable."""
        for name, type_config in self._pairs:
            info = self._statuses[name].info
            offered = self._registry.type_configs(info) if info else None
            check_type_config(name, type_config, offered, self._asked)
            self._require_dtypes(name, type_config)
        if self.usable:
            return
        lines = [_status_line(status) for status in self._statuses.values()]
        lines += known_lines(self._registry, skip=self._statuses)
        remedies = dict.fromkeys(status.remedy for status in self._statuses.values() if status.remedy)
        default = self._registry.default_backend()
        if default and any(status.info for status in self._statuses.values()):  # installed, but not for this machine
            remedies[f"or name a usable backend behind it, such as {default!r}"] = None
        raise ContextError(message(self._asked, "none of its backends is usable", lines, "; ".join(remedies)))

    def _require_dtypes(self, backend: str, type_config: str) -> None:
        """ContextError for a type config of which nobody says the dtypes, or one whose dtypes nothing here has."""
        info = self._statuses[backend].info
        config = self._registry.type_config(type_config) or (info.declared.get(type_config) if info else None)
        if config is None:
            reason = f"backend {backend!r} only names type config {type_config!r}: nothing says its dtypes"
            remedy = f"use another one, or have the plugin declare it: TypeConfig({type_config!r}, DTYPE)"
        else:
            reason, remedy = why_missing(config) or ("", "")
        if reason:
            raise ContextError(message(self._asked, reason, "", remedy))

    def array_classes(self) -> list[str]:
        """Names of the array classes that a usable backend of the list works on, the default first."""
        return list(
            dict.fromkeys(name for backend in self.usable for name in self._registry.array_class_names(backend))
        )

    def array_class(self, name: str) -> str:
        """The name given where it fits the list; for "" the default (which is "" where there are no arrays at all)."""
        known = self.array_classes()
        if not name:
            return known[0] if known else ""
        if name in known:
            return name
        lines = [f"{backend} works on {listing(self._registry.array_class_names(backend))}" for backend in self.usable]
        raise ContextError(
            message(
                self._asked,
                f"no usable backend of the list works on array class {name!r}",
                lines + self._unusable_lines(),
                did_you_mean(name, known, "use one of these, or leave array_class out"),
            )
        )

    def device_ids(self) -> list[str]:
        """Ids of all devices that a usable backend of the list has."""
        return [device for devices, _ in map(self._devices, self.usable) for device in devices]

    def device_id(self, device_id: str) -> str:
        """The id given where a usable backend of the list has that device."""
        known = list(dict.fromkeys(self.device_ids()))
        if device_id in known:
            return device_id
        lines = [line for _, line in map(self._devices, self.usable)]
        raise ContextError(
            message(
                self._asked,
                f"no usable backend of the list has a device {device_id!r}",
                lines + self._unusable_lines(),
                f"use one of {listing(map(repr, known))}" if known else "mend the plugin or its driver",
            )
        )

    def _devices(self, backend: str) -> tuple[tuple[str, ...], str]:
        """The devices of one backend, and the line of a message that lists them."""
        try:
            found = self._registry.devices(backend)
        except PluginError as error:  # a plugin that cannot list its devices has none, and the line says why
            return (), str(error).splitlines()[0]
        return found, f"{backend} has {listing(map(repr, found))}"

    def _unusable_lines(self) -> list[str]:
        return [_status_line(status) for status in self._statuses.values() if not status.usable]


def default_pairs(registry: Registry) -> Pairs:
    """The backends of the default Context: those of ATLED_BACKENDS, else the one with the highest priority."""
    named = setting("ATLED_BACKENDS")
    if named:
        return parse_backends(named, f"ATLED_BACKENDS={','.join(named)!r}")
    name = registry.default_backend()
    if name is None:
        raise ContextError(
            message(
                "the default Context",
                "no usable plugin offers a backend for it",
                known_lines(registry),
                "import atled, which brings the reference backend, or name a backend: Context('name:float')",
            )
        )
    return ((name, DEFAULT_TYPE_CONFIG),)


def check_types(
    asked: str, array_class: object, device_id: object, fallback: object, flags: Mapping[str, object]
) -> None:
    """TypeError for an argument of the wrong type; flags: by name, each a bool or None."""
    strings = {"array_class": array_class, "device_id": device_id, "fallback": "" if fallback is None else fallback}
    for name, value in strings.items():
        if not isinstance(value, str):
            wrong = f"{name} is {type(value).__name__}, not a string"
            raise TypeError(message(asked, wrong, "", f"write {name}={str(value)!r}"))
    for name, value in flags.items():
        if value is not None and not isinstance(value, bool):
            wrong = f"{name} is {type(value).__name__}, not a bool"
            raise TypeError(message(asked, wrong, "", f"write {name}=True or False"))


def check_fallback(asked: str, fallback: str) -> str:
    """The mode given; ContextError for an unknown one."""
    if fallback not in FALLBACK_MODES:
        raise ContextError(
            message(
                asked,
                f"fallback={fallback!r} is unknown",
                f"it is one of {listing(FALLBACK_MODES)}",
                did_you_mean(fallback, FALLBACK_MODES, "use one of these, or leave fallback= out"),
            )
        )
    return fallback


def known_lines(registry: Registry, skip: dict[str, BackendStatus] | None = None) -> list[str]:
    """One line for each backend that a plugin declares, and for each plugin that did not get so far."""
    skipped = skip or {}
    lines = [_status_line(registry.status(name)) for name in registry.known_backends() if name not in skipped]
    lines += [
        f"{record.title} is {record.state}: {record.reason}"
        for record in registry.records
        if record.info is None and record.name not in skipped
    ]
    return lines


def _status_line(status: BackendStatus) -> str:
    if status.usable and status.info is not None:
        return f"{status.name} is usable, with {listing(status.info.type_configs)}"
    return f"{status.name} is {status.state}: {status.reason}"
