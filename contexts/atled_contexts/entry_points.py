"""The installed plugins as `importlib.metadata` lists them.

The only module that imports it: a test replaces `installed`, and choosing the backport is one line. The package
loads it at first need.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable

GROUP = "atled.plugins"


class InstalledPlugin:
    """One entry point: its name, its distribution with version, and how to load its object."""

    __slots__ = ("distribution", "load", "name", "version")

    def __init__(self, name: str, distribution: str, version: str, load: Callable[[], object]) -> None:
        self.name = name
        self.distribution = distribution
        self.version = version
        self.load = load


def installed() -> tuple[InstalledPlugin, ...]:
    """All entry points of the group, sorted by name, then distribution; loads none."""
    found = [
        InstalledPlugin(
            entry.name,
            entry.dist.name if entry.dist is not None else "",
            entry.dist.version if entry.dist is not None else "",
            entry.load,
        )
        for entry in importlib.metadata.entry_points(group=GROUP)
    ]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def version_of(distribution: str) -> str:
    """The version of an installed distribution; "(not installed)" for a source tree on the path."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
