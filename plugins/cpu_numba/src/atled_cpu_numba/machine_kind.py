"""Which kind of machine this is, by one name on all systems."""

from __future__ import annotations

import platform

_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}  # of Windows, which writes capitals, the BSDs and macOS: that of Linux


def machine_kind() -> str:
    """`x86_64`, `aarch64`, or what the system calls another one, in small letters."""
    name = platform.machine().lower()
    return _NAMES.get(name, name)
