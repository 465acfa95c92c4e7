"""The installed plugins as `importlib.metadata` lists them.

The only module that imports it: a test replaces `installed`, and choosing the backport is one line. The package
loads it at first need.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable

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
    found = [_plugin_of(entry) for entry in importlib.metadata.entry_points(group=GROUP)]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def _plugin_of(entry: importlib.metadata.EntryPoint) -> InstalledPlugin:
    name = version = ""
    if entry.dist is not None:
        metadata = entry.dist.metadata  # read once: a distribution's name and version read all of it, each anew
        name, version = metadata["Name"], metadata["Version"]
    return InstalledPlugin(entry.name, name, version, entry.load, entry.module)


def requirements_of(distribution: str) -> tuple[str, ...]:
    """Names of the distributions that an installed one needs, extras left out; sorted."""
    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    needed = [line for line in lines if "extra ==" not in line]
    return tuple(sorted({re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0] for line in needed}))


def version_of(distribution: str) -> str:
    """The version of an installed distribution; "(not installed)" for a source tree on the path."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
