"""Where the plugin cannot work it says why, before it is asked for a kernel."""

from __future__ import annotations

import os

import pytest

from atled.plugin import Unusable, Usable
from atled_cpu_numba import plugin


def test_within_an_archive_it_is_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(plugin.PLUGIN.atled_probe(), Usable)
    folder = os.path.join("program.zip", "atled_cpu_numba")
    monkeypatch.setattr(plugin, "__file__", os.path.join(folder, "plugin.py"))
    found = plugin.PLUGIN.atled_probe()
    assert isinstance(found, Unusable)
    assert found.reason == f"{folder} is no folder: keys of kernels are made of their source files"
    assert found.remedy.startswith("unpack the archive")
