"""Taking the names of a library over, and giving them back."""

from __future__ import annotations

import sys
from types import ModuleType

from atled.compat.above import Above, AboveFinder
from atled.compat.alias import Alias, Finder
from atled.compat.library import Library
from atled.errors import four_parts, listing


class DropIn:
    """The names of one library, which mean atled between `install` and `uninstall`."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._finder = Finder(library)
        self._above = AboveFinder(library)

    def install(self) -> None:
        """Take the names over; a second call does nothing.

        ImportError where the real library was imported before: two libraries under one name would mix.
        """
        if self._finder in sys.meta_path:
            return
        library = self.library
        found = [name for name in library.foreign if name in sys.modules and not isinstance(sys.modules[name], Alias)]
        if found:
            raise ImportError(
                four_parts(
                    f"import {library.drop_in}",
                    f"the real {listing(found)} is imported already",
                    listing(str(getattr(sys.modules[name], "__file__", None)) for name in found),
                    f"start a new process (restart the notebook's kernel) and import {library.drop_in} first",
                )
            )
        # The first one, before the finder of installed packages: the library may be among them. What its package is in
        # however is the installed one wherever there is one.
        sys.meta_path.insert(0, self._finder)
        if library.above:
            sys.meta_path.append(self._above)

    def uninstall(self) -> None:
        """Take `install` back: the names are free again, and modules that were imported by them are forgotten."""
        for finder in (self._finder, self._above):
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
        for name, module in list(sys.modules.items()):
            if self._is_ours(name, module):
                del sys.modules[name]
                parent, _, last = name.rpartition(".")
                if vars(sys.modules.get(parent, module)).get(last) is module:
                    delattr(sys.modules[parent], last)  # of a package that stays

    def _is_ours(self, name: str, module: ModuleType) -> bool:
        if isinstance(module, Above):
            return name in self.library.above
        return isinstance(module, Alias) and self.library.owns(name)
