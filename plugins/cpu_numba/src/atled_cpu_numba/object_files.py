"""The folder of object files: where compiled kernels are kept between processes, each under the key of its content.

What is loaded is executed, so the folder and its files must be this user's or root's, and nobody else may write into
them. That is asked of the file itself, once it is open; folders above may be anybody's, /tmp for one: who exchanges our
folder for another one has one of their own. On Windows, where owners and permissions are others, nothing is asked: the
folder is in the user's own, which others may not write into.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
import sys
import time
import warnings
from pathlib import Path

from atled_cpu_numba.machine_code import ObjectCode

FORMAT = 2  # of the files; part of every key
_LARGEST_FILE = 64 << 20
LIMIT_BYTES = 512 << 20  # of the folder; a full set of kernels takes a few MiB, generated ones some KiB each

_MAGIC = b"ATLEDOBJ"
_DIGEST_BYTES = hashlib.sha256().digest_size

_warned = False
_trimmed = False


class StoreWarning(RuntimeWarning):
    """Compiled kernels cannot be kept, or are not trusted, so the next process will compile them again."""


class UntrustedError(Exception):
    """A folder or file that somebody else may have written. args: what is wrong, and what to do."""


def folder() -> Path:
    """`$ATLED_CACHE_DIR/cpu-numba`, or `atled/cpu-numba` in the platform's folder for caches.

    Raises RuntimeError if the user has no home folder.
    """
    chosen = os.environ.get("ATLED_CACHE_DIR")
    if chosen:
        return Path(chosen) / "cpu-numba"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "atled" / "cpu-numba"


def is_stored(key: str) -> bool:
    """Whether there is a file for `key` that may be read; it may still prove damaged."""
    try:
        path = _path(key)
        _check_folder(path.parent)
        _check_file(path, os.lstat(path))
    except (OSError, RuntimeError, UntrustedError):  # told when the kernel is read or written
        return False
    return True


def read(key: str) -> ObjectCode | None:
    """The object code stored under `key`; None if there is none, or its file is damaged or not trusted."""
    try:
        path = _path(key)
        _check_folder(path.parent)
        data = _content(path)
    except FileNotFoundError:
        return None
    except UntrustedError as error:
        _warn(f"does not use compiled cpu kernels of its cache: {error.args[0]}", error.args[1])
        return None
    except (OSError, RuntimeError) as error:
        _warn(f"cannot read compiled cpu kernels: {error}")
        return None
    compiled = decoded(data, key)
    if compiled is not None:
        _mark_used(path)
    return compiled


def write(key: str, name: str, compiled: ObjectCode) -> None:
    """Store object code under `key`: beside its place, then renamed, so that nobody ever reads half a file.

    name: the kernel's, for people who look into the file. Where that is impossible (read-only or full disk, a folder
    that others may write into), warns once with StoreWarning.
    """
    import tempfile  # not needed, and 3 ms, where everything is stored already

    try:
        path = _path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(path.parent)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=key[:16] + "-", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(encoded(key, name, compiled))
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            if not path.is_file():  # Windows refuses to replace a file that another process reads: it is there then
                raise
        _trim(path.parent)
    except UntrustedError as error:
        _warn(f"does not keep compiled cpu kernels: {error.args[0]}", error.args[1])
    except (OSError, RuntimeError) as error:
        _warn(f"cannot keep compiled cpu kernels: {error}")


def clear() -> None:
    """Remove all stored kernels. Raises OSError where that is not allowed."""
    for path in _stored_files(folder()):
        path.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return folder() / f"{key}.o"


def _check_folder(where: Path) -> None:
    """Raise UntrustedError for a folder that somebody else may write into; FileNotFoundError where there is none."""
    _check_owner(f"folder {where}", os.stat(where), f"`chmod go-w {where}`")


def _content(path: Path) -> bytes:
    """The bytes of a stored file; of the very one that was checked, whatever takes its name meanwhile.

    A link, a pipe, a folder or a giant in its place counts as a file that is not there: the kernel is compiled, and
    stored in that place where it can be.
    """
    # Where there are such flags: a link is not followed, a pipe is not waited for.
    flags = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
    try:
        descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise FileNotFoundError(error.errno, "not a file", str(path)) from error
        raise
    try:
        status = os.fstat(descriptor)
        _check_file(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read(status.st_size)


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
        raise FileNotFoundError(errno.ENOENT, "not a file of compiled code", str(path))
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


def encoded(key: str, name: str, compiled: ObjectCode) -> bytes:
    """magic, SHA-256 of the rest, length of the JSON header, the header, the object file."""
    fields = {"key": key, "name": name, "symbol": compiled.symbol, "undefined": compiled.undefined}
    header = json.dumps(fields).encode()
    content = struct.pack("<I", len(header)) + header + compiled.code
    return _MAGIC + hashlib.sha256(content).digest() + content


def decoded(data: bytes, key: str) -> ObjectCode | None:
    """The reverse; None unless every byte is as it was written and the key is the one in the file's name."""
    start = len(_MAGIC) + _DIGEST_BYTES
    content = data[start:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != hashlib.sha256(content).digest():
        return None
    try:
        (length,) = struct.unpack_from("<I", content)
        header = json.loads(content[4 : 4 + length])
        found, symbol, undefined = header["key"], header["symbol"], header["undefined"]
    except (ValueError, KeyError, TypeError, RecursionError, struct.error):  # a digest proves no more than itself
        return None
    if found != key or not isinstance(symbol, str) or not isinstance(undefined, list):
        return None
    if not all(isinstance(name, str) for name in undefined):
        return None
    return ObjectCode(content[4 + length :], symbol, tuple(undefined))


def _mark_used(path: Path) -> None:
    """Set the file's time, by which `_trim` chooses; in a folder that is only readable nobody trims."""
    if os.access(path, os.W_OK):
        os.utime(path)


def _stored_files(where: Path) -> list[Path]:
    return sorted([*where.glob("*.o"), *where.glob("*.tmp")])


def _trim(where: Path) -> None:
    """Once per process: remove what died half-written, and the longest unused files beyond the limit."""
    global _trimmed
    if _trimmed:
        return
    _trimmed = True
    found = []
    for path in _stored_files(where):
        try:
            status = path.lstat()
        except FileNotFoundError:  # another process trims
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        abandoned = path.suffix == ".tmp" and time.time() - status.st_mtime > 3600
        found.append((0.0 if abandoned else status.st_mtime, status.st_size, path, abandoned))
    total = sum(size for _, size, _, _ in found)
    for _, size, path, abandoned in sorted(found):
        if not abandoned and total <= LIMIT_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= size


def _warn(what: str, remedy: str = "set ATLED_CACHE_DIR to a folder that can be written") -> None:
    """Say once per process that kernels are compiled again."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"atled {what}. They are compiled in memory, again in every process. What to do: {remedy}.",
        StoreWarning,
        stacklevel=4,
    )
