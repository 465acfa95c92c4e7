"""The processor says the same of itself on each core, and what the system read of it at its start."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atled_cpu_numba import code_memory, cpuid, processor

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

    def registers(number: int, sub: int) -> tuple[int, ...]:
        asked.append((number, sub))
        return 7, 0, 0, 0

    assert len(cpuid._answers(registers, cpuid._LEAVES)) == 6 * 5
    assert max(asked) == (7, 2)


def test_features_are_those_that_llvm_finds() -> None:
    found = processor._ask_host().features.split(",")
    assert cpuid.features() == {name: f"+{name}" in found for name in cpuid._FEATURES}


@pytest.mark.parametrize(("saved", "there"), [(0, {"sse3", "lzcnt"}), (0x6, {"avx2", "fma"}), (0xE6, {"avx512vl"})])
def test_registers_that_the_system_does_not_save_have_no_features(
    monkeypatch: pytest.MonkeyPatch, saved: int, there: set[str]
) -> None:
    """On a processor that has everything."""

    @contextlib.contextmanager
    def asked() -> Iterator[Any]:
        yield lambda leaf, _: (leaf | 7, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), saved

    monkeypatch.setattr(cpuid, "_asked", asked)
    found = cpuid.features.__wrapped__()
    assert found is not None
    known = [{"sse3", "lzcnt"}, {"avx2", "fma"}, {"avx512vl"}, {"amx-tile"}]
    expected = set().union(*known[: known.index(there) + 1])
    assert {name for name in set().union(*known) if found[name]} == expected


@pytest.mark.parametrize("level", processor._LEVELS)
def test_levels_have_the_features_that_llvm_knows_them_by(level: str) -> None:
    """And nothing else that this machine's processor is asked for."""
    of_llvm = processor._features_of(processor.Processor(level, ""), tuple(cpuid._FEATURES))
    assert of_llvm == set(processor._features_of_level(level))


@pytest.mark.parametrize("level", processor._LEVELS)
def test_levels_of_this_machine_are_those_that_llvm_finds(level: str) -> None:
    other = processor.Processor(level, "")
    if processor.target() is not processor.host():
        pytest.skip("ATLED_CPU names another processor")
    assert processor.includes(other) == processor._is_inlined([(level, "")], processor.target())[0]
