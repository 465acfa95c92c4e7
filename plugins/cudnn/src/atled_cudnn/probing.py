"""Whether cuDNN can be used here, and if not, why and what to do; imports no CuPy and starts no CUDA.

What else backend `cuda` needs its own plugin looks for: where that is unusable, this one is as well, with its reason.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys

from atled.plugin import Unusable, Usable
from atled_cudnn import library
from atled_cudnn.library import OLDEST, version_text

_CUDNN = 'pip install "nvidia-cudnn-cu12>=9.8,<10", or nvidia-cudnn-cu13 where the driver has CUDA 13'
_ALL = 'pip install "atled[cuda12]" or pip install "atled[cuda13]", as the driver has CUDA 12 or 13'


def probe() -> Usable | Unusable:
    """The answer of the plugin's probe."""
    return _why_no_cuda() or _why_no_cudnn() or Usable()


def facts() -> dict[str, str]:
    """What `python -m atled doctor` shows: which cuDNN, and where it was found."""
    try:
        found = library.location()
    except OSError as error:
        return {"cuDNN": f"cannot be loaded: {error}"}
    if found is None:
        return {"cuDNN": "not found"}
    return {"cuDNN": f"{version_text(library.version())}, {found.path} ({found.source})"}


def _why_no_cuda() -> Unusable | None:
    if importlib.util.find_spec("atled_cuda_cupy") is None:
        return Unusable("atled-cuda-cupy is not installed, which brings the arrays", _ALL)
    if getattr(sys.modules.get("cupy"), "__emulator__", False):
        return None
    if importlib.util.find_spec("cupy") is None:
        return Unusable("CuPy is not installed", _ALL)
    try:
        ctypes.CDLL("libcuda.so.1")  # cuDNN's libraries need it to be loaded
    except OSError:
        driver = "install NVIDIA's driver: https://www.nvidia.com/drivers"
        return Unusable("there is no driver for NVIDIA GPUs (libcuda.so.1 was not found)", driver)
    return None


def _why_no_cudnn() -> Unusable | None:
    try:
        found = library.location()
    except OSError as error:
        return Unusable(f"cuDNN cannot be loaded: {error}", f"{_CUDNN}, and --force-reinstall", error)
    if found is None:
        return Unusable("cuDNN 9 (libcudnn.so.9) was not found", _CUDNN)
    number = library.version()
    if number < OLDEST:
        reason = (
            f"cuDNN {version_text(number)} is too old, {version_text(OLDEST)} is needed: {found.path} ({found.source})"
        )
        return Unusable(reason, _CUDNN.replace("install", "install --upgrade"))
    return None
