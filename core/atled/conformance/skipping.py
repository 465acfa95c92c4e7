"""Leaves out checks of calls that the plugin refuses, with its reasons."""

from __future__ import annotations

import pytest

from atled.conformance.cases import Case
from atled_contexts import Implementation


def skip_refused(case: Case) -> None:
    """Skip the check if no implementation of the plugin takes the call."""
    reason = case.subject.why_refused(case)
    if reason:
        pytest.skip(reason)


def accepting(case: Case) -> list[Implementation]:
    """The implementations that take the call; skips the check if there are none."""
    skip_refused(case)
    return case.subject.accepting(case)
