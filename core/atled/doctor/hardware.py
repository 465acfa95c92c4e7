"""Traces of hardware that a plugin could use, found without importing or starting anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from atled_contexts import PluginRecord
from atled_contexts.extras import how_to_install

_NVIDIA_DRIVER = Path("/proc/driver/nvidia")
_AMD_DRIVER = Path("/dev/kfd")
_OPENCL_VENDORS = Path("/etc/OpenCL/vendors")


def _nvidia() -> str:
    if (_NVIDIA_DRIVER / "version").exists():
        count = len(list((_NVIDIA_DRIVER / "gpus").glob("*")))
        return f"an NVIDIA driver is loaded ({count} GPU{'' if count == 1 else 's'})" if count else ""
    return "nvidia-smi is installed, which comes with an NVIDIA driver" if shutil.which("nvidia-smi") else ""


def _amd() -> str:
    return f"an AMD compute driver is loaded ({_AMD_DRIVER})" if _AMD_DRIVER.exists() else ""


def _opencl() -> str:
    folder = Path(os.environ.get("OCL_ICD_VENDORS") or _OPENCL_VENDORS)
    found = sorted(path.stem for path in folder.glob("*.icd")) if folder.is_dir() else []
    return f"OpenCL runtimes are installed ({', '.join(found)})" if found else ""


# Device family, as plugins name it in their BackendInfo, and what shows that such hardware or a runtime for it is here.
_TRACES: tuple[tuple[str, Callable[[], str]], ...] = (("cuda", _nvidia), ("rocm", _amd), ("opencl", _opencl))


def hardware_hints(records: Iterable[PluginRecord]) -> list[str]:
    """One sentence for each kind of hardware that is here while no usable plugin offers a backend for it."""
    known = tuple(records)
    hints = []
    for family, look in _TRACES:
        seen = look()
        if seen and not any(record.usable for record in _plugins_for(family, known)):
            missing = f"no usable plugin has a backend of device family {family!r}"
            hints.append(f"{seen}, but {missing}: {_remedy(family, known)}")
    return hints


def _plugins_for(family: str, records: Iterable[PluginRecord]) -> list[PluginRecord]:
    return [
        record
        for record in records
        if family in record.backends
        or any(backend.device_family == family for backend in (record.info.backends if record.info else ()))
    ]


def _remedy(family: str, records: Iterable[PluginRecord]) -> str:
    there = _plugins_for(family, records)
    if not there:
        return how_to_install(family)
    return "; ".join(f"plugin {record.name} is {record.state} ({record.reason}): {record.remedy}" for record in there)
