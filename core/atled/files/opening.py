"""Opening files for reading: regular ones only, since a pipe or a device may never begin or never end."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader

from atled.errors import four_parts

_KINDS = (
    (stat.S_ISDIR, "a folder", errno.EISDIR),
    (stat.S_ISFIFO, "a pipe, which would be waited for", errno.EINVAL),
    (stat.S_ISCHR, "a device", errno.EINVAL),
    (stat.S_ISBLK, "a device", errno.EINVAL),
    (stat.S_ISSOCK, "a socket", errno.EINVAL),
)


def open_regular(asked: str, path: str | os.PathLike[str], remedy: str = "check the path") -> BufferedReader:
    """A regular file, opened for reading bytes; links are followed.

    asked: what is said of it where it fails.  remedy: what to do then.

    Raises OSError, of the class that its number stands for: the file is missing, must not be read, or is not regular.
    """
    try:
        # A pipe would make open() wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OSError(number, four_parts(asked, f"the file could not be read ({reason})", "", remedy)) from error
    try:
        mode = os.fstat(descriptor).st_mode
        for is_kind, kind, number in _KINDS:
            if is_kind(mode):
                raise OSError(number, four_parts(asked, f"it is {kind}, not a regular file", "", remedy))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
