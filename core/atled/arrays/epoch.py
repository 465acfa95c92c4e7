"""Two counts: of the changes that compiled plans must notice (EPOCH), and of writes into arrays (WRITES)."""

from __future__ import annotations

import itertools

from atled_contexts import when_plugins_change


class Epoch:
    """One number, raised by each change of what plans are compiled or bound from; a plan compares it once per run.

    These changes are: need_grad, persistent, the shape of a Variable, an array put in another's place, a cast, and the
    plugins of the process.
    Writing new values into an array does not raise it.
    """

    __slots__ = ("_numbers", "value")

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.value = 0

    def bump(self) -> None:
        """Raise it: all plans check what they were made from before their next run."""
        self.value = next(self._numbers)  # no number comes twice, whichever threads do this at once


EPOCH = Epoch()
when_plugins_change(EPOCH.bump)

WRITES = itertools.count(1)
"""Numbers of the writes into arrays that others notice, and of the runs of plans: what came later has a larger one."""
