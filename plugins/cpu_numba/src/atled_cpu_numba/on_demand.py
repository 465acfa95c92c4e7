"""Modules of this plugin that are imported when something of them is first asked for."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def imported(name: str) -> Any:  # Any: a module, of which type checkers do not know which one
    """The module of that name below `atled_cpu_numba`."""
    return importlib.import_module(f"atled_cpu_numba.{name}")


class OnDemand:
    """Stands for a module, so that a file which chooses between many ways imports those that it asks.

        if TYPE_CHECKING:
            from atled_cpu_numba.kernels.convolution import direct, rows
        else:
            direct, rows = on_demand("kernels.convolution", "direct", "rows")

    Each first call would wait for all of them, a millisecond each.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:  # Any: whatever the module has
        return getattr(imported(self._name), name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def on_demand(package: str, *names: str) -> tuple[OnDemand, ...]:
    """Stand-ins for modules of one package below `atled_cpu_numba`, in this order."""
    return tuple(OnDemand(f"{package}.{name}") for name in names)
