"""Compiling kernels is reported to whoever watches preparation."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

from atled_contexts import watch_preparation
from atled_cpu_numba import object_files, progress


def test_each_kernel_is_reported_before_it_is_compiled_and_the_last_one_after():
    seen = []
    with watch_preparation(lambda report: seen.append((report.plugin, report.done, report.total, report.name))):
        progress.expect(2)
        for name in ("one", "two"):
            with progress.compiling(name):
                seen.append(f"compiles {name}")
    assert seen == [
        ("cpu-numba", 0, 2, "one"),
        "compiles one",
        ("cpu-numba", 1, 2, "two"),
        "compiles two",
        ("cpu-numba", 2, 2, "two"),
    ]


def test_the_line_on_stderr_is_left_to_the_watcher(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_told", set())
    with watch_preparation(lambda report: None):
        progress._tell(progress._COMPILING)
    assert capsys.readouterr().err == ""
    progress._tell(progress._COMPILING)
    assert "compiling cpu kernels" in capsys.readouterr().err


@pytest.mark.parametrize("refused", [False, True])
def test_kernels_are_said_to_be_kept_unless_it_was_told_that_they_are_not(monkeypatch, capsys, refused):
    monkeypatch.setattr(progress, "_told", set())
    monkeypatch.setattr(object_files, "_warned", refused)
    progress._tell(progress._COMPILING)
    assert ("they are kept" in capsys.readouterr().err) is not refused
