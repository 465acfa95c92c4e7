"""neon's name for the module of the iterators: what the package has."""

from __future__ import annotations

from atled.neon.data.array_iterator import ArrayIterator
from atled.neon.data.iterator import NervanaDataIterator

__all__ = ["ArrayIterator", "NervanaDataIterator"]
