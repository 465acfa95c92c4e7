"""Preparation that takes a while, such as compiling kernels: plugins report it, programs show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atled_contexts.forks import lock_across_forks


class Preparation:
    """One report: a plugin is about to prepare something, or has just finished.

    plugin: its name.  name: what is prepared next; with done == total, what was prepared last.
    done, total: counts of the present batch as far as the plugin knows it, 0 <= done <= total. A batch ends with
        the report with done == total; the next one may follow at once.
    """

    __slots__ = ("done", "name", "plugin", "total")

    def __init__(self, plugin: str, done: int, total: int, name: str) -> None:
        self.plugin = plugin
        self.done = done
        self.total = total
        self.name = name

    @property
    def is_finished(self) -> bool:
        """Whether the batch is done, so that no thread waits for this plugin any more."""
        return self.done >= self.total

    def __repr__(self) -> str:
        return f"Preparation({self.plugin!r}, {self.done} of {self.total}, {self.name!r})"


Watcher = Callable[[Preparation], None]

_lock = lock_across_forks()
_watchers: tuple[Watcher, ...] = ()


@contextmanager
def watch_preparation(watcher: Watcher) -> Iterator[None]:
    """Within the block, `watcher` gets every report of preparation in the process, in the thread that prepares.

        with watch_preparation(lambda report: print(report.plugin, report.name)):
            loss.forward()

    Plugins that would else show their progress themselves leave it to the watcher. What it raises reaches the call
    that waits for the preparation.
    """
    global _watchers
    with _lock:
        _watchers = (*_watchers, watcher)
    try:
        yield
    finally:
        with _lock:
            place = len(_watchers) - 1 - _watchers[::-1].index(watcher)  # the same watcher may be there twice
            _watchers = _watchers[:place] + _watchers[place + 1 :]


def is_preparation_watched() -> bool:
    """Whether there is a watcher to show what `report_preparation` reports."""
    return bool(_watchers)


def report_preparation(plugin: str, done: int, total: int, name: str) -> None:
    """Called by plugins before each slow piece of preparation, and once more when a batch is through.

    Arguments as the fields of `Preparation`. Costs next to nothing without a watcher.
    """
    watchers = _watchers
    if watchers:
        report = Preparation(plugin, done, total, name)
        for watcher in watchers:
            watcher(report)
