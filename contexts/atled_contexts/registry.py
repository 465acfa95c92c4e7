"""Registry: what all usable plugins offer together, one immutable snapshot per plugin generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from atled_contexts.errors import PluginError, did_you_mean, in_words, listing, message
from atled_contexts.extras import how_to_install
from atled_contexts.plugin import REFERENCE, BackendInfo, Warming
from atled_contexts.record import ABSENT, BLOCKED, EXPERIMENTAL, USABLE, PluginRecord
from atled_contexts.signals import is_of_a_handler
from atled_contexts.type_configs import STANDARD, TypeConfig

if TYPE_CHECKING:
    from atled_contexts.hooks import PluginHooks
    from atled_contexts.registrar import ArrayClassEntry, Implementation, Provider, Registrar

_HOST_DEVICE_IDS = ("0", "")  # NNabla passes "0" to its CPU, and 1.39's own preset says ""


class Loaded:
    """A plugin that came through discovery, with its hooks and what it handed over."""

    __slots__ = ("hooks", "record", "registrar")

    def __init__(self, record: PluginRecord, hooks: PluginHooks, registrar: Registrar) -> None:
        self.record = record
        self.hooks = hooks
        self.registrar = registrar


class BackendStatus:
    """Whether a backend can be asked, and if not, why.

    state: as in PluginRecord; "absent" where no plugin is known to offer it.
    plugin: name of the plugin that offers it, or None.  info: its description, or None.
    exception: the one behind the state, or None.
    """

    __slots__ = ("exception", "info", "name", "plugin", "reason", "remedy", "state")

    def __init__(
        self,
        name: str,
        state: str,
        reason: str = "",
        remedy: str = "",
        *,
        plugin: str | None = None,
        info: BackendInfo | None = None,
        exception: BaseException | None = None,
    ) -> None:
        self.name = name
        self.state = state
        self.reason = reason
        self.remedy = remedy
        self.plugin = plugin
        self.info = info
        self.exception = exception

    @property
    def usable(self) -> bool:
        """Whether the backend can be asked."""
        return self.state in (USABLE, EXPERIMENTAL)

    def __repr__(self) -> str:
        return f"BackendStatus({self.name!r}, {self.state}{': ' + self.reason if self.reason else ''})"


class Registry:
    """Look-ups over the usable plugins; made by discovery, never changed but for its own caches.

    loaded: the usable plugins, without conflicts.  records: all plugins, usable or not.
    """

    def __init__(self, generation: int, loaded: Sequence[Loaded], records: Iterable[PluginRecord]) -> None:
        self.generation = generation
        self.records = tuple(sorted(records, key=lambda record: (record.name, record.distribution)))
        self._loaded = tuple(loaded)
        self._infos: dict[str, BackendInfo] = {}
        self._owners: dict[str, Loaded] = {}
        self._implementations: dict[tuple[str, str], tuple[Implementation, ...]] = {}
        self._families: dict[str, tuple[Provider, ...]] = {}
        self._array_classes: dict[str, ArrayClassEntry] = {}
        self._executors: dict[str, object] = {}
        self._devices: dict[str, tuple[str, ...]] = {}
        self._statuses: dict[str, BackendStatus] = {}
        self._type_configs = dict(STANDARD)
        for plugin in self._loaded:
            self._add(plugin)

    def _add(self, plugin: Loaded) -> None:
        for info in plugin.record.declared:
            self._infos[info.name] = info
            self._owners[info.name] = plugin
            self._type_configs.update(info.declared)
        handed = plugin.registrar
        self._implementations.update((key, tuple(made)) for key, made in handed.implementations.items())
        self._families.update((backend, tuple(providers)) for backend, providers in handed.families.items())
        self._array_classes.update(handed.array_classes)
        self._executors.update(handed.native_executors)

    # Backends

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the usable backends, sorted."""
        return tuple(sorted(self._infos))

    def status(self, backend: str) -> BackendStatus:
        """Whether `backend` can be asked, and if not, why."""
        found = self._statuses.get(backend)
        if found is None:
            found = self._statuses[backend] = self._find_status(backend)
        return found

    def _find_status(self, backend: str) -> BackendStatus:
        if backend in self._infos:
            owner = self._owners[backend].record
            return BackendStatus(
                backend, owner.state, owner.reason, owner.remedy, plugin=owner.name, info=self._infos[backend]
            )
        for record in self.records:
            info = _declared(record, backend)
            if backend in record.backends or (record.info is None and record.name == backend):
                return BackendStatus(
                    backend,
                    record.state,
                    record.reason,
                    record.remedy,
                    plugin=record.name,
                    info=info,
                    exception=record.exception,
                )
        return BackendStatus(backend, ABSENT, self._why_absent(), self._absent_remedy(backend))

    def known_backends(self) -> tuple[str, ...]:
        """Names of all backends that some plugin, usable or not, is known to offer; sorted."""
        declared = {name for record in self.records for name in record.backends}
        return tuple(sorted(declared | set(self._infos)))

    def backend_info(self, backend: str) -> BackendInfo:
        """The description of a usable backend; PluginError, with the reason, for any other name."""
        info = self._infos.get(backend)
        if info is None:
            status = self.status(backend)
            raise PluginError(
                message(f"backend {backend!r}", f"{status.state}: {status.reason}", self._usable_list(), status.remedy)
            )
        return info

    def record_of(self, backend: str) -> PluginRecord:
        """The plugin that a usable backend comes from."""
        self.backend_info(backend)
        return self._owners[backend].record

    def default_backend(self) -> str | None:
        """The usable backend with the highest default priority above 0; of equals the first by name."""
        ranked = [info for info in self._infos.values() if info.default_priority > 0]
        return min(ranked, key=lambda info: (-info.default_priority, info.name)).name if ranked else None

    def _why_absent(self) -> str:
        # What a plugin that was never loaded would have offered cannot be known: it may be this backend.
        silent = [
            record for record in self.records if not record.info and not record.backends and record.state != ABSENT
        ]
        hints = listing(f"{record.title} is {record.state}: {record.reason}" for record in silent)
        return "no usable plugin offers it" + (f" ({hints})" if silent else "")

    def _absent_remedy(self, backend: str) -> str:
        # What a blocked plugin without a manifest offers cannot be known.
        blocked = [record.name for record in self.records if record.state == BLOCKED and not record.backends]
        install = how_to_install(backend, self.known_backends())
        return f"{install}, or unblock {listing(blocked)}" if blocked else install

    def _usable_list(self) -> str:
        return f"usable are {listing(self.backends)}"

    # Type configs

    def type_config(self, name: str) -> TypeConfig | None:
        """What a name means: a standard one, or one that a usable backend declares; None for any other."""
        return self._type_configs.get(name)

    def type_configs(self, info: BackendInfo) -> tuple[str, ...]:
        """Names of those that a backend offers: what it lists, and for the reference what plugins invented, too."""
        if info.name != REFERENCE:
            return info.type_configs
        return (*info.type_configs, *(name for name in self._type_configs if name not in STANDARD))

    # Devices

    def devices(self, backend: str) -> tuple[str, ...]:
        """Device ids of a usable backend, as its plugin lists them; for a host backend "0" and "" as well.

        A plugin without that hook has the devices of its backend's family, as the first other plugin there lists them.

        PluginError where the plugin fails to list them. Asked once per plugin generation.
        """
        found = self._devices.get(backend)
        if found is None:
            found = self._devices[backend] = self._list_devices(backend)
        return found

    def _list_devices(self, backend: str) -> tuple[str, ...]:
        info = self.backend_info(backend)
        family = [] if info.host else [other for other in self.backends if other != backend]
        siblings = [other for other in family if self._infos[other].device_family == info.device_family]
        answers = (self._listed_by_plugin(name) for name in (backend, *siblings))
        listed = next((answer for answer in answers if answer is not None), ("0",))
        return tuple(dict.fromkeys((*_HOST_DEVICE_IDS, *listed))) if info.host else listed

    def _listed_by_plugin(self, backend: str) -> tuple[str, ...] | None:
        """What the plugin of a backend lists; None where it has no such hook, or nothing to say of this backend."""
        owner = self._owners[backend]
        try:
            answer = owner.hooks.call("atled_devices", backend=backend)
            listed = () if answer is None else tuple(answer)
            if not all(isinstance(device, str) for device in listed):
                raise TypeError(f"atled_devices gave {answer!r} instead of a list of strings")
        except Exception as error:  # third-party code: any exception is reported as its failure
            if is_of_a_handler(error):
                raise
            raise PluginError(
                message(
                    f"devices of backend {backend!r}",
                    f"{owner.record.title} failed to list them: {in_words(error)}",
                    "",
                    "mend the plugin or its driver, then call reload_plugins()",
                )
            ) from error
        return None if answer is None else listed

    def warmings(self, backend: str, type_config: str) -> tuple[Warming, ...]:
        """What the plugin of a usable backend offers to prepare for a type config; what it raises passes through."""
        self.backend_info(backend)
        offered = self._owners[backend].hooks.call("atled_warm", backend=backend, type_config=type_config)
        return () if offered is None else tuple(offered)

    def facts(self, plugin: str) -> Mapping[str, str]:
        """What a usable plugin says of itself for people; what it raises passes through."""
        for loaded in self._loaded:
            if loaded.record.name == plugin:
                return dict(loaded.hooks.call("atled_facts") or {})
        return {}

    # Implementations

    def implementations(self, op: str, backend: str) -> tuple[Implementation, ...]:
        """All implementations of (op, backend): those handed over, else what the backend's families give.

        An exception of a family's provider passes through.
        """
        found = self._implementations.get((op, backend))
        if found is None:
            found = tuple(made for provider in self._families.get(backend, ()) if (made := provider(op)) is not None)
            self._implementations[op, backend] = found
        return found

    def native_executor(self, backend: str) -> object | None:
        """What runs native steps of a usable backend; None where its plugin brought nothing."""
        found = self._executors.get(backend)
        if found is None:
            self.backend_info(backend)
        return found

    def native_executors(self) -> tuple[object, ...]:
        """What usable plugins brought to run native steps, in the order of their backends' names."""
        return tuple(self._executors[backend] for backend in sorted(self._executors))

    # Array classes

    def array_class(self, name: str) -> object:
        """The array class registered as `name`; PluginError with the nearest name where there is none."""
        entry = self._array_classes.get(name)
        if entry is None:
            known = sorted(self._array_classes)
            raise PluginError(
                message(
                    f"array class {name!r}",
                    "no usable plugin brings it",
                    f"known are {listing(known)}",
                    did_you_mean(name, known, "use one of those, or install the plugin that brings it"),
                )
            )
        return entry.array_class

    def array_class_names(self, backend: str) -> tuple[str, ...]:
        """Names of the array classes that a usable backend works on, its default first.

        They are those registered for backends of the same device family. The default is the first that the
        backend declares, else the one marked as default for it, else for a sibling.
        """
        info = self.backend_info(backend)
        family = [
            entry
            for entry in self._array_classes.values()
            if self._infos[entry.backend].device_family == info.device_family
        ]

        def order(entry: ArrayClassEntry) -> tuple[int, bool, bool, str]:
            declared = info.array_classes
            place = declared.index(entry.name) if entry.name in declared else len(declared)
            return (place, not (entry.default and entry.backend == backend), not entry.default, entry.name)

        return tuple(entry.name for entry in sorted(family, key=order))

    # Extensions and observers

    @property
    def extension_names(self) -> tuple[str, ...]:
        """Names that `get_extension_context` knows, sorted."""
        return tuple(sorted({name for plugin in self._loaded for name in _extensions(plugin.record)}))

    def extensions(self, name: str) -> tuple[Loaded, ...]:
        """The usable plugins with a preset of that name; more than one is ambiguous."""
        return tuple(plugin for plugin in self._loaded if name in _extensions(plugin.record))

    def observers(self) -> tuple[Loaded, ...]:
        """The usable plugins with the hook `atled_observe`, which gets fallbacks."""
        return tuple(plugin for plugin in self._loaded if plugin.hooks.has("atled_observe"))


def _declared(record: PluginRecord, backend: str) -> BackendInfo | None:
    return next((info for info in record.declared if info.name == backend), None)


def _extensions(record: PluginRecord) -> tuple[str, ...]:
    return record.info.extension_names if record.info is not None else ()
