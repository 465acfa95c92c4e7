"""The plugin object: who it is, whether it can work here, what it brings. Imports no torch."""

from __future__ import annotations

import importlib.util

from atled.plugin import BackendInfo, PluginInfo, Registrar, Unusable, Usable, hookimpl
from atled_torch.arrays import TorchArrayClass
from atled_torch.implementations import provide

__version__ = "0.1.0"

ARRAY_CLASS = TorchArrayClass()


class TorchPlugin:
    """Backend `torch`: PyTorch on the processor."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        backend = BackendInfo("torch", ("float", "half", "double"), array_classes=("TorchArray",))
        return PluginInfo("torch", "1.0", "atled-torch", __version__, (backend,), extension_names=("torch",))

    @hookimpl
    def atled_probe(self) -> Usable | Unusable:
        """Whether torch is installed; it is not loaded for that."""
        if importlib.util.find_spec("torch") is None:
            return Unusable("PyTorch is not installed", "pip install 'atled-torch[torch]'")
        return Usable()

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """All ops as one family, and the array class."""
        registrar.family("torch", provide)
        registrar.array_class("TorchArray", ARRAY_CLASS, "torch", default=True)


PLUGIN = TorchPlugin()
