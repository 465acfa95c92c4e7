"""The trace and the verification in force, in one context variable: reading it costs next to nothing."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

from atled_contexts.surroundings import change_everywhere

if TYPE_CHECKING:
    from atled_contexts.tracing import Trace
    from atled_contexts.verification import Verification


class Observation:
    """A trace, a verification, or both.

    active: whether calls must take the slower path on which they are recorded or verified.
    trace: what collects them, or None.
    """

    __slots__ = ("_verification", "active", "trace")

    def __init__(self, trace: Trace | None = None, verification: Verification | bool = True) -> None:
        self.trace = trace
        self.active = trace is not None or not isinstance(verification, bool)
        # True: that of the process, as it is at the time of reading.
        self._verification = verification

    @property
    def verification(self) -> Verification | None:
        """What recomputes a share of the calls, or None."""
        if self._verification is True:
            return _of_process
        return self._verification or None

    def with_trace(self, trace: Trace) -> Observation:
        """This one with another trace."""
        return Observation(trace, self._verification)

    def with_verification(self, verification: Verification | None) -> Observation:
        """This one with another verification; None for none at all."""
        return Observation(self.trace, False if verification is None else verification)


_outside = Observation()
_of_process: Verification | None = None
present: contextvars.ContextVar[Observation] = contextvars.ContextVar("atled_observation", default=_outside)


def is_observed() -> bool:
    """Whether anything watches the calls made here and now."""
    return present.get().active


def active_trace() -> Trace | None:
    """The trace of the innermost `with trace():` around here, or None."""
    return present.get().trace


def active_verification() -> Verification | None:
    """The verification in force here: of the innermost `with verify(...):`, else that of ATLED_VERIFY; or None."""
    return present.get().verification


def verify_process(verification: Verification | None) -> None:
    """Set the verification outside of all scopes, for every thread."""
    global _of_process
    _of_process = verification
    _outside.active = verification is not None
    change_everywhere()
