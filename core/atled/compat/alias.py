"""Modules under foreign names: a finder that finds those of a library in atled."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from atled.compat.library import Library, offered

_NOTHING = object()


class Alias(ModuleType):
    """A module under a foreign name; each access looks the attribute up in its target.

    Everything has an (empty) path, so that `from nnabla.functions import name` of a missing name asks the finder,
    which can say more than "cannot import name".
    """

    def __init__(
        self, name: str, library: Library, target: Callable[[], ModuleType], hidden: Mapping[str, Any]
    ) -> None:
        super().__init__(name)
        # Straight into the namespace: attributes set from outside go through __setattr__.
        self.__dict__.update(hidden, __path__=[], _library=library, _target=target)

    def __getattr__(self, name: str) -> Any:
        target, library = self._target(), self._library
        if name == "__all__":
            return getattr(target, "__all__", offered(target))
        foreign = f"{self.__name__}.{name}"
        value = getattr(target, name, _NOTHING)
        is_module = value is _NOTHING or isinstance(value, ModuleType)
        if is_module and library.has(foreign):
            return importlib.import_module(foreign)
        if value is _NOTHING or _is_own_module(value):
            text = name if name.startswith("__") else library.missing(self.__name__, name, target)
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


def _is_own_module(value: object) -> bool:
    """Whether it is a module of atled: what atled imports for itself is no part of another library's API."""
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in ("atled", "atled_contexts")


class MissingModuleError(ModuleNotFoundError):
    """A module of another library that atled does not have."""


class Finder(MetaPathFinder, Loader):
    """Finds the modules of one library; to be the first of `sys.meta_path`."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a foreign module; None for a module that is none of ours; ImportError for one that is missing."""
        library = self.library
        if not library.owns(fullname):
            return None
        if fullname in library.foreign or self._is_extension(fullname) or library.has(fullname):
            return ModuleSpec(fullname, self, is_package=True)
        parent, _, name = fullname.rpartition(".")
        if path is not None and library.has(parent) and parent not in library.packages:
            # `from nnabla.functions import name`: the name of an attribute.
            text = library.missing(parent, name, importlib.import_module(library.modules[parent]))
            raise ImportError(text, name=parent)
        raise MissingModuleError(library.missing_module(fullname))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An alias; ImportError where the extension or the module is not there."""
        name, library = spec.name, self.library
        if name == library.extensions:
            return Alias(name, library, lambda: _NO_EXTENSIONS, {})
        if self._is_extension(name):
            return _extension(name, library)
        origin = library.modules[name]
        module = importlib.import_module(origin)
        hidden: dict[str, Any] = {"__doc__": module.__doc__}
        if name == library.name and library.version:
            hidden["__version__"] = library.version
        for foreign, holder in library.elsewhere.items():
            parent, _, attribute = foreign.rpartition(".")
            if parent == name:
                hidden[attribute] = getattr(importlib.import_module(holder), attribute)
        return Alias(name, library, lambda: sys.modules.get(origin, module), hidden)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: everything is in the target."""

    def _is_extension(self, fullname: str) -> bool:
        return bool(self.library.extensions) and fullname.startswith(f"{self.library.extensions}.")


_NO_EXTENSIONS = ModuleType("nnabla_ext", "Extensions are imported one by one.")


def _extension(fullname: str, library: Library) -> Alias:
    from atled.ext_utils import import_extension_module

    extension = fullname.partition(".")[2]
    if extension == "cuda.cudnn":  # its name of long ago
        extension = "cudnn"
    import_extension_module(extension)
    return Alias(fullname, library, lambda: import_extension_module(extension), {})
