"""Counts of the changes that plans must notice (EPOCH), of arrays that leave devices (MOVES), of writes (WRITES)."""

from __future__ import annotations

import itertools

from atled_contexts import when_plugins_change


class Counter:
    """One number, raised by each change of some kind."""

    __slots__ = ("_numbers", "value")

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.value = 0

    def bump(self) -> None:
        """Raise it."""
        self.value = next(self._numbers)  # no number comes twice, whichever threads do this at once


class Epoch(Counter):
    """One number, raised by each change of what plans are compiled or bound from; a plan compares it once per run.

    These changes are: need_grad, persistent, the shape of a Variable, an array put in another's place, a cast, and the
    plugins of the process.
    Writing new values into an array does not raise it.

    but_need_grad: the same for all these changes but need_grad, which programs switch off and on at each step.
    """

    __slots__ = ("but_need_grad",)

    def __init__(self) -> None:
        super().__init__()
        self.but_need_grad = 0

    def bump(self) -> None:
        """Raise it."""
        number = next(self._numbers)
        self.but_need_grad = number  # first: who sees the other one sees this one, too
        self.value = number

    def bump_need_grad(self) -> None:
        """Raise it for a change of need_grad."""
        super().bump()


EPOCH = Epoch()
when_plugins_change(EPOCH.bump)

MOVES = Counter()
"""Raised when an array that plans trust to stay on its device leaves it, or gets present copies elsewhere."""

WRITES = itertools.count(1)
"""Numbers of the writes into arrays that others notice, and of the runs of plans: what came later has a larger one."""
