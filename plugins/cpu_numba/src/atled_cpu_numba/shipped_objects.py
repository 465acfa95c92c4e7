"""Kernels as object code that the package brings for two common kinds of processors: nothing is compiled for them.

What is in the archive depends on the text that it was compiled from, on the processor that it was compiled for, on LLVM
and on what this plugin asks of LLVM. The first is in the key of a kernel. Of the others the archive has one value, and
is not used where a process has another one. So it is never wrong, only old; a kernel that is not found is compiled.
LLVM itself, which takes long to load, is asked for its version only where llvmlite is not the release that compiled it.
`make generated` writes what is missing (`tools/kernel_objects.py`).
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
from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba import object_files, processor
from atled_cpu_numba.machine_code import ObjectCode
from atled_cpu_numba.machine_kind import machine_kind
from atled_cpu_numba.processor import Processor

ARCHIVE = os.path.join(os.path.dirname(__file__), "kernels.o.xz")

FORMAT = 1  # of the archive

TARGETS = {"x86-64-v4": "znver4", "x86-64-v3": "znver3"}
"""LLVM's names of the processors whose features the objects need, the better one first, and of those that they suit.

All x86-64 with AVX-512 since 2017, and with AVX2 since 2013, execute them. For x86-64-v4 alone LLVM vectorizes loops by
half of a vector and unrolls them less, which costs transforms and sums a tenth.
"""


class Archive(NamedTuple):
    """What is in the file.

    made_by: what compiled it, see `toolchain`.
    objects: by name of the target and by key, a compressed file of `object_files`.
    release: that of llvmlite that compiled it, see `processor.release`; empty where that is not known.
    """

    made_by: list[Any]
    objects: Mapping[str, Mapping[str, bytes]]
    release: str = ""


def find(key: str) -> ObjectCode | None:
    """The object code under `key` for the processor in force; None if there is none that it may execute."""
    target = _target()
    member = None if target is None else _members(target).get(key)
    return None if member is None else object_files.decoded(lzma.decompress(member, lzma.FORMAT_XZ), key)


def has(key: str) -> bool:
    """Whether `find` has something under `key`, without reading it."""
    target = _target()
    return target is not None and key in _members(target)


def why_unused() -> str:
    """Why no object can be used here, in words; empty where they can."""
    if not _is_kind_known():
        return f"not in use: they are for Linux on x86-64, and this is {sys.platform} on {platform.machine()}"
    archive = _installed()
    if archive is None:
        return "not in use: this installation has none"
    if not _is_of_this_toolchain(archive):
        return f"not in use: LLVM {archive.made_by[0]} compiled them, and this is {toolchain()[0]}"
    if _target() is None:
        return "not in use: they are for processors with AVX2 and FMA, or with AVX-512"
    return ""


def compiled_for(target: str) -> Processor:
    """The processor that objects of a target are compiled for: it executes what the target has, in another's order."""
    return processor.with_features_of(TARGETS[target], target)


def toolchain() -> list[Any]:
    """What an object depends on besides its text and the target: LLVM's version, and how this plugin uses it."""
    _, llvm = processor.versions()
    return [llvm, *_use_of_llvm()]


def _use_of_llvm() -> list[Any]:
    return [object_files.FORMAT, TARGETS]


def _is_of_this_toolchain(archive: Archive) -> bool:
    """Whether what compiled the archive is what this process would compile with."""
    if archive.release and archive.release == processor.release():
        return archive.made_by[1:] == _use_of_llvm()
    return archive.made_by == toolchain()


def decode(data: bytes) -> Archive:
    """An archive from the bytes of its file. ValueError for a file that is damaged or of another format."""
    try:
        (length,) = struct.unpack_from("<I", data)
        header = json.loads(lzma.decompress(data[4 : 4 + length], lzma.FORMAT_XZ))
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']!r} instead of {FORMAT}")
        if len(data) != 4 + length + header["bytes"]:
            raise ValueError("its length is not the one it was written with")
        objects: dict[str, dict[str, bytes]] = {}
        position = 4 + length
        for target, sizes in header["sizes"].items():
            members = objects[target] = {}
            for key, size in sizes.items():
                members[key] = data[position : position + size]
                position += size
        return Archive(list(header["made_by"]), objects, str(header.get("release", "")))
    except (lzma.LZMAError, EOFError, KeyError, TypeError, AttributeError, ValueError, struct.error) as error:
        raise ValueError(
            f"the archive of compiled kernels ({len(data)} bytes) cannot be read: {error}. "
            "Install atled-cpu-numba again; in a checkout, remove it: `make generated` writes another."
        ) from error


def encode(archive: Archive) -> bytes:
    """The bytes of an archive's file; the same for the same objects."""
    objects = {target: dict(sorted(members.items())) for target, members in sorted(archive.objects.items())}
    content = b"".join(member for members in objects.values() for member in members.values())
    header = {
        "format": FORMAT,
        "made_by": archive.made_by,
        "release": archive.release,
        "bytes": len(content),
        "sizes": {target: {key: len(member) for key, member in members.items()} for target, members in objects.items()},
    }
    packed = compressed(json.dumps(header).encode())
    return struct.pack("<I", len(packed)) + packed + content


def compressed(data: bytes) -> bytes:
    """Bytes as they are in the archive."""
    return lzma.compress(data, lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)


def _is_kind_known() -> bool:
    """Whether this is a machine of the kind, with the system, that the objects are for."""
    return sys.platform == "linux" and machine_kind() == "x86_64" and struct.calcsize("P") == 8


@functools.cache
def _target() -> str | None:
    """The name of the target whose objects this process uses; None where it uses none."""
    archive = _installed() if _is_kind_known() else None
    if archive is None or not _is_of_this_toolchain(archive):
        return None
    return next((name for name in TARGETS if processor.includes(Processor(name, ""))), None)


def _members(target: str) -> Mapping[str, bytes]:
    archive = _installed()
    return {} if archive is None else archive.objects.get(target, {})


@functools.cache
def _installed() -> Archive | None:
    """The archive of this installation; None where it has none, as a build without `make generated` has."""
    if not os.path.isfile(ARCHIVE):
        return None
    with open(ARCHIVE, "rb") as file:
        return decode(file.read())
