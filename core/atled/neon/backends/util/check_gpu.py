"""Which GPUs there are, as plugins tell it."""

from __future__ import annotations

import re

from atled_contexts import PluginError, best_backend, devices, plugin_facts, plugins

_CAPABILITY = re.compile(r"\bcompute capability (\d+\.\d+)")


def get_device_count(verbose: bool = False) -> int:
    """How many devices the best backend on GPUs has; 0 where there is none.

    verbose: no effect: `python -m atled doctor` shows what there is, and what is missing.
    """
    try:
        return len(devices(best_backend("gpu")))
    except PluginError:  # no plugin, no driver or no device: the count says it
        return 0


def get_compute_capability(device_id: int | None = None, verbose: bool = False) -> float:
    """NVIDIA's compute capability of a device, such as 9.0; of the best of all without an id.

    0.0 where no usable plugin for GPUs tells one, as on the emulator of CUDA.  verbose: no effect.
    """
    return max(_capabilities(device_id), default=0.0)


def _capabilities(device_id: int | None) -> list[float]:
    """What the facts that plugins for GPUs tell say of devices, "device 0": "NAME, compute capability 9.0, ..."."""
    found = []
    for record in plugins():
        if record.usable and record.info is not None and any(each.kind == "gpu" for each in record.info.backends):
            for title, text in plugin_facts(record.name).items():
                wanted = title.startswith("device ") if device_id is None else title == f"device {device_id}"
                said = _CAPABILITY.search(text) if wanted else None
                found += [float(said[1])] if said else []
    return found
