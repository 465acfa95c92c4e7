"""Scripts and notebooks written for a Keras-style backend, unchanged.

    python -m atled.compat.keras_backend [--as NAME] SCRIPT ARGUMENTS...

or, at the top of a notebook:

    import atled.compat.keras_backend
    import natural_bm.backend as B

From then on `natural_bm.backend`, with `theano_backend`, `numpy_backend` and `common` in it, is what
`atled.keras_backend` has, also where the package is installed: all else in `natural_bm` is the installed one.
`install("keras.backend")` does so for a backend that programs import by another name. What atled does not have is an
ImportError or AttributeError that says so. Nothing else is changed.
"""

from __future__ import annotations

from atled.compat.alias import MissingModuleError
from atled.compat.drop_in import DropIn
from atled.compat.keras_backend_names import NATURAL_BM, keras_style
from atled_contexts import (
    Context,
    extension_names,
    get_extension_context,
    reset_default_context,
    set_default_context,
)

__all__ = ["MissingModuleError", "install", "uninstall"]

_DROP_INS: dict[str, DropIn] = {}


def install(name: str = NATURAL_BM, context: str | None = None) -> None:
    """Let a name mean atled's backend, as importing this module does; a second call does nothing about it.

    name: what programs import, a package or one in a package: "keras.backend".
    context: the atled backend that computes by default from now on ("sim", "opencl", "cpu:half"); None leaves it.

    ImportError where the real one was imported before: two libraries under one name would mix. ValueError: a name that
    no module can have, or a backend that is none; nothing is changed then.
    """
    drop_in = _DROP_INS.get(name) or DropIn(keras_style(name))
    computes = None if context is None else _named(context)
    drop_in.install()
    _DROP_INS[name] = drop_in
    if computes is not None:
        set_default_context(computes)


def uninstall() -> None:
    """Take all of `install` back: names are free again, modules imported by them forgotten, the Context the default."""
    while _DROP_INS:
        _DROP_INS.popitem()[1].uninstall()
    reset_default_context()


def _named(context: str) -> Context:
    """What a plugin proposes for its backend, with what to fall back to; else that backend alone."""
    return get_extension_context(context) if context in extension_names() else Context([context])


install()
