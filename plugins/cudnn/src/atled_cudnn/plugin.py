"""The plugin object of backend `cudnn`: who it is, whether it can work here, what it brings. Imports no CuPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atled.plugin import API_VERSION, BackendInfo, Context, PluginInfo, Registrar, Unusable, Usable, hookimpl
from atled_cudnn import probing

__version__ = "0.1.0"

_TYPES = ("float", "half", "bf16", "tf32", "double")
_OF_CPU = ("float", "bf16", "double")  # in which the host computes what is left over; half is computed in float there


class CudnnPlugin:
    """Backend `cudnn`: on the devices and arrays of backend `cuda`."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        arrays = ("CudaCachedArray", "CudaArray")
        # Above cuda: its preset has both.
        backend = BackendInfo("cudnn", _TYPES, device_family="cuda", array_classes=arrays, kind="gpu", rank=20)
        return PluginInfo("cudnn", API_VERSION, "atled-cudnn", __version__, (backend,), ("cudnn",))

    @hookimpl
    def atled_probe(self) -> Usable | Unusable:
        """Whether CuPy, a GPU and a cuDNN that is new enough are here."""
        return probing.probe()

    @hookimpl
    def atled_facts(self) -> Mapping[str, str]:
        """Which cuDNN, and where it was found."""
        return probing.facts()

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """Convolution and pooling."""
        from atled_cudnn import convolution, pooling  # lazily: where cuDNN does not work nobody waits for them

        convolution.register(registrar)
        pooling.register(registrar)

    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("cudnn")`: convolutions by cuDNN, the rest by `cuda`, what that lacks on the host."""
        if name != "cudnn":
            return None
        backends = [f"cudnn:{type_config}", f"cuda:{type_config}"]
        if type_config == "half":
            backends = ["cudnn:half", "cudnn:float", "cuda:half", "cuda:float"]
        backends.append(f"cpu:{type_config}" if type_config in _OF_CPU else "cpu:float")
        return Context(backends, "CudaCachedArray", device_id, **options)


PLUGIN = CudnnPlugin()
