"""What a Context's device is told: to finish its work, and to give memory back."""

from __future__ import annotations

from atled.arrays.memory import clear_host_memory_cache
from atled.arrays.place import ArrayClass, place_on
from atled_contexts import Context, array_class, backend_info

__all__ = ["clear_kept_memory", "device_arrays", "synchronize"]


def device_arrays(context: Context) -> ArrayClass | None:
    """What holds the arrays of a Context's first backend; None for host memory."""
    if backend_info(context.backends[0][0]).host:
        return None
    found = array_class(context.array_class)
    assert isinstance(found, ArrayClass)
    return found


def synchronize(context: Context) -> None:
    """Wait until the Context's device has done all its work; the host has, at any time."""
    arrays = device_arrays(context)
    if arrays is not None:
        place_on(arrays, context.device_id).synchronize()


def clear_kept_memory(context: Context) -> None:
    """Give memory of the Context's device back that is kept for later arrays."""
    arrays = device_arrays(context)
    if arrays is None:
        clear_host_memory_cache()
    else:
        arrays.clear_memory_cache(context.device_id)
