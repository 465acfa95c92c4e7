"""Whether cuDNN can be used here, and if not, why and what to do; imports no CuPy and starts no CUDA."""

from __future__ import annotations

import importlib.util
import sys

from atled.plugin import Unusable, Usable
from atled_cudnn import library
from atled_cudnn.library import OLDEST, version_text

_INSTALL = "pip install 'atled[cuda12]' for a driver of CUDA 12, 'atled[cuda13]' for one of CUDA 13"


def probe() -> Usable | Unusable:
    """The answer of the plugin's probe."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return Unusable("CuPy is not installed", _INSTALL)
    found = library.location()
    if found is None:
        return Unusable("cuDNN is not installed", "pip install nvidia-cudnn-cu12, or -cu13 for a driver of CUDA 13")
    number = library.version()
    if number < OLDEST:
        return Unusable(
            f"cuDNN {version_text(number)} of {found.source} ({found.path}) is older than {version_text(OLDEST)}",
            "pip install --upgrade nvidia-cudnn-cu12, or -cu13 for a driver of CUDA 13",
        )
    return Usable()


def facts() -> dict[str, str]:
    """What `python -m atled doctor` shows: which cuDNN, and where it was found."""
    try:
        found = library.location()
    except OSError as error:
        return {"cuDNN": f"cannot be loaded: {error}"}
    if found is None:
        return {"cuDNN": "none found"}
    return {"cuDNN": f"{version_text(library.version())}, {found.path} (by {found.source})"}
