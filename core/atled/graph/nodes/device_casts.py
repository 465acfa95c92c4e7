"""Casts of arrays on their device, outside of plans: by whoever computes the op there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.place import DeviceStorage, Place
from atled.graph.nodes.dispatch import context_on, describe_call
from atled.limits.caches import Generations
from atled.ops.spec import SPECS
from atled.preparing import prepare
from atled_contexts import best_candidate, plugin_generation

CastRun = Callable[[Any, Any], None]  # Any: the device's own arrays, flat

_CASTS: Generations[tuple[CastRun | None]] = Generations("device casts", 256)
_BYTE = np.dtype(np.uint8)


def cast_on(place: Place, desc: ArrayDesc, dtype: np.dtype) -> CastRun | None:
    """What casts such an array on its device, without waiting for it; None where no backend of the device does."""
    key = (place, desc, dtype, plugin_generation())
    found = _CASTS.get(key)
    if found is None:
        found = _CASTS.find_old(key)
    if found is None:
        found = _CASTS.add(key, (_made(place, desc, dtype),))
    return found[0]


def _made(place: Place, desc: ArrayDesc, dtype: np.dtype) -> CastRun | None:
    context = context_on(place)
    if context is None:
        return None
    describe = partial(describe_call, SPECS["Cast"], (desc,), {"dtype": dtype}, context)
    chosen = best_candidate("Cast", context, describe)
    if chosen is None or chosen.implementation is None:
        return None
    prepared = prepare(chosen.implementation, describe(chosen.type_config, place.device_id))
    run = prepared.run
    if run is None:
        return None
    if not prepared.workspace:
        return run

    def with_workspace(source: Any, target: Any) -> None:  # Any: see above
        run(source, target, DeviceStorage(place, prepared.workspace, _BYTE).buffer)

    return with_workspace
