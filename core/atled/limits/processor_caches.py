"""How much of what was just written a core of the processor still has at hand."""

from __future__ import annotations

import os
from functools import cache

_TYPICAL_BYTES = 1 << 20
_FOLDER = "/sys/devices/system/cpu/cpu0/cache"
_UNITS = {"K": 10, "M": 20}


@cache
def core_cache_bytes(folder: str = _FOLDER) -> int:
    """The bytes of the cache of level 2, which a core has to itself or shares with few; 1 MiB where nobody says.

    folder: where Linux describes the caches of a core.
    """
    listed = sorted(os.listdir(folder)) if os.path.isdir(folder) else ()
    for index in [name for name in listed if name.startswith("index")]:
        try:
            level, size = (_text(folder, index, name) for name in ("level", "size"))
        except OSError:  # a container may show the folder and hide files in it
            continue
        if level == "2" and size[:-1].isdecimal() and size[-1] in _UNITS:
            return int(size[:-1]) << _UNITS[size[-1]]
    return _TYPICAL_BYTES


def _text(*names: str) -> str:
    with open(os.path.join(*names)) as file:
        return file.read().strip()
