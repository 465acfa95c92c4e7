"""NervanaObject: what everything that computes with the present backend inherits."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from atled.errors import four_parts, shortened

if TYPE_CHECKING:
    from atled.neon.backends.backend import Backend


class NervanaObject:
    """Has a name and the present backend, and can describe how it was made.

    be: the present backend, which `gen_backend` sets; None before one was made and after `cleanup_backend`.
    name: the one given, else the class's with a running number of that class.
    """

    be: ClassVar[Backend | None] = None
    _numbers: ClassVar[Iterator[int]] = itertools.count()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._numbers = itertools.count()

    def __init__(self, name: str | None = None) -> None:
        """name: None for the class's name and its next number, from 0."""
        self.name = f"{self.classnm}_{next(self._numbers)}" if name is None else name

    @property
    def classnm(self) -> str:
        """Name of the class."""
        return type(self).__name__

    @property
    def modulenm(self) -> str:
        """Names of the module and the class, with a dot between."""
        return f"{type(self).__module__}.{type(self).__name__}"

    @property
    def _present(self) -> Backend:
        """The present backend; RuntimeError: there is none."""
        if self.be is None:
            remedy = "make one by gen_backend before"
            raise RuntimeError(four_parts(f"use of {self.classnm} {self.name}", "there is no backend", "", remedy))
        return self.be

    @classmethod
    def gen_class(cls, pdict: dict[str, Any]) -> Any:  # Any: of the class
        """An object of the class; pdict: its arguments by name, as "config" of `get_description` has them.

        Objects are made of arguments that are descriptions. Errors as of `recursive_gen`.
        """
        arguments = dict(pdict)
        for name in arguments:
            cls.recursive_gen(arguments, name)
        return cls(**arguments)

    @staticmethod
    def recursive_gen(pdict: dict[str, Any], key: str) -> None:
        """Put an object in the place of its description, `pdict[key]`; anything else stays.

        ValueError: the description names what is no subclass of NervanaObject, or one that was not imported.
        """
        described = pdict[key]
        if isinstance(described, dict) and {"type", "config"} <= described.keys():
            pdict[key] = described_class(described["type"]).gen_class(described["config"])

    def get_description(self, skip: Sequence[str] = (), **kwargs: Any) -> dict[str, Any]:
        """A dictionary from which `gen_class` makes the object again.

        type: as `modulenm`.  config: the arguments of the constructor that are not their defaults, each as the
        attribute of its name; objects, and those in lists, as descriptions.

        skip: arguments to leave out.  kwargs: no effect, for what layers add.
        """
        config = {}
        for name, parameter in inspect.signature(type(self)).parameters.items():
            if name in skip or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            value = getattr(self, name, parameter.default)
            if value is not parameter.empty and not _is_default(value, parameter.default):
                config[name] = _described(value)
        return {"type": self.modulenm, "config": config}


def described_class(name: str) -> type[NervanaObject]:
    """The subclass of NervanaObject that a description names "module.Class"; neon's own modules are atled's.

    A module is not imported for a description, which may come from anywhere. ValueError as of `recursive_gen`.
    """
    module, _, class_name = name.rpartition(".")
    within = f"atled.{module}" if module.partition(".")[0] == "neon" else module
    found = getattr(sys.modules.get(within), class_name, None)
    if not (isinstance(found, type) and issubclass(found, NervanaObject)):
        wrong = "is no NervanaObject" if within in sys.modules else "is in a module that was not imported"
        raise ValueError(
            four_parts(f"an object of type {shortened(name)}", f"the class {wrong}", "", f"import {within} before")
        )
    return found


def _is_default(value: Any, default: Any) -> bool:
    """Whether an argument need not be told; of arrays and tensors == says something for each element."""
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, str | float | tuple | list | dict) and value == default


def _described(value: Any) -> Any:
    if isinstance(value, NervanaObject):
        return value.get_description()
    if isinstance(value, list | tuple):
        return type(value)(_described(each) for each in value)
    return value
