"""Files of object code: compiled kernels as they are kept between processes, each under the key of its content."""

from __future__ import annotations

import hashlib
import json
import struct
import warnings

from atled_cpu_numba import kept_files
from atled_cpu_numba.machine_code import ObjectCode

FORMAT = 2  # of the files; part of every key

_MAGIC = b"ATLEDOBJ"
_DIGEST_BYTES = hashlib.sha256().digest_size

_warned = False


class StoreWarning(RuntimeWarning):
    """Compiled kernels cannot be kept, or are not trusted, so the next process will compile them again."""


def is_refused() -> bool:
    """Whether it was told that compiled kernels are not kept, or not read."""
    return _warned


def is_stored(key: str) -> bool:
    """Whether there is a file for `key` that may be read; it may still prove damaged."""
    return kept_files.is_there(f"{key}.o")


def read(key: str) -> ObjectCode | None:
    """The object code stored under `key`; None if there is none, or its file is damaged or not trusted."""
    try:
        data = kept_files.read(f"{key}.o")
    except kept_files.UntrustedError as error:
        _warn(f"does not use compiled cpu kernels of its cache: {error.args[0]}", error.args[1])
        return None
    except (OSError, RuntimeError) as error:
        _warn(f"cannot read compiled cpu kernels: {error}")
        return None
    return None if data is None else decoded(data, key)


def write(key: str, name: str, compiled: ObjectCode) -> None:
    """Store object code under `key`.

    name: the kernel's, for people who look into the file. Where that is impossible (read-only or full disk, a folder
    that others may write into), warns once with StoreWarning.
    """
    try:
        kept_files.write(f"{key}.o", encoded(key, name, compiled))
    except kept_files.UntrustedError as error:
        _warn(f"does not keep compiled cpu kernels: {error.args[0]}", error.args[1])
    except (OSError, RuntimeError) as error:
        _warn(f"cannot keep compiled cpu kernels: {error}")


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
