"""Backends for layers."""

import numpy as np
import pytest
from tests.core.neon.conftest import CONTEXTS

from atled.neon.backends import cleanup_backend, gen_backend


@pytest.fixture(params=CONTEXTS)
def exact(request):
    """A backend whose floats are exact enough for differences."""
    yield gen_backend(CONTEXTS[request.param], rng_seed=1, datatype=np.float64, batch_size=4)
    cleanup_backend()
