"""The page about the kit names every check, and no other."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import atled.conformance

PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"


def test_the_page_lists_the_checks_that_there_are():
    modules = [m.name for m in pkgutil.iter_modules(atled.conformance.__path__) if m.name.startswith("test_")]
    checks = {
        name.removeprefix("test_")
        for module in modules
        for name in vars(import_module(f"atled.conformance.{module}"))
        if name.startswith("test_")
    }
    table = PAGE.read_text("utf-8").partition("## What is checked")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`([a-z_]+)`", table)) - {"reference", "get_extension_context", "channel_last", "test_"}
    assert listed == checks


def test_every_check_says_what_it_demands():
    for module in pkgutil.iter_modules(atled.conformance.__path__):
        if module.name.startswith("test_"):
            for name, check in vars(import_module(f"atled.conformance.{module.name}")).items():
                assert not name.startswith("test_") or check.__doc__, name
