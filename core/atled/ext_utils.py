"""Extensions by name, as NNabla has them: each preset of a plugin as a module with `context`, `get_devices`, ..."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from atled.arrays import preference as array_preference
from atled.arrays.memory import clear_host_memory_cache
from atled.arrays.place import ArrayClass, place_on
from atled.devices import device_arrays
from atled.logger import logger
from atled_contexts import Context, PluginError, backend_info, devices, extension_names, plugins
from atled_contexts import get_extension_context as _preset

__all__ = [
    "add_available_context",
    "get_extension_context",
    "import_extension_module",
    "list_extensions",
]

_RENAMED = {"cuda.cudnn": "cudnn"}
_added: list[str] = []
_modules: dict[str, ModuleType] = {}


def get_extension_context(ext_name: str, **kw: Any) -> Context:
    """The Context that an extension proposes: `get_extension_context("cudnn", device_id="0", type_config="half")`.

    kw: of the extension's `context`.  ImportError where no usable plugin has the extension.
    """
    context: Context = import_extension_module(ext_name).context(**kw)
    return context


def list_extensions() -> list[str]:
    """Names of the extensions that usable plugins bring, sorted."""
    return list(extension_names())


def add_available_context(ctx: str) -> None:
    """Add a name to `available_contexts`, which otherwise has those of the extensions."""
    if ctx not in _added:
        _added.append(ctx)


def import_extension_module(ext_name: str) -> ModuleType:
    """The module of an extension.

    It has:
        context(type_config="float", device_id="0", **kw): the Context it proposes.
        get_devices(): ids of its devices.  get_device_count(): how many.
        device_synchronize(device), synchronize(device_id): wait until the device has done all its work.
        clear_memory_cache(): give memory back that is kept for later arrays.
        array_classes(): names of its array classes, the preferred one first.
        __version__: of the plugin.

    ImportError, with the state of all plugins, where no usable plugin has it.
    """
    name = _RENAMED.get(ext_name, ext_name)
    if name != ext_name:
        logger.warning("the extension name %r is out of use: use %r", ext_name, name)
    if name not in extension_names():
        try:
            _preset(name)
        except PluginError as error:
            raise ImportError(str(error), name=f"nnabla_ext.{name}") from error
    if name not in _modules:
        _modules[name] = _make(name)
    return _modules[name]


def _make(name: str) -> ModuleType:
    module = ModuleType(f"nnabla_ext.{name}", f"Extension {name!r}: {import_extension_module.__doc__}")
    extension = _Extension(name)
    for function in ("context", "get_devices", "get_device_count", "device_synchronize", "synchronize"):
        setattr(module, function, getattr(extension, function))
    module.clear_memory_cache = extension.clear_memory_cache  # type: ignore[attr-defined]  # a module made here
    module.array_classes = extension.array_classes  # type: ignore[attr-defined]  # likewise
    module.__version__ = extension.version  # type: ignore[attr-defined]  # likewise
    return module


class _Extension:
    """What the module of an extension does; looks the plugins up at each call, as they may be reloaded."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def version(self) -> str:
        """Of the plugin."""
        found = [record.info for record in plugins() if record.usable and record.info is not None]
        return next((info.version for info in found if self._name in info.extension_names), "")

    @property
    def _backend(self) -> str:
        """The backend that the preset prefers."""
        return _preset(self._name).backends[0][0]

    @property
    def _array_class(self) -> ArrayClass | None:
        """What holds its arrays; None for host memory."""
        return device_arrays(_preset(self._name))

    def context(self, type_config: str = "float", device_id: str | int = "0", **kw: Any) -> Context:
        """The Context that the extension proposes."""
        made = _preset(self._name, type_config=type_config, device_id=device_id, **kw)
        wanted = array_preference.preferred((made.array_class, *self.array_classes()))[0]
        return made if wanted == made.array_class else made.replace(array_class=wanted)

    def array_classes(self) -> list[str]:
        """Names of the array classes, the preferred one first."""
        return array_preference.preferred(backend_info(self._backend).array_classes)

    def get_devices(self) -> list[str]:
        """Ids of the devices."""
        return [device for device in devices(self._backend) if device]

    def get_device_count(self) -> int:
        """How many devices there are."""
        return len(self.get_devices())

    def device_synchronize(self, device: str | int = "0") -> None:
        """Wait until the device has done all its work; the host has, at any time."""
        arrays = self._array_class
        if arrays is not None:
            place_on(arrays, str(device)).synchronize()

    def synchronize(self, device_id: str | int = "0", **kw: Any) -> None:
        """As `device_synchronize`."""
        self.device_synchronize(device_id)

    def clear_memory_cache(self) -> None:
        """Give memory that is kept for later arrays back, on all devices."""
        arrays = self._array_class
        if arrays is None:
            clear_host_memory_cache()
            return
        for device in self.get_devices():
            arrays.clear_memory_cache(device)


def __getattr__(name: str) -> Any:
    if name == "available_contexts":
        return list(dict.fromkeys((*extension_names(), *_added)))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "available_contexts"])
