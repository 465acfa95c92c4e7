"""The names of the backend, all but `backend`, under the module path of the one that stood on Theano."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import atled.keras_backend as _faces

__all__ = sorted(
    name
    for name, value in vars(_faces).items()
    if not (name.startswith("_") or name in ("annotations", "backend") or isinstance(value, ModuleType))
)

globals().update({name: getattr(_faces, name) for name in __all__})


def __getattr__(name: str) -> Any:
    """Not reached for names that are there; tells type checkers that there are names."""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
