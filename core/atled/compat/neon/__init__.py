"""Scripts and notebooks written for neon, unchanged.

    python -m atled.compat.neon [--context BACKEND] SCRIPT ARGUMENTS...

or, at the top of a notebook:

    import atled.compat.neon
    from neon.backends import gen_backend

From then on `import neon`, `neon.backends`, `neon.layers` and so on give what `atled.neon` has, also where neon itself
is installed. What it does not have is an ImportError or AttributeError that says so. Nothing else is changed.
"""

from __future__ import annotations

import importlib

from atled.compat.alias import MissingModuleError
from atled.compat.drop_in import DropIn
from atled.compat.neon_names import NEON

__all__ = ["MissingModuleError", "install", "uninstall"]

_DROP_IN = DropIn(NEON)


def install(context: str | None = None) -> None:
    """Let neon's names mean atled, as importing this module does; a second call does nothing about the names.

    context: the atled backend ("sim", "opencl", "cpu:half") that "cpu", "mkl", "gpu" and the default of gen_backend
    mean from now on, so that a program computes where it is told without a change. None leaves what they mean.

    ImportError where the real neon was imported before: two libraries under one name would mix. ValueError: a backend
    that is none; nothing is changed then.
    """
    if context is not None:
        _let_kinds_mean(context)
    _DROP_IN.install()


def uninstall() -> None:
    """Take `install` back: names are free again, modules imported by them forgotten, "cpu" and "gpu" what they were."""
    _let_kinds_mean(None)
    _DROP_IN.uninstall()


def _let_kinds_mean(context: str | None) -> None:
    # By name: this package is there for programs, and the core does without its front ends.
    importlib.import_module("atled.neon.backends.contexts").let_kinds_mean(context)


install()
