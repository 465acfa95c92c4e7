"""Every test of layers starts and ends without parameters."""

import pytest


@pytest.fixture(autouse=True)
def _no_parameters(no_parameters):
    """As the fixture of that name, for all tests of this folder."""
