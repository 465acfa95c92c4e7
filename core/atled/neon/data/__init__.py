"""Data in batches."""

from __future__ import annotations

from atled.neon.data.array_iterator import ArrayIterator
from atled.neon.data.iterator import NervanaDataIterator

__all__ = ["ArrayIterator", "NervanaDataIterator"]
