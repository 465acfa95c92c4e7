"""The look-ups of the core over all usable plugins, as plain functions."""

from __future__ import annotations

from collections.abc import Mapping

from atled_contexts import discovery
from atled_contexts.plugin import BackendInfo, Warming
from atled_contexts.registrar import Implementation
from atled_contexts.registry import BackendStatus
from atled_contexts.type_configs import TypeConfig


def implementations(op: str, backend: str) -> tuple[Implementation, ...]:
    """All implementations of an op in one backend; empty where there is none."""
    return discovery.registry().implementations(op, backend)


def array_class(name: str) -> object:
    """The array class registered as `name`; PluginError with the nearest name where there is none."""
    return discovery.registry().array_class(name)


def array_class_names(backend: str) -> tuple[str, ...]:
    """Names of the array classes that a usable backend works on, its default first."""
    return discovery.registry().array_class_names(backend)


def backend_info(name: str) -> BackendInfo:
    """The description of a usable backend; PluginError, with the reason, for any other name."""
    return discovery.registry().backend_info(name)


def backend_status(name: str) -> BackendStatus:
    """Whether a backend of that name can be asked, and if not, why and what to do."""
    return discovery.registry().status(name)


def type_config(name: str) -> TypeConfig | None:
    """What the name of a type config means: a standard one, or one that a usable backend declares; None for others."""
    return discovery.registry().type_config(name)


def native_executor(backend: str) -> object | None:
    """What runs native steps of a usable backend; None where its plugin brought nothing."""
    return discovery.registry().native_executor(backend)


def native_executors() -> tuple[object, ...]:
    """What usable plugins brought to run native steps, in the order of their backends' names."""
    return discovery.registry().native_executors()


def backends() -> tuple[str, ...]:
    """Names of the usable backends, sorted."""
    return discovery.registry().backends


def devices(backend: str) -> tuple[str, ...]:
    """Device ids of a usable backend, best known first; PluginError where its plugin fails to list them."""
    return discovery.registry().devices(backend)


def warmings(backend: str, type_config: str) -> tuple[Warming, ...]:
    """What a usable backend's plugin offers to prepare before an op is called; PluginError for any other name."""
    return discovery.registry().warmings(backend, type_config)


def plugin_facts(name: str) -> Mapping[str, str]:
    """What a plugin says of itself for people (`atled_facts`); empty for one that is not usable or says nothing."""
    return discovery.registry().facts(name)


def extension_names() -> tuple[str, ...]:
    """Names that `get_extension_context` knows, sorted."""
    return discovery.registry().extension_names
