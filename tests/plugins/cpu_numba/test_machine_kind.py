"""One name for a kind of machine, whatever the system calls it."""

from __future__ import annotations

import platform

import pytest

from atled_cpu_numba import pool_ir, processor
from atled_cpu_numba.machine_kind import machine_kind

KINDS = {
    "x86_64": ("x86_64", "AMD64", "amd64"),  # Linux and macOS, Windows, the BSDs
    "aarch64": ("aarch64", "arm64", "ARM64"),  # Linux, macOS and the BSDs, Windows
    "riscv64": ("riscv64",),
}
NAMES = [(kind, name) for kind, names in KINDS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_systems_have_several_names_for_one_kind(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: name)
    assert machine_kind() == kind


@pytest.mark.parametrize("name", KINDS["aarch64"])
def test_aarch64_converts_half_and_fuses_by_instructions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: name)
    assert processor.has_half_instructions() and processor.has_fused_instructions()
    assert not processor.has_masked_stores()


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_the_pool_is_the_same_under_all_names_of_a_kind(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for each in (kind, name):
        monkeypatch.setattr(platform, "machine", lambda each=each: each)
        written.append(pool_ir.pool_ir(pthreads=True, places=False))
    assert written[0] == written[1]
    assert ("cntvct_el0" in written[0]) == (kind == "aarch64")
    assert ("readcyclecounter" in written[0]) == (kind == "x86_64")
