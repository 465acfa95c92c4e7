"""The folder of object files: where compiled kernels are kept between processes, each under the key of its content."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import time
import warnings
from pathlib import Path

from atled_cpu_numba.machine_code import ObjectCode

FORMAT = 2  # of the files; part of every key
LIMIT_BYTES = 512 << 20  # of the folder; a full set of kernels takes a few MiB, generated ones some KiB each

_MAGIC = b"ATLEDOBJ"
_DIGEST_BYTES = hashlib.sha256().digest_size

_warned = False
_trimmed = False


class StoreWarning(RuntimeWarning):
    """Compiled kernels cannot be kept, so the next process will compile them again."""


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
    """Whether there is a file for `key`; it may still prove damaged."""
    try:
        return _path(key).is_file()
    except (OSError, RuntimeError):  # told when the kernel is written
        return False


def read(key: str) -> ObjectCode | None:
    """The object code stored under `key`; None if there is none or its file is damaged."""
    try:
        path = _path(key)
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:
        _warn(error)
        return None
    compiled = _decode(data, key)
    if compiled is not None:
        _mark_used(path)
    return compiled


def write(key: str, name: str, compiled: ObjectCode) -> None:
    """Store object code under `key`: beside its place, then renamed, so that nobody ever reads half a file.

    name: the kernel's, for people who look into the file. Where that is impossible (read-only or full disk), warns once
    with StoreWarning.
    """
    import tempfile  # not needed, and 3 ms, where everything is stored already

    try:
        path = _path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=key[:16] + "-", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_encode(key, name, compiled))
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            if not path.exists():  # Windows refuses to replace a file that another process reads: it is there then
                raise
        _trim(path.parent)
    except (OSError, RuntimeError) as error:
        _warn(error)


def clear() -> None:
    """Remove all stored kernels. Raises OSError where that is not allowed."""
    for path in _stored_files(folder()):
        path.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return folder() / f"{key}.o"


def _encode(key: str, name: str, compiled: ObjectCode) -> bytes:
    """magic, SHA-256 of the rest, length of the JSON header, the header, the object file."""
    fields = {"key": key, "name": name, "symbol": compiled.symbol, "undefined": compiled.undefined}
    header = json.dumps(fields).encode()
    content = struct.pack("<I", len(header)) + header + compiled.code
    return _MAGIC + hashlib.sha256(content).digest() + content


def _decode(data: bytes, key: str) -> ObjectCode | None:
    """The reverse; None unless every byte is as it was written and the key is the one in the file's name."""
    start = len(_MAGIC) + _DIGEST_BYTES
    content = data[start:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != hashlib.sha256(content).digest():
        return None
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    if header["key"] != key:
        return None
    return ObjectCode(content[4 + length :], header["symbol"], tuple(header["undefined"]))


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
            status = path.stat()
        except FileNotFoundError:  # another process trims
            continue
        abandoned = path.suffix == ".tmp" and time.time() - status.st_mtime > 3600
        found.append((0.0 if abandoned else status.st_mtime, status.st_size, path, abandoned))
    total = sum(size for _, size, _, _ in found)
    for _, size, path, abandoned in sorted(found):
        if not abandoned and total <= LIMIT_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= size


def _warn(error: Exception) -> None:
    """Say once per process that kernels are not kept."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"atled cannot keep compiled cpu kernels ({error}), so every process compiles them again. "
        "Set ATLED_CACHE_DIR to a folder that can be written.",
        StoreWarning,
        stacklevel=4,
    )
