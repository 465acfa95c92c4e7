"""The backends on which behaviour that is not about one backend is checked, and memory that shows misuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import atled as nn
from atled.storage import HostStorage


@pytest.fixture(params=["reference", "cpu"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with this backend as the only one; skipped where no plugin brings it."""
    try:
        context = nn.Context([f"{request.param}:float"], fallback="raise")
    except ValueError as error:
        pytest.skip(f"backend {request.param} is not installed: {error}")
    with nn.context_scope(context):
        yield request.param


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill memory with NaN when it is freed, and when it is handed out: a value read from a wrong place shows."""
    make, free = HostStorage.__init__, HostStorage.__del__

    def filled(storage: HostStorage, *arguments: Any) -> None:
        make(storage, *arguments)
        storage._buffer[0].fill(0xFF)  # NaN in every float dtype

    def poison(storage: HostStorage) -> None:
        if not storage.exported:
            storage._buffer[0].fill(0xFF)
        free(storage)

    monkeypatch.setattr(HostStorage, "__init__", filled)
    monkeypatch.setattr(HostStorage, "__del__", poison)
