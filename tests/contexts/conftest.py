"""A process without plugins for each test, with fake ones to put into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from atled_contexts import (
    BackendInfo,
    Context,
    add_builtin,
    clear_selection_cache,
    discovery,
    entry_points,
    register_plugin,
    reset_fallback_counts,
    scopes,
    settings,
)

sys.path.append(os.path.dirname(__file__))  # for fake_plugins: pytest's importlib mode leaves this folder off the path

from fake_installed import installed
from fake_plugins import FakePlugin, nothing


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch):
    """A fresh process, as far as this package goes: no plugin, no setting, no cache, no count."""
    for name in [name for name in os.environ if name.startswith("ATLED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(discovery, "current", discovery.Plugins())
    monkeypatch.setattr(discovery, "_why_no_array_class", None)
    monkeypatch.setattr(entry_points, "installed", lambda: ())
    monkeypatch.setattr(settings, "_declared", dict(settings._declared))
    monkeypatch.setattr(settings, "_values", {})
    monkeypatch.setattr(scopes, "_default", scopes._Default())
    clear_selection_cache()
    reset_fallback_counts()
    yield
    clear_selection_cache()
    reset_fallback_counts()


@pytest.fixture
def install(monkeypatch) -> Callable[..., None]:
    """Install fake entry points: `install(name=plugin)`, or an exception to raise when it is imported."""

    def put(**plugins: object) -> None:
        found = installed(plugins)
        monkeypatch.setattr(entry_points, "installed", lambda: found)
        discovery.reload_plugins()

    return put


@pytest.fixture
def reference():
    """The built-in plugin as the core brings it: NumPy arrays, computes `Foo` and `Bar`."""

    def register(registrar):
        registrar.array_class("CpuCachedArray", "the cached array", "reference", default=True)
        registrar.array_class("CpuArray", "the plain array", "reference")
        for op in ("Foo", "Bar"):
            registrar.implementation(op, "reference", nothing, note="NumPy reference")

    info = BackendInfo("reference", ("float", "half", "double"), 1, True)
    plugin = FakePlugin("reference", (info,), register=register)
    add_builtin("reference", lambda: plugin)
    return plugin


@pytest.fixture
def host(reference):
    """`reference` and a host plugin with backend `fast`, the default; `accepts` of `Foo` can be changed by the test."""
    answers = SimpleNamespace(foo=True, asked=0)

    def accepts(call):
        answers.asked += 1
        return answers.foo(call) if callable(answers.foo) else answers.foo

    def register(registrar):
        registrar.implementation("Foo", "fast", nothing, accepts=accepts, note="tiled")

    def preset(name, type_config, device_id, options):
        return Context(f"fast:{type_config}", options.get("array_class", ""), device_id)

    info = BackendInfo("fast", ("float", "double"), 10, True)
    register_plugin("fast", FakePlugin("fast", (info,), register=register, extension_names=("fast",), preset=preset))
    return answers


@pytest.fixture
def device(host):
    """`host`, and a plugin of a device "gpu" with backends `gpu` and, for the same device, `gpulib`."""
    answers = SimpleNamespace(foo=True, lib=True)

    def register(registrar):
        registrar.array_class("GpuArray", "the device array", "gpu", default=True)
        registrar.implementation("Foo", "gpu", nothing, accepts=lambda call: answers.foo, note="kernel")
        registrar.implementation("Foo", "gpulib", nothing, accepts=lambda call: answers.lib)

    infos = (
        BackendInfo("gpu", ("float", "half"), 0, device_family="gpu"),
        BackendInfo("gpulib", ("float", "half", "bf16"), 0, device_family="gpu"),
    )
    register_plugin("gpu", FakePlugin("gpu", infos, register=register, devices=["0", "1"]))
    return answers
