"""Replacing a file: the new one is written under another name, and renamed once it is complete."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replacing(path: str | os.PathLike[str], temporary: str = "") -> Iterator[str]:
    """The path to write to within the block; at its end that file takes the place of `path`, in one step.

    After an exception it is removed, and what was at `path` before is unchanged. A link stays one, and what it leads
    to is replaced; who may read and write the file stays as it was.

    temporary: the path to write to, in the same folder; "": a name that nothing else uses.
    OSError: what is at the path is a device or a pipe.
    """
    target = os.path.realpath(path)
    beside = temporary or f"{target}.{os.urandom(8).hex()}.tmp"
    mode = _mode(target)
    try:
        yield beside
        if mode is not None:
            os.chmod(beside, mode)
        os.replace(beside, target)
    except BaseException:
        if os.path.exists(beside):
            os.remove(beside)
        raise


def _mode(path: str) -> int | None:
    """The permissions to keep; None for those of a new file."""
    try:
        found = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found) and not stat.S_ISDIR(found):  # of a folder the system itself says so
        raise OSError(errno.EINVAL, "it is no regular file", path)
    # On Windows there is one bit, and a file that has it is not replaced.
    return stat.S_IMODE(found) if os.name == "posix" else None


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8 in place of the one that is there."""
    with replacing(path) as beside, open(beside, "x", encoding="utf-8") as file:
        file.write(text)


def replace_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file in place of the one that is there."""
    with replacing(path) as beside, open(beside, "xb") as file:
        file.write(content)
