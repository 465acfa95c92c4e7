"""The backends on which behaviour that is not about one backend is checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import atled as nn


@pytest.fixture(params=["reference", "cpu"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with this backend as the only one; skipped where no plugin brings it."""
    try:
        context = nn.Context([f"{request.param}:float"], fallback="raise")
    except ValueError as error:
        pytest.skip(f"backend {request.param} is not installed: {error}")
    with nn.context_scope(context):
        yield request.param
