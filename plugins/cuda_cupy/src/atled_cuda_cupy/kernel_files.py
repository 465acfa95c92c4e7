"""Compiled kernels on disk, beside those of CuPy: in CUPY_CACHE_DIR, else in the user's .cupy/kernel_cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path

_DIGEST = hashlib.sha256().digest_size

_warned = False


def load(key: str) -> bytes | None:
    """What was saved; None where nothing is, or what is there is damaged."""
    try:
        kept = _path(key).read_bytes()
    except OSError:
        return None
    digest, code = kept[:_DIGEST], kept[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def save(key: str, code: bytes) -> None:
    """Keep it for later processes; where nothing can be written (a full disk, say) it warns once."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY") == "1":
        return
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with open(descriptor, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
    except OSError as error:
        _warn(error)


def _warn(error: OSError) -> None:
    """Say once per process that kernels are compiled again."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"atled cannot keep compiled cuda kernels: {error}. They are compiled again in every process. "
        "What to do: set CUPY_CACHE_DIR to a folder that can be written, or CUPY_CACHE_IN_MEMORY=1.",
        RuntimeWarning,
        stacklevel=3,
    )


def has(key: str) -> bool:
    """Whether it was saved."""
    return _path(key).exists()


def _path(key: str) -> Path:
    folder = os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"
    return Path(folder).expanduser() / f"atled-{key}.cubin"
