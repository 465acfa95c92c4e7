"""Backends for layer calls."""

import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled_contexts import Context


@pytest.fixture
def reference():
    """The references of the ops, in which float64 is exact enough for differences."""
    yield gen_backend(Context(["reference:float"]), rng_seed=1, batch_size=4)
    cleanup_backend()
