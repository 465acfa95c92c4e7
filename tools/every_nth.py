"""A pytest plugin that keeps every Nth test of those collected: `EVERY_NTH=10 pytest -p every_nth`."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first of each N, in the order of collection."""
    step = int(os.environ.get("EVERY_NTH", "1"))
    dropped = [item for number, item in enumerate(items) if number % step]
    config.hook.pytest_deselected(items=dropped)
    items[:] = items[::step]
