"""Tables of op specs by name, which import the family of one when it is first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from atled.ops import FAMILIES

if TYPE_CHECKING:
    from atled.ops.spec import OpSpec


class SpecTable(dict[str, "OpSpec"]):
    """Op specs by a name, those of families that are not imported yet included.

    A dict, since plans look up the same few ops by the dozen. Names alone import nothing; who goes over the specs has
    all families imported. Both come in order of the names, whatever was imported first, and as lists of their own:
    other threads may enter specs meanwhile.

    families: by name, the module in `atled.ops`.
    """

    __slots__ = ("_entered", "_families", "_is_complete")

    def __init__(self, families: Mapping[str, str]) -> None:
        super().__init__()
        self._families = families
        self._is_complete = False
        # What was not asked for yet: another thread must not get a spec before its module is imported to the end.
        self._entered: dict[str, OpSpec] = {}

    def enter(self, name: str, spec: OpSpec) -> None:
        """Add a spec; ValueError if there is one of the name."""
        if super().__contains__(name) or name in self._entered:
            raise ValueError(f"two op specs are named {name}: one op, one place")
        self._entered[name] = spec

    def __missing__(self, name: str) -> OpSpec:
        family = self._families.get(name)
        if family is not None:
            self._import(family)
        found = self._entered.get(name)
        if found is None:
            raise KeyError(name)
        self[name] = found
        return found

    def get(self, name: str, default: Any = None) -> Any:  # Any: as the overloads of dict.get have it
        """The spec of that name, its family imported; the default where there is none."""
        found = super().get(name)
        if found is None and name in self:
            found = self[name]
        return default if found is None else found

    def pop(self, name: str, default: Any = None) -> Any:  # Any: as above
        """Take a spec out."""
        entered = self._entered.pop(name, default)
        return super().pop(name, entered)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._entered or name in self._families

    def _names(self) -> set[str]:
        return {*super().keys(), *self._entered, *self._families}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))

    def __len__(self) -> int:
        return len(self._names())

    def keys(self) -> list[str]:  # type: ignore[override]  # a list: see the class
        return list(self)

    def values(self) -> list[OpSpec]:  # type: ignore[override]  # a list: see the class
        return [spec for _, spec in self.items()]

    def items(self) -> list[tuple[str, OpSpec]]:  # type: ignore[override]  # a list: see the class
        self.import_all()
        return [(name, self[name]) for name in self]

    def import_all(self) -> None:
        """Import all families; from then on there are those ops, too, that `families.py` does not know yet."""
        if not self._is_complete:
            for family in FAMILIES:
                self._import(family)
            self._families = {}
            self._is_complete = True

    def _import(self, family: str) -> None:
        try:
            importlib.import_module(f"atled.ops.{family}")
        except BaseException:
            # Such as Ctrl-C: Python imports the module anew when it is next asked for, and its ops must not be there.
            from atled.ops import spec  # which makes the tables

            spec.SPECS.forget_unfinished()
            spec.FUNCTIONS.forget_unfinished()
            raise

    def forget_unfinished(self) -> None:
        """Take out what modules entered whose import did not come to its end."""
        for name, spec in list(self._entered.items()):
            if spec.is_library and spec.module not in sys.modules:
                del self._entered[name]
