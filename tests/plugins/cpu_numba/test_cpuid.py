"""The processor says the same of itself on each core, and what the system read of it at its start."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path

import pytest

from atled_cpu_numba import code_memory, cpuid

pytestmark = pytest.mark.skipif(not code_memory.IS_KNOWN, reason="a processor without CPUID, or another system")


def leaf(number: int) -> tuple[int, ...]:
    """EAX, EBX, ECX, EDX of a leaf, as `identity` has them."""
    found = cpuid.identity()
    assert found is not None
    rows = [found[at : at + 6] for at in range(0, len(found) - 1, 6)]
    return next(row[2:] for row in rows if row[:2] == (number, 0))


def test_the_maker_is_the_one_that_the_system_names() -> None:
    _, b, c, d = leaf(0)
    maker = struct.pack("<III", b, d, c).decode()
    assert f"vendor_id\t: {maker}\n" in Path("/proc/cpuinfo").read_text()


def test_all_cores_say_the_same() -> None:
    """In threads, since a process keeps the core that it was given."""
    found = set()

    def ask(core: int) -> None:
        os.sched_setaffinity(0, [core])
        found.add(cpuid.identity.__wrapped__())

    for core in sorted(os.sched_getaffinity(0))[:8]:
        thread = threading.Thread(target=ask, args=(core,))
        thread.start()
        thread.join()
    assert found == {cpuid.identity()}


def test_leaves_that_the_processor_lacks_are_not_asked() -> None:
    """What it would say then is of another leaf."""
    asked = []

    class Stub:
        def __call__(self, number: int, sub: int, address: int) -> None:
            asked.append((number, sub))
            struct.pack_into("<I", (memoryview_at(address)), 0, 7)

    assert len(cpuid._answers(Stub(), cpuid._LEAVES)) == 6 * 5
    assert max(asked) == (7, 2)


def memoryview_at(address: int) -> memoryview:
    import ctypes

    return memoryview((ctypes.c_char * 16).from_address(address)).cast("B")
