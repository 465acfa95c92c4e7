"""A backend of neon's API over each backend that tests compute with."""

import signal

import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled_contexts import Context

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"]),
    "reference": Context(["reference:float"]),
}


@pytest.fixture(params=CONTEXTS)
def be(request):
    """A backend with a seed and a batch of 4."""
    yield gen_backend(CONTEXTS[request.param], rng_seed=1, batch_size=4)
    cleanup_backend()


@pytest.fixture
def cpu():
    """The backend on the host."""
    yield gen_backend(CONTEXTS["cpu"], rng_seed=1, batch_size=4)
    cleanup_backend()


@pytest.fixture
def ctrl_c():
    """Python's own handling of Ctrl-C, which processes in the background are started without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
