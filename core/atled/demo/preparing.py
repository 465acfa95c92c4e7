"""Adding up what plugins report of slow preparation, such as compiling kernels."""

from __future__ import annotations

import time

from atled_contexts import Preparation


class PreparationLog:
    """Count and time of the pieces that were prepared; a watcher for `atled_contexts.watch_preparation`."""

    def __init__(self) -> None:
        self.count = 0
        self._seconds = 0.0
        # By plugin, since each has one batch at a time: when the piece now under way began.
        self._since: dict[str, float] = {}

    def __call__(self, report: Preparation) -> None:
        """Take note of a report: it ends the piece before and, unless its batch is through, begins the next."""
        now = time.perf_counter()
        begun = self._since.pop(report.plugin, None)
        if begun is not None:
            self.count += 1
            self._seconds += now - begun
        if not report.is_finished:
            self._since[report.plugin] = now

    def seconds(self) -> float:
        """Spent on all pieces that are ready."""
        return self._seconds
