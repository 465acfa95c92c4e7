"""What the kit says of a plugin's identity that no plugin on the path can show: it is about an installed one."""

from types import SimpleNamespace

import pytest

from atled.conformance import test_registration as checks


def subject(named, installed):
    """A plugin that names one distribution and came with another."""
    info = SimpleNamespace(distribution=named, version="1.0")
    return SimpleNamespace(info=info, record=SimpleNamespace(distribution=installed), backends=())


def test_a_plugin_that_names_another_distribution_than_its_own_is_told():
    with pytest.raises(
        AssertionError, match="it names 'atled-old' as its distribution, and is installed by 'atled-new'"
    ):
        checks.test_info(subject("atled-old", "atled-new"))


def test_names_are_compared_as_pip_does():
    checks.test_info(subject("Atled_New.GPU", "atled-new-gpu"))
