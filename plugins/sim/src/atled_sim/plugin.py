"""The plugin object of backend `sim`: who it is and what it brings."""

from __future__ import annotations

from atled.plugin import API_VERSION, BackendInfo, PluginInfo, Registrar, hookimpl
from atled_sim.array_class import SimArrayClass
from atled_sim.device import DEVICE_IDS
from atled_sim.kernels import provide

__version__ = "0.1.0"

ARRAY_CLASS = SimArrayClass()
"""One object for good: arrays made before a reload of the plugins stay on the same device."""


class SimPlugin:
    """Backend `sim`. A plugin whose device library may be missing also has the hook `atled_probe`."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is: quick, and nothing of a device library imported."""
        types = ("float", "half", "double", "bf16", "tf32")
        # Priority 0: the default Context never is on a simulated device.
        backend = BackendInfo("sim", types, array_classes=("SimArray",), kind="simulated")
        return PluginInfo("sim", API_VERSION, "atled-sim", __version__, (backend,), extension_names=("sim",))

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """What it brings: implementations and an array class."""
        registrar.family("sim", provide)
        registrar.array_class("SimArray", ARRAY_CLASS, "sim", default=True)

    @hookimpl
    def atled_devices(self, backend: str) -> list[str]:
        """Which devices there are."""
        return list(DEVICE_IDS)


PLUGIN = SimPlugin()
