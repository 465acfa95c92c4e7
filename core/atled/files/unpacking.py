"""The limit on the bytes that a file may unpack to, so that a small one does not fill the memory."""

from __future__ import annotations

from atled.errors import four_parts
from atled.limits.sizes import in_units
from atled_contexts.settings import declare_setting, setting

_RATIO = 16
"""Parameters hardly pack at all, descriptions to a tenth. Zeros pack to a thousandth: they are below the limit."""


def _byte_count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = -1
    if count < 0:
        raise ValueError("is not a count of bytes")
    return count


declare_setting(
    "ATLED_UNPACK_LIMIT",
    _byte_count,
    1 << 30,
    f"bytes that a file may unpack to, where that is more than {_RATIO} times its size",
)


class Unpacked:
    """What has been unpacked of one file.

    asked: what is said of the file where it is too much.  packed_bytes: its size.
    """

    def __init__(self, asked: str, packed_bytes: int) -> None:
        self._asked = asked
        self._packed_bytes = packed_bytes
        self._total_bytes = 0
        self.limit_bytes = max(setting("ATLED_UNPACK_LIMIT"), _RATIO * packed_bytes)

    def add(self, nbytes: int) -> None:
        """Count bytes that are there, or are to come; ValueError where they are more than the file may have."""
        self._total_bytes += nbytes
        if self._total_bytes > self.limit_bytes:
            raise ValueError(
                four_parts(
                    self._asked,
                    f"its {in_units(self._packed_bytes)} unpack to more than {in_units(self.limit_bytes)}",
                    f"a file may unpack to {_RATIO} times its size, or to ATLED_UNPACK_LIMIT bytes",
                    "ask whoever made the file for another; if you trust it, set ATLED_UNPACK_LIMIT to as many bytes "
                    "as it needs",
                )
            )
