"""Whether CUDA can be used here, and if not, why and what to do."""

from __future__ import annotations

import importlib.util
import os

from atled.plugin import Unusable, Usable
from atled_cuda_cupy import machine

LEAST_CUPY, LEAST_CAPABILITY = 14, 75
_DRIVER = "install NVIDIA's driver: https://www.nvidia.com/drivers"
_LIBRARIES = {"nvrtc": "NVRTC, which compiles kernels", "cublas": "cuBLAS"}


def probe() -> Usable | Unusable:
    """The first thing that is missing, and its remedy. No CuPy is imported and no device touched."""
    if machine.emulator():
        return Usable()
    wheels = machine.wheels()
    driver = machine.driver_version()
    return (
        _why_no_cupy(wheels, driver)
        or _why_no_driver(wheels[0], driver)
        or _why_no_device()
        or _why_no_libraries(wheels[0], driver or 0)
        or Usable()
    )


def facts() -> dict[str, str]:
    """What doctor shows: driver, devices, CuPy and where CUDA's libraries were found."""
    if version := machine.emulator():
        return {"runs on": "an emulator of CUDA on the processor, not on a GPU", "CuPy": version}
    (wheel, *_) = machine.wheels()
    cuda = machine.driver_version() or 0
    found = machine.management()
    shown = {"driver": " for ".join(filter(None, (found.driver if found else "", f"CUDA {_dotted(cuda)}")))}
    for number, gpu in enumerate(found.gpus if found else ()):
        shown[f"device {number}"] = f"{gpu.name}, compute capability {_capability(gpu)}, {gpu.nbytes / 2**30:.0f} GiB"
    shown["CuPy"] = f"{wheel.version or 'of unknown version'} ({wheel.name})"
    for name in _LIBRARIES:
        shown[{"nvrtc": "NVRTC", "cublas": "cuBLAS"}[name]] = machine.library(name, _major(wheel, cuda)) or "not found"
    return shown


def _why_no_cupy(wheels: list[machine.Wheel], driver: int | None) -> Unusable | None:
    if not wheels:
        return Unusable("CuPy is not installed", _install(driver))
    if len(wheels) > 1:
        names = " ".join(wheel.name for wheel in wheels)
        reason = f"several CuPys are installed, which overwrite each other: {names}"
        return Unusable(reason, f"pip uninstall -y {names}, then {_install(driver)}")
    (wheel,) = wheels
    if "rocm" in wheel.name:
        return Unusable(
            f"{wheel.name} is a CuPy for AMD's devices", f"pip uninstall -y {wheel.name}, then {_install(driver)}"
        )
    if importlib.util.find_spec("cupy") is None:
        return Unusable(
            f"{wheel.name} is installed, but its files are not there", _install(driver, "--force-reinstall ")
        )
    if wheel.version and int(wheel.version.partition(".")[0]) < LEAST_CUPY:
        return Unusable(
            f"CuPy {wheel.version} is too old: {LEAST_CUPY} or newer is needed", _install(driver, "--upgrade ")
        )
    return None


def _why_no_driver(wheel: machine.Wheel, driver: int | None) -> Unusable | None:
    if driver is None:
        return Unusable("there is no driver for NVIDIA GPUs (libcuda was not found)", _DRIVER)
    if driver // 1000 < wheel.cuda:
        reason = f"the driver knows CUDA {_dotted(driver)}, and {wheel.name} needs {wheel.cuda}"
        older = f"pip uninstall -y {wheel.name}, then {_install(driver)}"
        return Unusable(reason, f"{older}; or {_DRIVER}" if driver >= 12000 else _DRIVER)
    return None


def _why_no_device() -> Unusable | None:
    found = machine.management()
    if found is None:
        return None  # who has no NVML may have a device: CUDA tells
    hides = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not found.gpus:
        if hides is None:
            return Unusable(
                "there is no NVIDIA GPU", "nvidia-smi shows what the driver sees; a container needs --gpus all"
            )
        return Unusable(
            f"CUDA_VISIBLE_DEVICES={hides!r} leaves no GPU", "unset it, or name devices that `nvidia-smi -L` shows"
        )
    if all(0 < gpu.capability < LEAST_CAPABILITY for gpu in found.gpus):
        shown = ", ".join(f"{gpu.name} has {_capability(gpu)}" for gpu in found.gpus)
        return Unusable(
            f"compute capability 7.5 is needed, and {shown}", "use a GPU of the Turing generation (2018) or newer"
        )
    return None


def _why_no_libraries(wheel: machine.Wheel, driver: int) -> Unusable | None:
    for name, what in _LIBRARIES.items():
        if not machine.library(name, _major(wheel, driver)):
            return Unusable(f"{what} of CUDA {_major(wheel, driver)} was not found", _install(driver))
    return None


def _major(wheel: machine.Wheel, driver: int) -> int:
    return wheel.cuda or driver // 1000


def _install(driver: int | None, option: str = "") -> str:
    """The command that brings a CuPy that fits the driver."""
    if driver is None:
        either = " or ".join(f'pip install {option}"atled[cuda{major}]"' for major in (12, 13))
        return f"{either}, as the driver has CUDA 12 or 13"
    return f'pip install {option}"atled[cuda{13 if driver >= 13000 else 12}]"'


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _capability(gpu: machine.Gpu) -> str:
    return f"{gpu.capability // 10}.{gpu.capability % 10}"
