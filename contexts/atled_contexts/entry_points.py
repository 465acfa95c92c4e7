"""The installed plugins, and versions, as `importlib.metadata` lists them.

The only module that imports it, and only where the folders on the path do not tell (`metadata_folders`). A test
replaces `installed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from atled_contexts import metadata_folders

GROUP = "atled.plugins"


class InstalledPlugin:
    """One entry point: its name, its distribution with version, its module, and how to load its object."""

    __slots__ = ("distribution", "load", "module", "name", "version")

    def __init__(
        self, name: str, distribution: str, version: str, load: Callable[[], object], module: str = ""
    ) -> None:
        self.name = name
        self.distribution = distribution
        self.version = version
        self.load = load
        self.module = module


def installed() -> tuple[InstalledPlugin, ...]:
    """All entry points of the group, sorted by name, then distribution; loads none."""
    quick = metadata_folders.entry_points(GROUP)
    if quick is not None:
        found = [InstalledPlugin(each.name, each.distribution, each.version, each.load, each.module) for each in quick]
    else:
        import importlib.metadata  # lazy, for the import cost, as below

        found = [
            InstalledPlugin(
                entry.name,
                entry.dist.name if entry.dist is not None else "",
                entry.dist.version if entry.dist is not None else "",
                entry.load,
                entry.module,
            )
            for entry in importlib.metadata.entry_points(group=GROUP)
        ]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def requirements_of(distribution: str) -> tuple[str, ...]:
    """Names of the distributions that an installed one needs, extras left out; sorted."""
    import importlib.metadata

    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    needed = [line for line in lines if "extra ==" not in line]
    return tuple(sorted({re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0] for line in needed}))


def version_of(distribution: str) -> str:
    """The version of an installed distribution; "(not installed)" for a source tree on the path."""
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
