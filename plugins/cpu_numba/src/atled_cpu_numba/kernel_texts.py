"""Kernels as LLVM IR that numba wrote beforehand: they compile in a third of the time, and without importing numba.

The texts are in one archive beside this module, each under a key of the sources it came from. One whose sources have
changed since is not found, and numba compiles the kernel then; so the archive is never wrong, only old. `make
generated` writes the texts that are missing (`tools/kernel_texts.py`).
"""

from __future__ import annotations

import functools
import json
import lzma
import os
import platform
import struct
import sys
from collections.abc import Mapping

from atled.plugin import NamedTuple
from atled_cpu_numba import processor
from atled_cpu_numba.machine_kind import machine_kind

ARCHIVE = os.path.join(os.path.dirname(__file__), "kernels.ir.xz")

FORMAT = 1  # of the archive; part of every key

# Of text: no bytes are aligned, and what follows is told by the bytes before.
_OF_TEXTS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]


class Archive(NamedTuple):
    """What is in the file.

    llvm: major version of the LLVM that printed the texts; the notation changes between versions.
    texts: module by key, each with one function that has the name of its kernel.
    """

    llvm: int
    texts: Mapping[str, str]


def find(key: str) -> str | None:
    """The text under `key`; None if there is none, or if this machine or its LLVM cannot use it."""
    archive = None if why_unused() else _installed()
    return None if archive is None else archive.texts.get(key)


def why_unused() -> str:
    """Why no text can be used here, in words; empty where they can."""
    if machine_kind() != "x86_64" or struct.calcsize("P") != 8 or sys.byteorder != "little":
        return f"not in use: they are for x86-64, and this is {platform.machine()}; numba compiles every kernel"
    archive = _installed()
    if archive is None:
        return "not in use: this installation has none; numba compiles every kernel"
    _, llvm = processor.versions()
    present = int(llvm.split(".")[0])
    if present == archive.llvm:
        return ""
    return f"not in use: they are for LLVM {archive.llvm}, and this is {present}; numba compiles every kernel"


def decode(data: bytes) -> Archive:
    """An archive from the bytes of its file. ValueError for a file that is damaged or of another format."""
    try:
        content = json.loads(lzma.decompress(data, lzma.FORMAT_XZ))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r} instead of {FORMAT}")
        return Archive(int(content["llvm"]), dict(content["texts"]))
    except (lzma.LZMAError, EOFError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the archive of kernels ({len(data)} bytes) cannot be read: {error}. "
            "Install atled-cpu-numba again; in a checkout, remove it: `make generated` writes another."
        ) from error


def encode(archive: Archive) -> bytes:
    """The bytes of an archive's file; the same for the same texts."""
    # Texts of one kernel, for other dtypes and widths, beside one another: what they repeat is near then.
    texts = sorted(archive.texts.items(), key=lambda item: (_name(item[1]), len(item[1]), item[0]))
    content = {"format": FORMAT, "llvm": archive.llvm, "texts": dict(texts)}
    return lzma.compress(json.dumps(content).encode(), lzma.FORMAT_XZ, filters=_OF_TEXTS)


def _name(text: str) -> str:
    """That of the function of a text."""
    import re  # the archive is written by tools alone

    found = re.search(r"^define [^@]*@([^(]*)", text, re.MULTILINE)
    return found[1] if found else ""


@functools.cache
def _installed() -> Archive | None:
    """The archive of this installation; None where it has none, as a build without `make generated` has."""
    if not os.path.isfile(ARCHIVE):
        return None
    with open(ARCHIVE, "rb") as file:
        return decode(file.read())
