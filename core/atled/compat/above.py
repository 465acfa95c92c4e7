"""Packages around a package that is taken over, where they are not installed: empty ones, that say what is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from atled.compat.alias import MissingModuleError
from atled.compat.library import Library
from atled.errors import four_parts


class Above(ModuleType):
    """A package that holds nothing but what is taken over."""

    def __init__(self, name: str, library: Library) -> None:
        super().__init__(name, f"Not installed; atled stands for {library.name} in it.")
        self.__dict__.update(__path__=[], _library=library)

    def __getattr__(self, name: str) -> object:
        asked = f"{self.__name__}.{name}"
        library: Library = self.__dict__["_library"]
        text = name if name.startswith("__") else not_installed(library, self.__name__, asked)
        raise AttributeError(text, name=name, obj=self)


class AboveFinder(MetaPathFinder, Loader):
    """Finds the packages above that of a library; to be the last of `sys.meta_path`, behind the installed ones."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an empty package; ImportError for other modules in one."""
        if fullname in self.library.above:
            return ModuleSpec(fullname, self, is_package=True)
        parent = fullname.rpartition(".")[0]
        if isinstance(sys.modules.get(parent), Above) and parent in self.library.above:
            raise MissingModuleError(not_installed(self.library, parent, f"import {fullname}"))
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty package."""
        return Above(spec.name, self.library)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def not_installed(library: Library, package: str, asked: str) -> str:
    """What to say where something else of a package is asked for that is not installed."""
    return four_parts(
        asked,
        f"{package} is not installed, and atled stands for {library.name} alone",
        "",
        f"install {package.partition('.')[0]} beside atled: its own {library.name} will not be imported; or do without",
    )
