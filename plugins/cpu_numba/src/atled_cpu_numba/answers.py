"""What LLVM has answered, kept in the folder of compiled kernels: who asks the same again need not load it.

An answer holds for the very library of LLVM that gave it and for the very processor that it was given on; both are part
of the key under which it is found. So a folder may serve several machines, and one may be moved to another. What is not
found there, or is damaged, is asked of LLVM.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from atled_cpu_numba import cpuid, kept_files

FORMAT = 1  # of the files; part of every key

_DIGITS = 64  # of SHA-256 in hexadecimal, which a file begins with
_LEAST_BYTES = 16 << 20  # of a file that has LLVM in it; a smaller one loads LLVM from where it may be exchanged


# Any: whatever JSON can write.
def kept(question: Sequence[Any], ask: Callable[[], Any], *, holds: Callable[[Any], bool] = lambda answer: True) -> Any:
    """The answer to a question to LLVM: as it is in the folder, else what `ask()` says, which is put there.

    question: all that the answer depends on besides LLVM and the processor of this machine.  ask: gives no None.
    holds: whether an answer is to be kept, and not of this moment alone.
    Where the folder cannot be read or written, LLVM is asked in each process; kernels that cannot be kept tell of it.
    """
    surroundings = _surroundings()
    if surroundings is None:
        return ask()
    text = json.dumps([FORMAT, surroundings, question])
    name = hashlib.sha256(text.encode()).hexdigest() + ".answer"
    answer = _decoded(_read(name), text)
    if answer is None:
        answer = ask()
        if not holds(answer):
            return answer
        with contextlib.suppress(*_REFUSALS):
            kept_files.write(name, _encoded(answer, text))
    return answer


_REFUSALS = (OSError, RuntimeError, kept_files.UntrustedError)  # told when a kernel is read or written


def _read(name: str) -> bytes | None:
    try:
        return kept_files.read(name)
    except _REFUSALS:
        return None


def _surroundings() -> list[Any] | None:
    """What tells LLVM and the processor from others; None where it is not known: then nothing is kept."""
    processor, library = cpuid.identity(), _library()
    return None if processor is None or library is None else [processor, library]


@functools.cache
def _library() -> list[Any] | None:
    """Where llvmlite is, with size and time of the file that is LLVM and of the one that has the version."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.origin:
        return None
    folder = os.path.dirname(spec.origin)
    try:
        found = [os.stat(os.path.join(folder, *path)) for path in (("binding", "libllvmlite.so"), ("_version.py",))]
    except OSError:  # installed in another form
        return None
    if found[0].st_size < _LEAST_BYTES:
        return None
    # Whole seconds: layers of containers keep no more.
    return [folder, *((status.st_size, int(status.st_mtime)) for status in found)]


def _encoded(answer: Any, question: str) -> bytes:
    content = json.dumps([question, answer]).encode()
    return hashlib.sha256(content).hexdigest().encode() + content


def _decoded(data: bytes | None, question: str) -> Any:
    """The answer; None unless every byte is as it was written, for this question."""
    if data is None or data[:_DIGITS] != hashlib.sha256(data[_DIGITS:]).hexdigest().encode():
        return None
    try:
        asked, answer = json.loads(data[_DIGITS:])
    except (ValueError, TypeError, RecursionError):  # a digest proves no more than itself
        return None
    return answer if asked == question else None
