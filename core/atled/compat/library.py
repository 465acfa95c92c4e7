"""A library whose names are taken over: the table of them, and what to say where one is missing."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType

from atled.errors import did_you_mean, four_parts, listing, nearest


@dataclass(frozen=True)
class Library:
    """The names of a library, and where what they mean is in atled.

    Attributes:
        title: the library, in prose.
        name: its package, or the one package of it that is taken over ("keras.backend").
        drop_in: the module of atled that takes its names over.
        version: what its `__version__` says: the release whose API atled has; "" for a library without one.
        modules: the library's modules, and those of atled that hold the same. One that this atled does not have yet may
            be among them.
        absent: modules, and attributes of modules, that atled leaves out on purpose: what is missing, and what to do.
        remedies: by module, what to do about names that neither side knows, where nothing has a similar name.
        elsewhere: attributes that atled has in another module than the one that stands for theirs.
        extensions: the package whose modules are presets of plugins; "" for none.
    """

    title: str
    name: str
    drop_in: str
    version: str
    modules: Mapping[str, str]
    absent: Mapping[str, tuple[str, str]]
    remedies: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    extensions: str = ""

    @property
    def foreign(self) -> tuple[str, ...]:
        """The packages whose names are taken over."""
        return (self.name, self.extensions) if self.extensions else (self.name,)

    @property
    def above(self) -> tuple[str, ...]:
        """The packages that its package is in, outermost first; they stay those that are installed."""
        parts = self.name.split(".")
        return tuple(".".join(parts[:count]) for count in range(1, len(parts)))

    def owns(self, fullname: str) -> bool:
        """Whether a module is one of the packages that are taken over, or in one."""
        return any(fullname == each or fullname.startswith(f"{each}.") for each in self.foreign)

    @cached_property
    def packages(self) -> frozenset[str]:
        """Modules that have modules in them."""
        return frozenset(name.rpartition(".")[0] for name in self.modules if "." in name)

    def has(self, fullname: str) -> bool:
        """Whether atled has a module for that of the library."""
        return fullname in self.modules and _is_there(self.modules[fullname])

    def missing(self, foreign: str, name: str, target: ModuleType) -> str:
        """What to say where a module, which is `target` in atled, has no attribute of a name."""
        asked = f"{foreign}.{name}"
        if asked in self.absent or asked in self.modules:
            return self._left_out(asked, asked)
        where = "" if target.__name__ == foreign else f" (it would be {target.__name__}.{name})"
        otherwise = self.remedies.get(foreign, f"dir({foreign}) lists what there is; do without it")
        return four_parts(asked, f"atled does not have it{where}", "", did_you_mean(name, offered(target), otherwise))

    def missing_module(self, fullname: str) -> str:
        """What to say where there is no module of a name, nor an attribute."""
        asked = f"import {fullname}"
        if fullname in self.absent or fullname in self.modules:
            return self._left_out(asked, fullname)
        parent, _, last = fullname.rpartition(".")
        siblings = {
            name.rpartition(".")[2]: name
            for name in self.modules
            if name.rpartition(".")[0] == parent and self.has(name) and "._" not in name
        }
        near = nearest(last, siblings)
        otherwise = did_you_mean(last, self._attributes(parent), self.remedies.get(parent, "do without it"))
        return four_parts(
            asked,
            "atled has no such module, nor anything else of that name",
            f"in {parent} there are {listing(siblings)}",
            otherwise if near is None else f"did you mean {siblings[near]!r}?",
        )

    def _attributes(self, module: str) -> list[str]:
        return offered(importlib.import_module(self.modules[module])) if self.has(module) else []

    def _left_out(self, asked: str, name: str) -> str:
        wrong, remedy = self.absent.get(name) or (
            f"this version of atled does not have this module of {self.title}'s",
            "use the newest atled (python -m pip install --upgrade atled); where it is the newest, do without it",
        )
        return four_parts(asked, wrong, "", remedy)


def _is_there(module: str) -> bool:
    parent = module.rpartition(".")[0]
    return (not parent or _is_there(parent)) and importlib.util.find_spec(module) is not None


def offered(target: ModuleType) -> list[str]:
    """The public names of a module, without the modules that it imports."""
    names = [name for name in dir(target) if not name.startswith("_")]
    return [name for name in names if not isinstance(getattr(target, name), ModuleType)]
