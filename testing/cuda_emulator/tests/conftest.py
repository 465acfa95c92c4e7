"""An empty machine for each test."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

import atled_cuda_emulator


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    """The stand-in, with two empty devices."""
    if reason := atled_cuda_emulator.unusable():
        pytest.skip(reason)
    yield atled_cuda_emulator.install()
    atled_cuda_emulator.uninstall()
