"""Entry points as they would be found if distributions with these plugins were installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from atled_contexts import entry_points


def installed(objects: Mapping[str, object]) -> tuple[entry_points.InstalledPlugin, ...]:
    """One entry point for each name, sorted; an exception is raised when that plugin is imported."""

    def loader(plugin: object) -> Callable[[], object]:
        def load() -> object:
            if isinstance(plugin, BaseException):
                raise plugin
            return plugin

        return load

    return tuple(
        entry_points.InstalledPlugin(name, f"atled-{name}", "0.1", loader(plugin))
        for name, plugin in sorted(objects.items())
    )
