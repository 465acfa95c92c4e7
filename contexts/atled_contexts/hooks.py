"""The hooks that a plugin may implement, as pluggy specifications.

This is the only module that imports pluggy; the package loads it at first need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from atled_contexts.context import Context
    from atled_contexts.plugin import FallbackEvent, PluginInfo, Unusable, Usable, Warming
    from atled_contexts.registrar import Registrar

PROJECT = "atled"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class HookSpecs:
    """One method per hook; all but `atled_info` are optional.

    Called during discovery, in this order: info, probe, register. They must not make a Context. A SettingError that
    probe raises is the program's: a setting of the plugin's is wrong, and it is not set aside for that.
    """

    @hookspec(firstresult=True)
    def atled_info(self) -> PluginInfo:  # type: ignore[empty-body]  # a specification has no body
        """Who the plugin is and which backends it brings; quick, imports no device library."""

    @hookspec(firstresult=True)
    def atled_probe(self) -> Usable | Unusable:  # type: ignore[empty-body]  # a specification has no body
        """Whether it can work on this machine; without this hook it is taken to be usable."""

    @hookspec
    def atled_register(self, registrar: Registrar) -> None:
        """Hand over implementations, array classes and what else the plugin brings; builds nothing yet."""

    @hookspec(firstresult=True)
    def atled_devices(self, backend: str) -> list[str]:  # type: ignore[empty-body]  # a specification has no body
        """The device ids of a backend; without this hook those of another plugin for its family, else `["0"]`."""

    @hookspec(firstresult=True)
    def atled_facts(self) -> Mapping[str, str]:  # type: ignore[empty-body]  # a specification has no body
        """What `python -m atled doctor` shows of it besides: {"compiles for": "haswell (ATLED_CPU)"}."""

    @hookspec(firstresult=True)
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """The Context that `get_extension_context(name, ...)` gives; None if the name is not the plugin's.

        Without this hook it is the backend of that name, then the reference.
        """

    @hookspec(firstresult=True)
    def atled_warm(self, backend: str, type_config: str) -> Iterable[Warming]:  # type: ignore[empty-body]  # as above
        """What is slow to prepare and can be prepared before the first call of an op, such as kernels to compile.

        Without this hook, a warm-up only prepares the samples of the op specs. It is asked before these and behind
        them: a plugin that compiles in threads names what is underway then, and `prepare` waits for it.
        """

    @hookspec
    def atled_observe(self, event: FallbackEvent) -> None:
        """Gets every new decision that is a fallback."""


class _Manager(pluggy.PluginManager):
    """A manager that looks for no hooks among the names that every object has: they are three of four."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:  # Any: whatever pluggy's own gives
        return None if name.startswith("__") else super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:  # Any: as above
        return None if name.startswith("__") else super().parse_hookspec_opts(module_or_class, name)


class PluginHooks:
    """The hooks of one plugin, in a manager of its own, so that a call reaches no other plugin.

    plugin: a module or an instance with functions marked by `hookimpl`.
    Raises pluggy's PluginValidationError where a hook takes arguments that its specification lacks.
    """

    def __init__(self, name: str, plugin: object) -> None:
        if isinstance(plugin, type):
            raise TypeError(f"{plugin.__qualname__} is a class; let the entry point name an instance or a module")
        self._manager = _Manager(PROJECT)
        self._manager.add_hookspecs(HookSpecs)
        self._manager.register(plugin, name)

    def check(self) -> None:
        """Raise PluginValidationError for a hook whose name is not specified."""
        self._manager.check_pending()

    def has(self, hook: str) -> bool:
        """Whether the plugin implements `hook`."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    # `Any`: each hook has a type of its own; the callers check what they get.
    def call(self, hook: str, **arguments: Any) -> Any:
        """Call one hook; None where the plugin does not implement it."""
        return getattr(self._manager.hook, hook)(**arguments)
