"""A backend of double precision, for finite differences."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled_contexts import Context


@pytest.fixture
def double():
    """The backend on the host, of float64 and a batch of 4."""
    yield gen_backend(Context(["cpu:float", "reference:float"]), rng_seed=1, batch_size=4, datatype=np.float64)
    cleanup_backend()
