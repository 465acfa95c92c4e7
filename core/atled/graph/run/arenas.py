"""Which arenas a plan has: those that the plans of a thread share."""

from __future__ import annotations

import contextlib
import threading
import weakref

from atled.arrays.arena import Arena, arenas_on
from atled.arrays.place import Place
from atled.errors import OutOfMemoryError, four_parts, listing
from atled.graph.compile.plan import Plan
from atled.limits.sizes import in_units

_LEAST_STEP = 8  # 256 bytes


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.latest: dict[Place, weakref.ref[Arena]] = {}


_of_thread = _OfThread()


def arena_for(plan: Plan, place: Place) -> Arena:
    """An arena for a plan: what this thread's plans have, if that is free and large enough, or else a new one.

    What the device raises is told with what was asked for, and for what.
    """
    nbytes = plan.arenas[place].nbytes
    known = _of_thread.latest.get(place)
    latest = None if known is None else known()
    if latest is not None and latest.storage.nbytes >= nbytes and latest.free:
        return latest
    made = _made(plan, place, nbytes)
    if latest is not None and latest.storage.nbytes < nbytes:
        latest.retire()  # so that the thread has one arena in the end
    _of_thread.latest[place] = weakref.ref(made)
    return made


def _made(plan: Plan, place: Place, nbytes: int) -> Arena:
    # Rounded up, by 3 % at most where it matters: of plans that need a little more each not all get a new one.
    step = 1 << max(_LEAST_STEP, nbytes.bit_length() - 6)
    try:
        return Arena(place, -(-nbytes // step) * step, plan.title)
    except MemoryError as error:
        raise OutOfMemoryError(_why_not(plan, place, str(error))) from error
    except Exception as error:  # what a plugin raises keeps its type
        asked = f"while memory on {place} for {plan.title} was allocated, {in_units(nbytes)}"
        error.add_note(_why_not(plan, place) if _tells_of_memory(error) else asked)
        raise


def _tells_of_memory(error: Exception) -> bool:
    """Whether an error of a driver, which has a type of its own, says that there is no memory."""
    said = f"{type(error).__name__} {error}".lower().replace(" ", "").replace("_", "")
    return any(words in said for words in ("outofmemory", "memoryerror", "memoryallocation", "allocationfailure"))


def _why_not(plan: Plan, place: Place, reason: str = "") -> str:
    """The error of an arena that could not be made: for what, how much, and who has the memory."""
    assert place.array_class is not None
    layout = plan.arenas[place]
    workspace = max((nbytes for _, nbytes in layout.workspaces.values()), default=0)
    held = [f"{in_units(arena.storage.nbytes)} by {arena.made_for}" for arena in arenas_on(place)]
    in_use = None
    with contextlib.suppress(Exception):  # a device that is lost may have no statistics; its own error is raised
        in_use = place.array_class.statistics(place.device_id).get("bytes_in_use")
    considered = [f"in memory shared by plans: {listing(held)}" if held else ""]
    considered.append("" if in_use is None else f"in use on {place}: {in_units(in_use)}")
    return four_parts(
        f"memory on {place} for {plan.title}",
        f"there is none for {in_units(layout.nbytes)}, which its {len(layout.memories)} inner arrays and workspaces "
        f"(of up to {in_units(workspace)}) take at once{f' ({reason})' if reason else ''}",
        "; ".join(filter(None, considered)),
        "use smaller batches, or drop arrays and graphs that are not needed",
    )
