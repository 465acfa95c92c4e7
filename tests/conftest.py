"""Tests without parameters, and memory that shows misuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from atled.arrays.storage import HostStorage
from atled.parameter import clear_parameters

# Before any test: pytester forgets what is first imported within its runs. Imported again, it would make another
# bfloat16, of which what has the first one knows nothing.
with contextlib.suppress(ImportError):  # an extra
    import ml_dtypes  # noqa: F401  as said above


@pytest.fixture
def no_parameters() -> Iterator[None]:
    """The test starts without parameters, and leaves none behind."""
    clear_parameters()
    yield
    clear_parameters()


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill memory with NaN when it is freed, and when it is handed out: a value read from a wrong place shows."""
    make, free = HostStorage.__init__, HostStorage.__del__

    def filled(storage: HostStorage, *arguments: Any) -> None:
        make(storage, *arguments)
        storage._buffer[0].fill(0xFF)  # NaN in every float dtype

    def poison(storage: HostStorage) -> None:
        # One without memory was made to find out where its slots lie.
        if hasattr(storage, "_buffer") and not storage.has_live_view:
            storage._buffer[0].fill(0xFF)
        free(storage)

    monkeypatch.setattr(HostStorage, "__init__", filled)
    monkeypatch.setattr(HostStorage, "__del__", poison)
