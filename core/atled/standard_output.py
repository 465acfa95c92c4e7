"""The standard output of a command: where it does not take what is written, an error that is told in one line."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STATUS = 2
"""Exit status where the standard output cannot be written; that of what the user can mend."""
NOT_READ = 141
"""Exit status where its reader has left: 128 + SIGPIPE, as shells have it."""


class OutputError(Exception):
    """The standard output did not take what was written. args: the OSError.

    No OSError itself: what handles those of files, such as argparse, is not to swallow it.
    """


class _Output(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from error


def check_output() -> None:
    """Raise OutputError where the standard output is closed: before work whose result would be lost."""
    if sys.stdout is None:
        raise OutputError(OSError(errno.EBADF, os.strerror(errno.EBADF)))


@contextmanager
def told_output() -> Iterator[None]:
    """Within the block `sys.stdout` raises OutputError where it cannot be written, at the block's end at the latest.

    What its encoding lacks is written as an escape: a path in a file on Windows, for one. A stream that is not
    Python's own, as notebooks have it, stays.
    """
    out = sys.stdout
    if out is not None and not isinstance(out, io.TextIOWrapper):
        yield
        return
    ours = _closed() if out is None else _like(out)
    sys.stdout = ours
    try:
        yield
    except OutputError:
        _discard(out)
        raise
    finally:
        sys.stdout = out
        _release(ours, out)


def refused(error: OutputError, command: str) -> int:
    """Say on stderr what is wrong with the standard output; the exit status."""
    (cause,) = error.args
    if isinstance(cause, BrokenPipeError):  # the reader has left, as `| head` does
        return NOT_READ
    tell(f"{command}: the standard output cannot be written: {cause.strerror or cause}")
    return STATUS


def tell(text: str) -> None:
    """Print on stderr."""
    with contextlib.suppress(OSError):  # closed or full, too: then the exit status alone can tell
        print(text, file=sys.stderr, flush=True)


@contextmanager
def told_errors() -> Iterator[None]:
    """Within the block there is a `sys.stderr`; `print(..., file=None)` would go to the standard output."""
    if sys.stderr is not None:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _like(out: io.TextIOWrapper) -> _Output:
    with contextlib.suppress(OSError):  # what cannot be written now cannot be either when ours is flushed
        out.flush()
    return _Output(
        out.buffer,
        out.encoding,
        "backslashreplace",
        line_buffering=out.line_buffering,
        write_through=out.write_through,
    )


def _closed() -> _Output:
    """A stream that refuses what is written, as the closed one does; files opened later get other descriptors."""
    return _Output(io.FileIO(os.open(os.devnull, os.O_RDONLY), "w"), "utf-8", "backslashreplace", write_through=True)


def _release(ours: _Output, out: io.TextIOWrapper | None) -> None:
    """Flush ours, and leave what it wrote to to `out`."""
    try:
        ours.detach()
    except OutputError:
        _discard(out)
        ours.detach()
        raise


def _discard(out: io.TextIOWrapper | None) -> None:
    """What is still to be written goes nowhere: Python would fail again when it ends."""
    if out is not None:
        with contextlib.suppress(io.UnsupportedOperation):  # in memory
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
