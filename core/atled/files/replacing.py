"""Replacing a file: the new one is written under another name, and renamed once it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replacing(path: str | os.PathLike[str], temporary: str = "") -> Iterator[str]:
    """The path to write to within the block; at its end that file takes the place of `path`, in one step.

    After an exception it is removed, and what was at `path` before is unchanged.

    temporary: the path to write to, in the same folder; "": a name that nothing else uses.
    """
    beside = temporary or f"{os.fspath(path)}.{os.urandom(8).hex()}.tmp"
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.remove(beside)
        raise


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8 in place of the one that is there."""
    with replacing(path) as beside, open(beside, "x", encoding="utf-8") as file:
        file.write(text)
