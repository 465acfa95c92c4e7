"""What the table of cached calls knows of a program by key: so that it need not import how one is compiled and run."""

from __future__ import annotations

from abc import ABC

from atled.graph.compile.plan import Plan


class Kept(ABC):
    """A program as it is kept.

    plan: its steps, by which the table is bounded.
    """

    __slots__ = ("plan",)

    plan: Plan
