"""The plugin object: who it is, whether it can work here, what it brings. Imports no OpenCL."""

from __future__ import annotations

import importlib.util

from atled.plugin import BackendInfo, PluginInfo, Registrar, Unusable, Usable, hookimpl
from atled_opencl import operations, runtime
from atled_opencl.arrays import OpenCLArrayClass
from atled_opencl.elementwise import provide

__version__ = "0.1.0"

ARRAY_CLASS = OpenCLArrayClass()


class OpenCLPlugin:
    """Backend `opencl`: any device with an OpenCL runtime."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        backend = BackendInfo("opencl", ("float",), array_classes=("OpenCLArray",))
        return PluginInfo("opencl", "1.1", "atled-opencl", __version__, (backend,), extension_names=("opencl",))

    @hookimpl
    def atled_probe(self) -> Usable | Unusable:
        """Whether pyopencl and a runtime are installed; neither is loaded for that."""
        if importlib.util.find_spec("pyopencl") is None:
            return Unusable("pyopencl is not installed", "pip install pyopencl")
        if not runtime.has_runtime():
            remedy = "the driver of your device brings one; for CPUs: pip install 'atled-opencl[intel]'"
            return Unusable("there is no OpenCL runtime", f"{remedy}, or apt install pocl-opencl-icd")
        return Usable()

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """Kernels, formulas, the array class."""
        operations.register(registrar)
        registrar.family("opencl", provide)
        registrar.array_class("OpenCLArray", ARRAY_CLASS, "opencl", default=True)

    @hookimpl
    def atled_devices(self, backend: str) -> list[str]:
        """The devices of all platforms, by number."""
        return [str(number) for number in range(len(runtime.devices()))]


PLUGIN = OpenCLPlugin()
