"""Reports of slow preparation reach whoever watches, and cost nothing otherwise."""

from __future__ import annotations

import pytest

from atled_contexts import is_preparation_watched, report_preparation, watch_preparation


def test_reports_reach_every_watcher_within_its_block():
    outer, inner = [], []
    with watch_preparation(outer.append):
        report_preparation("p", 0, 2, "first")
        with watch_preparation(inner.append):
            report_preparation("p", 1, 2, "second")
        report_preparation("p", 2, 2, "second")
    report_preparation("p", 0, 1, "unseen")
    assert [(r.plugin, r.done, r.total, r.name, r.is_finished) for r in outer] == [
        ("p", 0, 2, "first", False),
        ("p", 1, 2, "second", False),
        ("p", 2, 2, "second", True),
    ]
    assert [r.done for r in inner] == [1]


def test_a_plugin_can_ask_whether_anybody_watches():
    assert not is_preparation_watched()
    with watch_preparation(print):
        assert is_preparation_watched()
    assert not is_preparation_watched()


def test_the_same_watcher_twice_is_told_twice_until_each_block_ends():
    seen = []
    with watch_preparation(seen.append):
        with watch_preparation(seen.append):
            report_preparation("p", 0, 1, "x")
        report_preparation("p", 1, 1, "x")
    assert [report.done for report in seen] == [0, 0, 1]


def test_what_a_watcher_raises_reaches_the_plugin_and_the_watch_ends():
    def fail(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), watch_preparation(fail):
        report_preparation("p", 0, 1, "x")
    assert not is_preparation_watched()
