"""NervanaObject: what everything that computes with the present backend inherits."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from atled.neon.backends.backend import Backend


class NervanaObject:
    """Has the present backend, which `gen_backend` sets.

    be: the backend; None before one was made.
    """

    be: ClassVar[Backend | None] = None
