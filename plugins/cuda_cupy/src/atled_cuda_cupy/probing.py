"""Whether CUDA can be used here, and if not, why and what to do; imports no CuPy and starts no CUDA."""

from __future__ import annotations

import importlib.util

from atled.plugin import Unusable, Usable

_INSTALL = "pip install 'atled[cuda12]' for a driver of CUDA 12, 'atled[cuda13]' for one of CUDA 13"


def probe() -> Usable | Unusable:
    """The answer of the plugin's probe."""
    if importlib.util.find_spec("cupy") is None:
        return Unusable("CuPy is not installed", _INSTALL)
    return Usable()
