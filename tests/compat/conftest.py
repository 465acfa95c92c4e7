"""The drop-in, in force for one test."""

import importlib

import pytest


@pytest.fixture
def drop_in():
    """`import nnabla` means atled, until the end of the test."""
    module = importlib.import_module("atled.compat.nnabla")
    module.install()
    yield module
    module.uninstall()
