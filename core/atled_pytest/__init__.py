"""Lets `pytest --pyargs atled.conformance` know the conformance kit's options; does nothing in any other run.

pytest loads this for every run on a machine that has atled, so it imports nothing and adds no option unless the kit
is asked for: `--device`, for one, is a name that other projects use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

KIT = "atled.conformance"


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Load the kit's own pytest plugin, if the command line names the kit."""
    if any(_names_kit(argument) for argument in args):
        early_config.pluginmanager.register(importlib.import_module(f"{KIT}.pytest_hooks"), "atled_conformance")


def _names_kit(argument: str) -> bool:
    return argument.partition("::")[0].partition("[")[0] == KIT or argument.startswith(f"{KIT}.")
