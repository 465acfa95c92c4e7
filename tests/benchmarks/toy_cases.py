"""Cases that need no library, for the tests of the harness."""

from __future__ import annotations

import os

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
