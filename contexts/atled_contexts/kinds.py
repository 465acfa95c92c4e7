"""The best backend of a kind: what front ends ask for that speak of "the CPU" or "the GPU" and name no plugin."""

from __future__ import annotations

from typing import Any

from atled_contexts import discovery
from atled_contexts.context import Context
from atled_contexts.errors import PluginError, listing, message
from atled_contexts.extras import how_to_install
from atled_contexts.plugin import KINDS, BackendInfo
from atled_contexts.registry import Registry
from atled_contexts.scopes import get_extension_context


def best_backend(kind: str) -> str:
    """The usable backend of a kind with the highest rank; of equals the first by name.

    kind: "cpu", "gpu", "simulated" or "other".
    ValueError for any other kind. PluginError where no usable backend is of that kind, with what there is and with what
    keeps installed ones of that kind from being usable.
    """
    asked = f"the best backend of kind {kind!r}"
    if kind not in KINDS:
        raise ValueError(message(asked, "there is no such kind", f"kinds are {listing(KINDS)}", "ask for one of these"))
    registry = discovery.registry()
    found = [info for name in registry.backends if (info := registry.backend_info(name)).kind == kind]
    if not found:
        raise PluginError(message(asked, "no usable backend is of that kind", *_instead(registry, kind)))
    return _best(found).name


def best_context(kind: str, *, type_config: str = "float", device_id: str | int = "0", **options: Any) -> Context:
    """The Context of the best backend of a kind: the one that its plugin proposes, else that backend alone.

    kind: as for `best_backend`, whose errors it raises, too.  The rest: as for `get_extension_context`.
    """
    backend = best_backend(kind)
    if backend in discovery.registry().extension_names:
        return get_extension_context(backend, type_config=type_config, device_id=device_id, **options)
    return Context(f"{backend}:{type_config}", device_id=str(device_id), **options)


def _best(found: list[BackendInfo]) -> BackendInfo:
    return min(found, key=lambda info: (-info.rank, info.name))


def _instead(registry: Registry, kind: str) -> tuple[str, str]:
    """What there is, and what to do to have a backend of the kind."""
    considered = [f"{name} is {registry.backend_info(name).kind}" for name in registry.backends]
    remedies = []
    for record in registry.records:
        kinds = {info.kind for info in (record.info.backends if record.info is not None else ())}
        if kind in kinds and not record.usable:
            considered.append(f"{record.title} is {record.state}: {record.reason}")
            remedies.append(record.remedy)
    different = [remedy for remedy in dict.fromkeys(remedies) if remedy]
    otherwise = how_to_install(kind) if kind == "gpu" else "install a plugin for it"  # the family has other names
    return "; ".join(considered), f"{'; '.join(different) or otherwise}; or ask for another kind"
