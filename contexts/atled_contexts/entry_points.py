"""The installed plugins.

The only module that imports `importlib.metadata`, where it must: that takes 20 ms, and as long again to list what is
installed. A test replaces `installed`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import partial

from atled_contexts.distributions import declared

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
    found = _declared()
    if found is None:
        found = _listed()
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def _declared() -> list[InstalledPlugin] | None:
    """The installed plugins as their folders tell; None where these do not tell all."""
    entries = declared(GROUP)
    if entries is None:
        return None
    return [
        InstalledPlugin(
            entry.name,
            entry.distribution,
            entry.version,
            partial(_loaded, entry.value),
            entry.value.partition(":")[0].strip(),
        )
        for entry in entries
    ]


def _loaded(value: str) -> object:
    """What an entry point names: a module, or with a colon something in it."""
    module, _, path = value.partition(":")
    found: object = importlib.import_module(module.strip())
    for name in filter(None, path.strip().split(".")):
        found = getattr(found, name)
    return found


def _listed() -> list[InstalledPlugin]:
    """The installed plugins as `importlib.metadata` finds them."""
    import importlib.metadata

    found = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        name = version = ""
        if entry.dist is not None:
            metadata = entry.dist.metadata  # read once: a distribution's name and version read all of it, each anew
            name, version = metadata["Name"], metadata["Version"]
        found.append(InstalledPlugin(entry.name, name, version, entry.load, entry.module))
    return found


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
