"""Cases that need no library, for the tests of the harness."""

from __future__ import annotations

import itertools
import os
import time

from harness.case import Case


def make(library: str, value: float = 1.0) -> Case:
    print("libraries may print")
    return Case(lambda: sum(range(100)), lambda: [[value, 2.0], [[value]]], f"by {library}")


def fail(library: str) -> Case:
    if library == "ours":
        return make(library)
    raise RuntimeError("no such kernel")


def die(library: str) -> Case:
    if library == "ours":
        return make(library)
    os._exit(3)


def linger(library: str) -> Case:
    if library == "peer":
        time.sleep(60)  # longer than the limit, at which the process is ended
    return make(library)


def reading(library: str) -> Case:
    """1, 2, 3 ... MB for us, twice that for the peer."""
    figures = itertools.count(1e6, 1e6) if library == "ours" else itertools.count(2e6, 2e6)

    def run() -> float:
        time.sleep(0.002)
        return next(figures)

    return Case(run, is_reading=True)


def slow_at_first(library: str) -> Case:
    """As what is compiled at the first call."""
    pauses = itertools.chain([0.3], itertools.repeat(0))
    return Case(lambda: time.sleep(next(pauses)))
