"""The Context that expressions are computed in, for each backend that tests compute with."""

import pytest

from atled_contexts import Context, context_scope

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"]),
    "reference": Context(["reference:float"]),
}


@pytest.fixture(params=CONTEXTS)
def backend(request):
    """The name of the backend whose Context is in force."""
    with context_scope(CONTEXTS[request.param]):
        yield request.param


@pytest.fixture
def cpu():
    """The host's Context in force."""
    with context_scope(CONTEXTS["cpu"]):
        yield
