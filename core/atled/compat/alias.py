"""Modules under foreign names: finds `nnabla...` and `nnabla_ext...` in atled."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from atled.errors import did_you_mean, four_parts, listing, nearest

FOREIGN = ("nnabla", "nnabla_ext")
"""The packages whose names are taken over."""

API_VERSION = "1.0.0"
"""What `nnabla.__version__` says: the release whose API atled has."""

MODULES: Mapping[str, str] = {
    "nnabla": "atled",
    **{
        f"nnabla.{name}": f"atled.{name}"
        for name in (
            "config",
            "contrib",
            "contrib.context",
            "experimental",
            "experimental.mixed_precision_training",
            "ext_utils",
            "function",
            "functions",
            "initializer",
            "logger",
            "monitor",
            "parameter",
            "parametric_functions",
            "random",
            "solvers",
            "utils",
            "utils.data_iterator",
            "utils.data_source",
            "utils.data_source_implements",
            "utils.data_source_loader",
            "utils.download",
            "utils.image_utils",
            "utils.load",
            "utils.nnabla_pb2",
            "utils.nnp_graph",
            "utils.profiler",
            "utils.save",
        )
    },
    # Where things that NNabla keeps in modules of their own are in atled.
    "nnabla._init": "atled",
    "nnabla._nd_array": "atled.arrays.array",
    "nnabla._variable": "atled",
    "nnabla.auto_forward": "atled",
    "nnabla.context": "atled",
    "nnabla.solver": "atled.solvers",
    "nnabla.variable": "atled",
}
"""NNabla's modules, and where what they hold is in atled."""


ABSENT: Mapping[str, tuple[str, str]] = {
    "nnabla.communicators": (
        "atled trains on one device: it has no communicators (MultiProcessDataParallelCommunicator and the like)",
        "leave out the communicator: its all_reduce calls, and rank 0 of size 1 for the rest",
    ),
    "nnabla.communicator": (
        "atled trains on one device: it has no communicators",
        "leave out the communicator: its all_reduce calls, and rank 0 of size 1 for the rest",
    ),
    "nnabla.models": (
        "atled does not download trained models",
        "load their .nnp files with nnabla.utils.nnp_graph.NnpLoader",
    ),
    "nnabla.lms": (
        "atled does not move arrays out of device memory by a schedule",
        "use a smaller batch",
    ),
    "nnabla.utils.converter": (
        "atled converts no files",
        "convert with nnabla_cli of NNabla, and load the .nnp file",
    ),
}
"""Modules of NNabla that atled leaves out on purpose: what is missing, and what to do."""


class Alias(ModuleType):
    """A module under a foreign name; each access looks the attribute up in its target.

    Everything has an (empty) path, so that `from nnabla.functions import name` of a missing name asks the finder,
    which can say more than "cannot import name".
    """

    def __init__(self, name: str, target: Callable[[], ModuleType], hidden: Mapping[str, Any]) -> None:
        super().__init__(name)
        # Straight into the namespace: attributes set from outside go through __setattr__.
        self.__dict__.update(hidden, __path__=[], _target=target)

    def __getattr__(self, name: str) -> Any:
        target = self._target()
        if name == "__all__":
            return getattr(target, "__all__", offered(target))
        foreign = f"{self.__name__}.{name}"
        value = getattr(target, name, _NOTHING)
        if foreign in MODULES and (value is _NOTHING or isinstance(value, ModuleType)) and there_is(foreign):
            return importlib.import_module(foreign)
        if value is _NOTHING or _is_own_module(value):
            text = name if name.startswith("__") else missing(self.__name__, name, target)
            raise AttributeError(text, name=name, obj=self)
        if callable(value):
            self.__dict__[name] = value  # found at once the next time; other values may change
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Alias):
            # The import system hands a package its submodules. `nnabla.auto_forward` and `nnabla.logger` however are
            # the function and the logger, although there are modules of these names.
            present = self.__dict__.get(name, getattr(self._target(), name, value))
            if not isinstance(present, ModuleType):
                return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._target()), *self.__dict__})

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}: {self._target()!r}>"


_NOTHING = object()


def _is_own_module(value: object) -> bool:
    """Whether it is a module of atled: what atled imports for itself is no part of NNabla's API."""
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in ("atled", "atled_contexts")


def offered(target: ModuleType) -> list[str]:
    """The public names of a module, without the modules that it imports."""
    names = [name for name in dir(target) if not name.startswith("_")]
    return [name for name in names if not isinstance(getattr(target, name), ModuleType)]


def missing(foreign: str, name: str, target: ModuleType) -> str:
    """What to say where a module has no such attribute."""
    if f"{foreign}.{name}" in ABSENT:
        wrong, remedy = ABSENT[f"{foreign}.{name}"]
        return four_parts(f"{foreign}.{name}", wrong, "", remedy)
    where = "" if target.__name__ == foreign else f" (it would be {target.__name__}.{name})"
    remedy = did_you_mean(name, offered(target), f"dir({foreign}) lists what there is; do without it")
    return four_parts(f"{foreign}.{name}", f"atled does not have it{where}", "", remedy)


class MissingModuleError(ModuleNotFoundError):
    """A module of NNabla that atled does not have."""


class Finder(MetaPathFinder, Loader):
    """Finds the foreign names of this module; to be the first of `sys.meta_path`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a foreign module; None for a module that is none of ours; ImportError for one that is missing."""
        if fullname.partition(".")[0] not in FOREIGN:
            return None
        if fullname in FOREIGN or fullname.startswith("nnabla_ext.") or there_is(fullname):
            return ModuleSpec(fullname, self, is_package=True)
        parent, _, name = fullname.rpartition(".")
        if path is not None and parent in MODULES and there_is(parent) and parent not in _PACKAGES:
            # `from nnabla.functions import name`: the name of an attribute.
            raise ImportError(missing(parent, name, importlib.import_module(MODULES[parent])), name=parent)
        raise MissingModuleError(_missing_module(fullname))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An alias; ImportError where the extension or the module is not there."""
        name = spec.name
        if name == "nnabla_ext":
            return Alias(name, lambda: _NO_EXTENSIONS, {})
        if name.startswith("nnabla_ext."):
            return _extension(name)
        origin = MODULES[name]
        module = importlib.import_module(origin)
        hidden: dict[str, Any] = {"__doc__": module.__doc__}
        if name == "nnabla":
            hidden["__version__"] = API_VERSION
            hidden["logger"] = importlib.import_module("atled.logger").logger
        if name == "nnabla.parameter":
            front = importlib.import_module("atled")
            hidden.update({moved: getattr(front, moved) for moved in ("load_parameters", "save_parameters")})
        return Alias(name, lambda: sys.modules.get(origin, module), hidden)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: everything is in the target."""


_NO_EXTENSIONS = ModuleType("nnabla_ext", "Extensions are imported one by one.")
# Modules that have modules in them.
_PACKAGES = {name.rpartition(".")[0] for name in MODULES if "." in name}


def there_is(fullname: str) -> bool:
    """Whether atled has a module for that of NNabla."""
    origin = MODULES.get(fullname)
    return origin is not None and importlib.util.find_spec(origin) is not None


def _extension(fullname: str) -> Alias:
    from atled.ext_utils import import_extension_module

    extension = fullname.partition(".")[2]
    if extension == "cuda.cudnn":  # its name of long ago
        extension = "cudnn"
    import_extension_module(extension)
    return Alias(fullname, lambda: import_extension_module(extension), {})


def _missing_module(fullname: str) -> str:
    if fullname in ABSENT:
        wrong, remedy = ABSENT[fullname]
        return four_parts(f"import {fullname}", wrong, "", remedy)
    parent, _, last = fullname.rpartition(".")
    known = [name for name in MODULES if name.rpartition(".")[0] == parent and there_is(name)]
    siblings = {name.rpartition(".")[2]: name for name in known if "._" not in name}
    near = nearest(last, siblings)
    return four_parts(
        f"import {fullname}",
        "atled has no such module, nor anything else of that name",
        f"in {parent} there are {listing(siblings)}",
        "do without it" if near is None else f"did you mean {siblings[near]!r}?",
    )
