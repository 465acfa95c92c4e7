"""Manifests: what a plugin offers, as a JSON file in its package that is read without importing it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from atled.errors import four_parts
from atled.generators.catalogue import SampleCalls, catalogue
from atled.type_configs import computable, require
from atled_contexts import (
    MANIFEST,
    Implementation,
    PluginError,
    Registrar,
    declared_settings,
    handed_over,
    package_folder,
)

FORMAT = 1
"""Version of the file's layout."""

UNNAMED = "implementation"
"""Stands for an implementation without a note."""

# Any: values of JSON, throughout this module.
Manifest = dict[str, Any]


def make_manifest(plugin: str) -> Manifest:
    """What a plugin offers, from what it registers; it need not be usable here.

    Each backend has per op the version of the op spec, and per type config the notes of the implementations that
    compute the spec's samples. An op has "partial", a list of type configs, where some of the samples are refused.
    "settings" are those that the plugin's package declares when it is imported, with their help.

    PluginError: no plugin has that name, or dtypes of its type configs cannot be had here. What the plugin raises
    passes through.
    """
    info, registrar, module = handed_over(plugin)
    for name in {name for backend in info.backends for name in backend.declared}:
        try:  # else the manifest would depend on what is installed here
            require(name, f"the manifest of plugin {plugin!r}")
        except ValueError as error:
            raise PluginError(str(error)) from error
    calls = {spec.name: SampleCalls(spec) for spec in catalogue()}
    return {
        "format": FORMAT,
        "plugin": info.name,
        "distribution": info.distribution,
        "api_version": info.api_version,
        "extension_names": sorted(info.extension_names),
        "settings": _settings(module),
        "backends": {
            backend.name: {
                "type_configs": list(backend.type_configs),
                "host": backend.host,
                "device_family": backend.device_family,
                "default_priority": backend.default_priority,
                "array_classes": list(backend.array_classes),
                "ops": _ops(registrar, backend.name, backend.type_configs, calls.values()),
            }
            for backend in sorted(info.backends, key=lambda backend: backend.name)
        },
    }


def offers_for(plugin: str, calls: SampleCalls) -> dict[str, tuple[tuple[str, ...], Manifest]]:
    """Per backend of a plugin its type configs, and what a manifest says of one op; {} where it computes no sample.

    The op need not be in the catalogue. Errors as for `make_manifest`.
    """
    info, registrar, _ = handed_over(plugin)
    return {
        backend.name: (
            tuple(backend.type_configs),
            _ops(registrar, backend.name, backend.type_configs, [calls]).get(calls.spec.name, {}),
        )
        for backend in info.backends
    }


def _settings(module: str) -> dict[str, str]:
    package = module.partition(".")[0]
    return {one.name: one.help for one in declared_settings() if package and one.package == package}


def _ops(registrar: Registrar, backend: str, type_configs: Iterable[str], calls: Iterable[SampleCalls]) -> Manifest:
    known = computable(type_configs)
    listed = {}
    for one in calls:
        entry = _entry(registrar.offered(one.spec.name, backend), one, known)
        if entry is not None:
            listed[one.spec.name] = entry
    return listed


def _entry(offered: Sequence[Implementation], calls: SampleCalls, type_configs: Sequence[str]) -> Manifest | None:
    """One op of one backend; None where the backend computes none of its samples."""
    present = [made for made in offered if made.op_version in (None, calls.spec.version)]
    entry: Manifest = {"version": calls.spec.version}
    partial = []
    for type_config in type_configs:
        notes = [taker and (taker[0].note or UNNAMED) for taker in calls.takers(present, type_config)]
        if any(notes):
            entry[type_config] = sorted({note for note in notes if note})
            if not all(notes):
                partial.append(type_config)
    if len(entry) == 1:
        return None
    return {**entry, "partial": partial} if partial else entry


def manifest_text(manifest: Manifest) -> str:
    """A manifest as the text of its file: one line per op, so that a change shows as one."""
    backends = manifest["backends"]
    shell = {**manifest, "backends": {name: {**backend, "ops": f"@{name}"} for name, backend in backends.items()}}
    text = json.dumps(shell, indent=1)
    for name, backend in backends.items():
        lines = [f"    {json.dumps(op)}: {json.dumps(entry)}" for op, entry in backend["ops"].items()]
        text = text.replace(json.dumps(f"@{name}"), "{\n" + ",\n".join(lines) + "\n   }" if lines else "{}")
    return text + "\n"


def manifest_path(plugin: str) -> Path:
    """Where the manifest of an installed plugin is; PluginError for a plugin that has no package."""
    _, _, module = handed_over(plugin)
    folder = package_folder(module)
    if folder is None:
        raise PluginError(
            four_parts(
                f"the manifest of plugin {plugin!r}",
                "it is not in an installed package",
                "",
                "give it an entry point of group 'atled.plugins' in a package",
            )
        )
    return folder / MANIFEST
