"""Verification: picks and counts the calls that the reference computes a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from atled_contexts.errors import message
from atled_contexts.forks import lock_across_forks
from atled_contexts.observation import present, verify_process
from atled_contexts.surroundings import SetWithin


class Verification:
    """Picks calls at random, with a random generator of its own, and counts.

    rate: share of the calls that are checked, 0 to 1.
    calls: calls that could have been checked.  checked: those that were.  by_op: of these, per op.
    """

    def __init__(self, rate: float) -> None:
        import random  # lazy, for the import cost

        self.rate = rate
        self.calls = 0
        self.by_op: dict[str, int] = {}
        # Not every n-th call: a program that repeats the same n ops would have only one of them checked.
        self._random = random.Random(0)
        self._lock = lock_across_forks()  # re-entrant, as that of a trace

    @property
    def checked(self) -> int:
        """How many calls were checked."""
        return sum(self.by_op.values())

    def wants(self, op: str) -> bool:
        """Whether this call is to be checked; counts it."""
        with self._lock:
            self.calls += 1
            chosen = self._random.random() < self.rate
            if chosen:
                self.by_op[op] = self.by_op.get(op, 0) + 1
            return chosen

    def __repr__(self) -> str:
        return f"<Verification {self.rate:g}: {self.checked} of {self.calls} calls checked>"


@contextmanager
def verify(rate: float = 1.0) -> Iterator[Verification]:
    """Within the block, this share of the op calls is computed a second time by the op's reference and compared.

        with nn.verify(0.01) as checks:
            train()

    The first call that differs by more than its op's tolerance raises VerificationError, and so does one that changes
    an input which its op leaves alone, or writes beside an output in host memory. Calls of the reference itself are
    left out. 0 checks nothing in the block, also where ATLED_VERIFY is set.

    ValueError or TypeError: `rate` is not a number from 0 to 1.
    """
    checked = _checked(rate)
    chosen = Verification(checked) if checked else None
    with SetWithin(present, present.get().with_verification(chosen)):
        yield chosen or Verification(0.0)


def _checked(rate: float) -> float:
    asked = f"verify({rate!r})"
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise TypeError(message(asked, f"that is {type(rate).__name__}, not a number", "", "pass a number from 0 to 1"))
    if not 0 <= rate <= 1:
        raise ValueError(message(asked, "is not from 0 to 1", "", "pass the share of calls to check, 1 for all"))
    return float(rate)


def verify_by_setting(rate: float) -> None:
    """Take the value of ATLED_VERIFY for the whole process."""
    verify_process(Verification(rate) if rate else None)
