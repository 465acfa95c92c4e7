"""Discovery of plugins: at first need, in order, under one lock; one that fails is set aside and harms no other."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from atled_contexts import settings
from atled_contexts.errors import PluginError, SettingError, did_you_mean, in_words, listing, message
from atled_contexts.forks import lock_across_forks
from atled_contexts.package_files import CONFORMANCE, MANIFEST, read_package_file
from atled_contexts.plugin import API_VERSION, HOST_FAMILY, PluginInfo, Unusable, Usable, api_number
from atled_contexts.record import (
    ABSENT,
    BLOCKED,
    BUILT_IN,
    EXPERIMENTAL,
    INCOMPATIBLE,
    INSTALLED,
    REGISTERED,
    UNUSABLE,
    USABLE,
    PluginRecord,
)
from atled_contexts.registrar import Registrar
from atled_contexts.registry import Loaded, Registry
from atled_contexts.signals import is_of_a_handler
from atled_contexts.surroundings import change_everywhere
from atled_contexts.type_configs import TypeConfig
from atled_contexts.verification import verify_by_setting

if TYPE_CHECKING:
    from atled_contexts.hooks import PluginHooks

CORE_DISTRIBUTION = "atled"

_listeners: list[Callable[[], object]] = []

# Why an object is no array class, "" where it is one; from the core. None: without the core there are no arrays.
_why_no_array_class: Callable[[object], str] | None = None

# Numbers are never used twice in a process, so that no cache can mistake one set of plugins for another.
_generations = itertools.count(1)


class _Source:
    """Where a plugin object comes from."""

    __slots__ = ("distribution", "kind", "load", "module", "name", "version")

    def __init__(
        self,
        name: str,
        kind: str,
        load: Callable[[], object],
        distribution: str = "",
        version: str = "",
        module: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.load = load
        self.distribution = distribution
        self.version = version
        self.module = module


class _Refusal(Exception):
    """Ends the examination of one plugin with a state other than usable."""

    def __init__(self, state: str, reason: str, remedy: str, cause: BaseException | None = None) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.remedy = remedy
        self.cause = cause


class Plugins:
    """All plugins of the process: what was given, what discovery made of it, and the registry of the usable ones.

    generation: changes whenever what `registry()` would give changes; reading it takes no lock.
    """

    def __init__(self) -> None:
        self.generation = next(_generations)
        self._lock = lock_across_forks()
        self._given: dict[str, _Source] = {}
        self._installed: tuple[_Source, ...] | None = None
        self._examined: dict[_Source, PluginRecord | Loaded] = {}
        self._registry: Registry | None = None
        self._discovering = 0  # ident of the thread that discovers; a forked child does not have that thread

    def add(self, name: str, kind: str, load: Callable[[], object]) -> None:
        """Give a plugin that is not found through an entry point."""
        with self._lock:
            if name in self._given:
                raise PluginError(
                    message(
                        f"plugin {name!r}",
                        f"the name is taken by a plugin that is {self._given[name].kind}",
                        "",
                        "choose another name, or unregister_plugin(name) the one that is registered",
                    )
                )
            self._given[name] = _Source(name, kind, load)
            self._changed()

    def remove(self, name: str) -> None:
        """Take a registered plugin back, with all that it brought."""
        with self._lock:
            registered = [source.name for source in self._given.values() if source.kind == REGISTERED]
            if name not in registered:
                raise PluginError(
                    message(
                        f"unregister_plugin({name!r})",
                        "no plugin was registered under that name",
                        f"registered are {listing(sorted(registered))}",
                        did_you_mean(name, registered, "installed plugins are blocked by ATLED_PLUGINS_BLOCK instead"),
                    )
                )
            self._examined.pop(self._given.pop(name), None)
            self._changed()

    def reload(self) -> None:
        """Forget plugins and settings; the next access examines all of them again."""
        with self._lock:
            self._installed = None
            self._examined.clear()
            settings.forget_settings()
            self._changed()

    def set_aside(self, name: str, what: str, error: BaseException) -> bool:
        """Make a usable plugin unusable, until `reload`, since it failed when it was needed; the built-in one stays.

        what: what it was doing and how it failed, in words.  error: the exception.
        Returns whether it is unusable now.
        """
        with self._lock:
            for source, outcome in self._examined.items():
                if source.name != name or source.kind == BUILT_IN or not isinstance(outcome, Loaded):
                    continue
                self._examined[source] = outcome.record.refused(what, _mend(source, outcome.record.info), error)
                self._changed()
            return any(source.name == name and source.kind != BUILT_IN for source in self._examined)

    def registry(self) -> Registry:
        """The registry of the present generation; the first call discovers."""
        present = self._registry
        return present if present is not None else self._discover()

    def handed(self, name: str) -> tuple[PluginInfo, Registrar, str]:
        """What a plugin says of itself and hands over, whether or not it can work here, and its module."""
        with self._lock:
            if self._installed is None:
                self._installed = _list_installed()
            sources = {source.name: source for source in (*self._installed, *self._given.values())}
        source = sources.get(name)
        if source is None:
            raise PluginError(
                message(
                    f"plugin {name!r}",
                    "there is none of that name",
                    f"known are {listing(sorted(sources))}",
                    did_you_mean(name, sources, "install it, or call register_plugin"),
                )
            )
        from atled_contexts.hooks import PluginHooks  # lazy: see `_examine`

        hooks = PluginHooks(name, source.load())
        info = _ask_info(hooks)
        registrar = Registrar(info)
        hooks.call("atled_register", registrar=registrar)
        return info, registrar, source.module

    def _changed(self) -> None:
        self._registry = None
        self.generation = next(_generations)
        change_everywhere()
        for listener in _listeners:
            listener()

    def _discover(self) -> Registry:
        with self._lock:
            if self._registry is not None:  # another thread was quicker
                return self._registry
            if self._discovering == threading.get_ident():
                raise PluginError(
                    message(
                        "plugins were asked for while they are being discovered",
                        "a plugin needs a Context or another plugin to import, probe or register itself",
                        "",
                        "make the Context later: in atled_preset, or in prepare",
                    )
                )
            self._discovering = threading.get_ident()
            try:
                found = self._examine_all()
                # Importing a plugin may import the core, which adds its built-in one: then look again.
                while found.generation != self.generation:
                    found = self._examine_all()
            finally:
                self._discovering = 0
            verify_by_setting(settings.setting("ATLED_VERIFY"))
            self._registry = found
            return found

    def _examine_all(self) -> Registry:
        generation = self.generation
        if self._installed is None:
            self._installed = _list_installed()
        outcomes: list[PluginRecord | Loaded] = []
        names: set[str] = set()
        # Built-in and registered ones first: a name that the program gave is not lost to an installed plugin.
        for source in (*self._given.values(), *self._installed):
            if source.name in names:
                outcomes.append(_name_taken(source))
                continue
            names.add(source.name)
            if source not in self._examined:
                self._examined[source] = _examine(source)
            outcomes.append(self._examined[source])
        settings.check_names(complete=all(isinstance(outcome, Loaded) for outcome in outcomes))
        records = [outcome.record if isinstance(outcome, Loaded) else outcome for outcome in outcomes]
        owners = {backend: record.name for record in records for backend in record.backends}
        outcomes += _missing_names(self._installed, names, owners)
        return _merge(generation, outcomes)


def _list_installed() -> tuple[_Source, ...]:
    # Lazy: an import of the core looks for nothing.
    from atled_contexts import entry_points

    return tuple(
        _Source(entry.name, INSTALLED, entry.load, entry.distribution, entry.version, entry.module)
        for entry in entry_points.installed()
    )


def _examine(source: _Source) -> PluginRecord | Loaded:
    """Load, probe and register one plugin. What it raises, sys.exit() included, becomes the record."""
    # Lazy: pluggy is needed only once there is a plugin.
    from atled_contexts.hooks import PluginHooks

    blocked = _blocked(source)
    if blocked is not None:
        return blocked
    stage = "import"
    info: PluginInfo | None = None
    try:
        plugin = source.load()
        stage = "reading of its hooks"
        hooks = PluginHooks(source.name, plugin)
        stage = "atled_info"
        info = _ask_info(hooks)
        _check_api(source, info)
        hooks.check()
        stage = "atled_probe"
        _probe(hooks)
        stage = "atled_register"
        registrar = Registrar(info)
        hooks.call("atled_register", registrar=registrar)
    except _Refusal as refusal:
        return _record(
            source, info, refusal.state, reason=refusal.reason, remedy=refusal.remedy, exception=refusal.cause
        )
    except (Exception, SystemExit) as error:  # a broken plugin never takes another one down, nor the program
        if stage == "atled_probe" and isinstance(error, SettingError):
            raise  # nothing is broken: the user has set something to be corrected
        if is_of_a_handler(error):
            raise
        skew = _manifest_refusal(source) if info is None else None
        if skew is not None:  # the likelier reason for the failure
            return _record(source, None, skew.state, reason=skew.reason, remedy=skew.remedy, exception=error)
        remedy = _mend(source, info)
        return _record(
            source, info, UNUSABLE, reason=f"its {stage} failed: {in_words(error)}", remedy=remedy, exception=error
        )
    state, reason, remedy = _standing(source, info)
    return Loaded(_record(source, info, state, reason=reason, remedy=remedy), hooks, registrar)


def _standing(source: _Source, info: PluginInfo) -> tuple[str, str, str]:
    """State, reason and remedy of a plugin that works: usable, or experimental while nothing proves it right."""
    if source.kind != INSTALLED:  # a program vouches for its own; the built-in one is the measure of the others
        return USABLE, "", ""
    remedy = f"pytest --pyargs atled.conformance --atled-plugin {source.name}"
    try:
        report = read_package_file(source.module, CONFORMANCE)
    except PluginError as error:
        return EXPERIMENTAL, f"its conformance report cannot be read: {error}", remedy
    if report is None:
        return EXPERIMENTAL, "it has no conformance report", remedy
    if report.get("version") != info.version:
        return EXPERIMENTAL, f"its conformance report is of version {report.get('version')}", remedy
    if report.get("failed") != 0:
        return EXPERIMENTAL, f"its conformance report counts {report.get('failed')} failures", remedy
    if report.get("complete") is False:
        return EXPERIMENTAL, "its conformance report is of a part of the kit", remedy
    return USABLE, "", ""


def _manifest_refusal(source: _Source) -> _Refusal | None:
    """Why a plugin that does not load is incompatible, as far as its manifest tells; else None."""
    try:
        manifest = read_package_file(source.module, MANIFEST) or {}
        return _api_refusal(source.distribution, source.version, manifest.get("api_version", API_VERSION))
    except (PluginError, ValueError):  # the manifest is broken as well: the failure itself is reported
        return None


def _record(
    source: _Source,
    info: PluginInfo | None,
    state: str,
    *,
    reason: str = "",
    remedy: str = "",
    exception: BaseException | None = None,
) -> PluginRecord:
    return PluginRecord(
        source.name,
        source.kind,
        state,
        reason=reason,
        remedy=remedy,
        exception=exception,
        info=info,
        distribution=_distribution(source, info),
        version=info.version if info else source.version,
        module=source.module,
    )


def _distribution(source: _Source, info: PluginInfo | None) -> str:
    """The one that is installed, which pip knows, else the one that the plugin names."""
    return source.distribution or (info.distribution if info else "")


def _mend(source: _Source, info: PluginInfo | None) -> str:
    distribution = _distribution(source, info)
    if not distribution:
        return "mend the plugin object"
    return f"pip install --upgrade {distribution}, or set ATLED_PLUGINS_BLOCK={source.name}"


# The two settings govern installed plugins, not those that the program registers itself.
def _blocked(source: _Source) -> PluginRecord | None:
    if source.kind != INSTALLED:
        return None
    only = settings.setting("ATLED_PLUGINS_ONLY")
    if _is_among(source, settings.setting("ATLED_PLUGINS_BLOCK")):
        reason, remedy = "ATLED_PLUGINS_BLOCK names it", f"take {source.name} out of ATLED_PLUGINS_BLOCK"
    elif only and not _is_among(source, only):
        reason, remedy = "ATLED_PLUGINS_ONLY does not name it", f"add {source.name} to ATLED_PLUGINS_ONLY"
    else:
        return None
    return _record(source, None, BLOCKED, reason=reason, remedy=remedy)


def _is_among(source: _Source, names: Iterable[str]) -> bool:
    own = {_normal(source.name), _normal(source.distribution)}
    return any(_normal(name) in own for name in names)


def _normal(name: str) -> str:
    # As pip compares names: atled_sim, atled-sim and Atled.Sim are one.
    return name.lower().replace("_", "-").replace(".", "-")


def _missing_names(installed: Iterable[_Source], taken: Iterable[str], owners: Mapping[str, str]) -> list[PluginRecord]:
    """A record for every name in the two settings that is not installed, so that a misspelled one shows.

    taken: names that have a record.  owners: the plugin of each backend, whose name is easily written instead.
    """
    sources = tuple(installed)
    names = [source.name for source in sources]
    missing: dict[str, PluginRecord] = {}
    for variable, verb in (("ATLED_PLUGINS_ONLY", "install it"), ("ATLED_PLUGINS_BLOCK", "leave it as it is")):
        for name in settings.setting(variable):
            if name in taken or any(_is_among(source, (name,)) for source in sources):
                continue
            reason = f"{variable} names it, but it is not installed"
            remedy = did_you_mean(name, names, f"{verb}, or take {name} out of {variable}")
            if name in owners:
                reason = f"{variable} names it, but that is a backend and no plugin"
                remedy = f"write {owners[name]}, the plugin that brings it"
            missing.setdefault(name, PluginRecord(name, INSTALLED, ABSENT, reason=reason, remedy=remedy))
    return list(missing.values())


def _name_taken(source: _Source) -> PluginRecord:
    reason = f"another plugin is named {source.name!r} already"
    remedy = f"pip uninstall {source.distribution}, or the other one" if source.distribution else "rename one"
    return _record(source, None, UNUSABLE, reason=reason, remedy=remedy)


def _ask_info(hooks: PluginHooks) -> PluginInfo:
    if not hooks.has("atled_info"):
        raise TypeError("what the entry point names has no hook atled_info; hooks are marked by @hookimpl")
    info = hooks.call("atled_info")
    if not isinstance(info, PluginInfo):
        raise TypeError(f"atled_info gave {info!r} instead of a PluginInfo")
    return info


def _check_api(source: _Source, info: PluginInfo) -> None:
    refusal = _api_refusal(_distribution(source, info), info.version, info.api_version)
    if refusal is not None:
        raise refusal


def _api_refusal(distribution: str, version: str, api_version: object) -> _Refusal | None:
    """The refusal of a plugin that is written for another plugin API; None where it fits."""
    wanted, offered = api_number(api_version), api_number(API_VERSION)
    # A higher minor version may rely on what this one lacks; a lower one finds all it knows.
    if wanted[0] == offered[0] and wanted[1] <= offered[1]:
        return None
    from atled_contexts import entry_points  # lazy, for the import cost; loaded by now in any case

    core = f"{CORE_DISTRIBUTION} {entry_points.version_of(CORE_DISTRIBUTION)}"
    older = distribution if wanted < offered else CORE_DISTRIBUTION
    return _Refusal(
        INCOMPATIBLE,
        f"{distribution} {version} is written for plugin API {api_version}, {core} offers plugin API {API_VERSION}",
        f"pip install --upgrade {older}",
    )


def _probe(hooks: PluginHooks) -> None:
    answer = hooks.call("atled_probe")
    if isinstance(answer, Unusable):
        raise _Refusal(UNUSABLE, answer.reason, answer.remedy, answer.cause)
    if answer is not None and not isinstance(answer, Usable):
        raise TypeError(f"atled_probe gave {answer!r} instead of Usable() or Unusable(reason, remedy)")


def _merge(generation: int, outcomes: Iterable[PluginRecord | Loaded]) -> Registry:
    """The registry of the plugins that are usable and claim nothing that another one claims."""
    loaded = [outcome for outcome in outcomes if isinstance(outcome, Loaded)]
    records = [outcome for outcome in outcomes if isinstance(outcome, PluginRecord)]
    refused = {**_differing_types(loaded), **_conflicts(loaded)}
    kept = [plugin for plugin in loaded if plugin not in refused]
    # Again, since what was refused may have brought the arrays of another one.
    while homeless := _without_arrays(kept, [*records, *refused.values()]):
        refused.update(homeless)
        kept = [plugin for plugin in kept if plugin not in homeless]
    return Registry(generation, kept, [*records, *refused.values(), *(plugin.record for plugin in kept)])


def _conflicts(loaded: list[Loaded]) -> dict[Loaded, PluginRecord]:
    """The plugins that claim the same name; a built-in one keeps what it claims."""
    claims: dict[tuple[str, str], list[Loaded]] = {}
    for plugin in loaded:
        for claim in _claims(plugin):
            claims.setdefault(claim, []).append(plugin)
    refused: dict[Loaded, PluginRecord] = {}
    for (kind, name), claimants in claims.items():
        losers = [plugin for plugin in claimants if plugin.record.source != BUILT_IN]
        if len(claimants) < 2:
            continue
        titles = " and ".join(plugin.record.title for plugin in claimants)
        for plugin in losers:
            refused.setdefault(
                plugin,
                plugin.record.refused(
                    f"{kind} {name!r} is claimed by {titles}",
                    f"pip uninstall {plugin.record.distribution or plugin.record.name}, or another of them; "
                    f"or set ATLED_PLUGINS_BLOCK={plugin.record.name}",
                ),
            )
    return refused


def _differing_types(loaded: list[Loaded]) -> dict[Loaded, PluginRecord]:
    """The plugins that declare a type config with other dtypes than another one: a name means the same everywhere."""
    meanings: dict[str, dict[TypeConfig, list[Loaded]]] = {}
    for plugin in loaded:
        for info in plugin.record.declared:
            for name, config in info.declared.items():
                meanings.setdefault(name, {}).setdefault(config, []).append(plugin)
    return {
        plugin: plugin.record.refused(
            f"type config {name!r} is declared with other dtypes by another plugin: {listing(map(repr, declared))}",
            f"give it another name, or set ATLED_PLUGINS_BLOCK={plugin.record.name}",
        )
        for name, declared in meanings.items()
        if len(declared) > 1
        for claimants in declared.values()
        for plugin in claimants
    }


def _claims(plugin: Loaded) -> list[tuple[str, str]]:
    backends = [("backend", info.name) for info in plugin.record.declared]
    return backends + [("array class", name) for name in plugin.registrar.array_classes]


def _without_arrays(loaded: list[Loaded], unusable: list[PluginRecord]) -> dict[Loaded, PluginRecord]:
    """The plugins with a device backend whose device has no array class, or with an array class that is none.

    unusable: the plugins that are, one of which may be the reason.
    """
    refused: dict[Loaded, PluginRecord] = {}
    if _why_no_array_class is None:
        return refused
    families = {info.name: info.device_family for plugin in loaded for info in plugin.record.declared}
    served = {families[entry.backend] for plugin in loaded for entry in plugin.registrar.array_classes.values()}
    for plugin in loaded:
        for info in plugin.record.declared:
            if not info.host and info.device_family not in served:
                sibling = _of_family(unusable, info.device_family)
                if sibling is not None:
                    reason = f"plugin {sibling.name!r}, which brings its arrays, is {sibling.state}: {sibling.reason}"
                    refused.setdefault(plugin, plugin.record.refused(reason, sibling.remedy))
                    continue
                reason = f"backend {info.name!r} computes on a device, and no array class is registered for it"
                refused.setdefault(plugin, _refused_arrays(plugin, reason, info.name))
        for entry in plugin.registrar.array_classes.values():
            wrong = "" if families[entry.backend] == HOST_FAMILY else _why_no_array_class(entry.array_class)
            if wrong:
                reason = f"what it registers as array class {entry.name!r} is none: {wrong}"
                refused.setdefault(plugin, _refused_arrays(plugin, reason, entry.backend))
    return refused


def _of_family(records: list[PluginRecord], family: str) -> PluginRecord | None:
    """The first of the plugins that has a backend of a device family."""
    return next((one for one in records if any(info.device_family == family for info in one.declared)), None)


def _refused_arrays(plugin: Loaded, reason: str, backend: str) -> PluginRecord:
    remedy = f"in atled_register: registrar.array_class(name, an instance of a subclass of ArrayClass, {backend!r})"
    name = plugin.record.name
    return plugin.record.refused(reason, f"mend the plugin ({remedy}), or set ATLED_PLUGINS_BLOCK={name}")


current = Plugins()


def plugins() -> tuple[PluginRecord, ...]:
    """Every plugin with its state, sorted by name; the first call discovers."""
    return current.registry().records


def plugin_generation() -> int:
    """A number that changes whenever plugins come, go or are reloaded; discovers nothing."""
    return current.generation


def when_plugins_change(listener: Callable[[], object]) -> None:
    """Call `listener()` whenever `plugin_generation()` has changed: for caches of what follows from decisions.

    For the life of the process, in the thread that makes the change; the listener must not ask for plugins.
    """
    _listeners.append(listener)


def check_array_classes(why_not: Callable[[object], str]) -> None:
    """Have plugins of devices refused whose array class is none, for the reason that `why_not(array_class)` gives.

    "" means that it is one. To be called once, before the first discovery.
    """
    global _why_no_array_class
    _why_no_array_class = why_not


def add_builtin(name: str, factory: Callable[[], object]) -> None:
    """Give a plugin that is always there; `factory()` makes its object at discovery. No setting blocks it."""
    current.add(name, BUILT_IN, factory)


def register_plugin(name: str, plugin: object) -> None:
    """Give a plugin object without an entry point, for tests and programs.

    PluginError: the name is taken. A plugin that does not work shows in `plugins()`.
    """
    current.add(name, REGISTERED, lambda: plugin)


def unregister_plugin(name: str) -> None:
    """Take back what `register_plugin` gave, with everything it brought."""
    current.remove(name)


def reload_plugins() -> None:
    """Forget what discovery found; the next access lists, probes and registers everything again."""
    current.reload()


def handed_over(name: str) -> tuple[PluginInfo, Registrar, str]:
    """What a plugin says of itself and hands over, whether or not it can work here, and the module it is in.

    For pages and manifests: nothing is registered. PluginError: no plugin has that name; what it raises passes through.
    """
    return current.handed(name)


def registry() -> Registry:
    """The look-ups over all usable plugins; the first call discovers."""
    return current.registry()
