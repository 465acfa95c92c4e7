"""Which results are equal bit for bit on all processors, as docs/accuracy.md says; other ones by ATLED_CPU."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from atled_cpu_numba import processor

PROGRAM = Path(__file__).with_name("computed_bits.py")


def digests(name: str, *arguments: str, threads: int) -> dict[str, dict[str, str]]:
    """What the program prints when its kernels are compiled for the processor `name`."""
    environment = {**os.environ, "ATLED_CPU": name, "ATLED_NUM_THREADS": str(threads)}
    command = [sys.executable, str(PROGRAM), *arguments]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, dict[str, str]] = json.loads(printed)
    return found


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names processors of x86-64")
def test_processors_of_one_kind_agree_bit_by_bit() -> None:
    # Vectors of 4 without fused multiply-add, of 8 with them, and what is here.
    has_haswell = not processor.missing_here(processor.parse_processor("haswell"))
    here = digests(processor.HOST, *(["fused"] if has_haswell else []), threads=1)
    assert digests("x86-64", threads=2)["everywhere"] == here["everywhere"]
    if has_haswell:
        assert digests("haswell", "fused", threads=2) == here
