"""The folder of what is kept between processes: compiled kernels, and what LLVM said of this machine.

What is loaded is executed, so the folder and its files must be this user's or root's, and nobody else may write into
them. That is asked of the file itself, once it is open; folders above may be anybody's, /tmp for one: who exchanges our
folder for another one has one of their own. On Windows, where owners and permissions are others, nothing is asked: the
folder is in the user's own, which others may not write into.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time

LIMIT_BYTES = 512 << 20  # of the folder; a full set of kernels takes a few MiB, generated ones some KiB each
_LARGEST_FILE_BYTES = 64 << 20
_ABANDONED_S = 3600  # without a change, after which nobody is still writing a temporary file

_KINDS = (".o", ".answer", ".tmp")  # endings of names that are ours

_trimmed = False


class UntrustedError(Exception):
    """A folder or file that somebody else may have written. args: what is wrong, and what to do."""


def folder() -> str:
    """`$ATLED_CACHE_DIR/cpu-numba`, or `atled/cpu-numba` in the platform's folder for caches.

    Raises RuntimeError if the user has no home folder.
    """
    chosen = os.environ.get("ATLED_CACHE_DIR")
    if chosen:
        return os.path.join(chosen, "cpu-numba")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _in_home("AppData", "Local")
    elif sys.platform == "darwin":
        base = _in_home("Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or _in_home(".cache")
    return os.path.join(base, "atled", "cpu-numba")


def _in_home(*names: str) -> str:
    home = os.path.expanduser("~")
    if home.startswith("~"):
        raise RuntimeError("the user has no home folder")
    return os.path.join(home, *names)


def is_there(name: str) -> bool:
    """Whether there is a file of that name that may be read; it may still prove damaged."""
    try:
        where = folder()
        path = os.path.join(where, name)
        _check_folder(where)
        _check_file(path, os.lstat(path))
    except (OSError, RuntimeError, UntrustedError):  # told when it is read or written
        return False
    return True


def read(name: str) -> bytes | None:
    """The bytes of a file of the folder, None if there is none.

    Raises UntrustedError, OSError, or RuntimeError if the user has no home folder.
    """
    where = folder()
    path = os.path.join(where, name)
    try:
        _check_folder(where)
        data = _content(path)
    except FileNotFoundError:
        return None
    _mark_used(path)
    return data


def write(name: str, data: bytes) -> None:
    """Write a file: beside its place, then renamed, so that nobody ever reads half a file. Errors as of `read`."""
    import tempfile  # not needed, and 3 ms, where everything is stored already

    where = folder()
    path = os.path.join(where, name)
    os.makedirs(os.path.dirname(where), exist_ok=True)
    os.makedirs(where, mode=0o700, exist_ok=True)
    _check_folder(where)
    descriptor, temporary = tempfile.mkstemp(dir=where, prefix=name[:16] + "-", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        if not os.path.isfile(path):  # Windows refuses to replace a file that another process reads: it is there then
            raise
    _trim(where)


def why_not_written() -> str:
    """Why files cannot be kept in the folder, as far as permissions tell, and what to do; "" where they can.

    Raises RuntimeError if the user has no home folder.
    """
    nearest = where = folder()
    while not os.path.lexists(nearest) and os.path.dirname(nearest) != nearest:
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest) or not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} cannot be written to; set ATLED_CACHE_DIR to a folder that can"
    if nearest == where:
        try:
            _check_folder(where)
        except UntrustedError as error:
            return f"{error.args[0]}; {error.args[1]}"
    return ""


def clear() -> None:
    """Remove all of them. Raises OSError where that is not allowed."""
    for path, _ in _stored_files(folder()):
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            os.unlink(path)


def _check_folder(where: str) -> None:
    """Raise UntrustedError for a folder that somebody else may write into; FileNotFoundError where there is none."""
    _check_owner(f"folder {where}", os.stat(where), f"`chmod go-w {where}`")


def _content(path: str) -> bytes:
    """The bytes of a stored file; of the very one that was checked, whatever takes its name meanwhile.

    A link, a pipe, a folder or a giant in its place counts as a file that is not there: the kernel is compiled, and
    stored in that place where it can be.
    """
    # Where there are such flags: a link is not followed, a pipe is not waited for.
    flags = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
    try:
        descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if os.path.islink(path) or os.path.isdir(path):
            raise FileNotFoundError(error.errno, "not a file", path) from error
        raise
    try:
        status = os.fstat(descriptor)
        _check_file(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read(status.st_size)


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE_BYTES:
        raise FileNotFoundError(errno.ENOENT, "not a file of compiled code", path)
    _check_owner(f"file {path}", status, "remove it")


def _check_owner(what: str, status: os.stat_result, remedy: str) -> None:
    if not hasattr(os, "getuid"):
        return
    user = os.getuid()
    if status.st_uid not in (user, 0):
        wrong = f"belongs to user {status.st_uid}, and this is user {user}"
        raise UntrustedError(f"{what} {wrong}", "remove it, or set ATLED_CACHE_DIR to a folder of your own")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "everybody" if status.st_mode & stat.S_IWOTH else f"group {status.st_gid}"
        raise UntrustedError(f"{what} can be written by {who}", remedy)


def _mark_used(path: str) -> None:
    """Set the file's time, by which `_trim` chooses; in a folder that is only readable nobody trims."""
    if os.access(path, os.W_OK):
        with contextlib.suppress(FileNotFoundError):  # another process trims
            os.utime(path)


def _stored_files(where: str) -> list[tuple[str, os.stat_result]]:
    """The files, and what links there are of their names; none where there is no folder."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(where) as entries:
        for entry in entries:
            if entry.name.endswith(_KINDS) and not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # another process trims
                    found.append((entry.path, entry.stat(follow_symlinks=False)))
    return found


def _trim(where: str) -> None:
    """Once per process: remove what died half-written, and the longest unused files beyond the limit."""
    global _trimmed
    if _trimmed:
        return
    _trimmed = True
    now, found = time.time(), []
    for path, status in _stored_files(where):
        abandoned = path.endswith(".tmp") and now - status.st_mtime > _ABANDONED_S
        found.append((0.0 if abandoned else status.st_mtime, status.st_size, path, abandoned))
    total = sum(size for _, size, _, _ in found)
    for _, size, path, abandoned in sorted(found):
        if not abandoned and total <= LIMIT_BYTES:
            break
        # As above; Windows removes no file that another process reads.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            os.unlink(path)
        total -= size
