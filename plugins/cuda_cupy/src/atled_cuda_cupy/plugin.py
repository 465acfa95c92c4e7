"""The plugin object of backend `cuda`: who it is, whether it can work here, what it brings. Imports no CuPy.

What only works with a device is imported behind the probe: most installations have plugins that cannot work.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from atled.plugin import API_VERSION, BackendInfo, Context, PluginInfo, Registrar, Unusable, Usable, Warming, hookimpl
from atled_cuda_cupy import probing

__version__ = "0.1.0"


@functools.cache
def array_class() -> Any:  # a CudaArrayClass, whose module is imported here
    """One object for good: arrays made before a reload of the plugins stay on the same device."""
    from atled_cuda_cupy.arrays import CudaArrayClass

    return CudaArrayClass()


class CudaPlugin:
    """Backend `cuda`: NVIDIA GPUs through CuPy."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        types = ("float", "half", "bf16", "tf32", "double")
        arrays = ("CudaCachedArray", "CudaArray")
        backend = BackendInfo("cuda", types, device_family="cuda", array_classes=arrays, kind="gpu", rank=10)
        return PluginInfo("cuda-cupy", API_VERSION, "atled-cuda-cupy", __version__, (backend,), ("cuda",))

    @hookimpl
    def atled_probe(self) -> Usable | Unusable:
        """Whether CuPy, a driver and a device are here."""
        return probing.probe()

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """The kernels and the array class."""
        from atled_cuda_cupy.kernels.families import FAMILIES

        for family in FAMILIES:
            family.register(registrar)
        registrar.array_class("CudaCachedArray", array_class(), "cuda", default=True)
        registrar.array_class("CudaArray", array_class(), "cuda")

    @hookimpl
    def atled_devices(self, backend: str) -> list[str]:
        """The devices, by number."""
        from atled_cuda_cupy import devices

        return devices.device_ids()

    @hookimpl
    def atled_warm(self, backend: str, type_config: str) -> list[Warming]:
        """The kernels that threads still compile, after implementations were prepared."""
        from atled_cuda_cupy import compiling

        return [Warming(name, wait) for name, wait in compiling.underway().items()]

    @hookimpl
    def atled_facts(self) -> Mapping[str, str]:
        """Driver, devices, CuPy and CUDA's libraries, for doctor."""
        return probing.facts()

    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("cuda")`; half falls back to float, as in NNabla, and the rest to the host."""
        if name != "cuda":
            return None
        own = [f"cuda:{type_config}"] + ["cuda:float"] * (type_config == "half")
        host = f"cpu:{type_config}" if type_config in _ON_CPU else "cpu:float"
        return Context([*own, host], "CudaCachedArray", device_id, **options)


_ON_CPU = ("double", "bf16")
"""The type configs that backend `cpu` has, of those that do not fall back to float."""

PLUGIN = CudaPlugin()
