"""Archives `.nnp`: a zip file that holds a network's description and its parameters."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from typing import NoReturn

from atled.errors import four_parts, in_words
from atled.files.entry import Entry, read_bytes, refusal
from atled.files.hdf5 import read_h5
from atled.files.protobuf import entries, parse_binary, parse_text
from atled.files.unpacking import Unpacked
from atled.limits.sizes import out_of_memory, within_memory
from atled.variable import Variable

VERSION_ENTRY, NETWORK_ENTRY, PARAMETER_ENTRY = "nnp_version.txt", "network.nntxt", "parameter"
VERSION = "0.1"
_TEXT = (".nntxt", ".prototxt")
_READ = (*_TEXT, ".protobuf", ".h5")
_SAVE_AGAIN = "save it again with atled.utils.save.save, or load another file"
_ENCRYPTED = 0x1  # of the flags of an entry
_PIECE_BYTES = 1 << 20


def read_archive(asked: str, path: str) -> dict[str, bytes]:
    """The entries of an archive that describe networks or hold parameters, by name; nothing is written to disk.

    Raises ValueError if the archive is damaged, or any entry of it would lie outside the archive's folder.
    """
    image = read_bytes(asked, path)
    unpacked = Unpacked(asked, len(image))
    with _unzipping(asked, "the file is damaged or not an .nnp archive"):
        file = zipfile.ZipFile(io.BytesIO(image))
    with file:
        entries_there = file.infolist()
        _check_names(asked, entries_there)
        return {
            info.filename: _read_entry(f"{asked}, entry {info.filename!r}", file, info, unpacked)
            for info in entries_there
            if os.path.splitext(info.filename)[1].lower() in _READ
        }


def _read_entry(where: str, file: zipfile.ZipFile, info: zipfile.ZipInfo, unpacked: Unpacked) -> bytes:
    if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        how = "encrypted" if info.flag_bits & _ENCRYPTED else f"packed by method {info.compress_type} of the zip format"
        raise refusal(where, f"the entry is {how}; those of an .nnp are deflated, or stored as they are", _SAVE_AGAIN)
    pieces: list[bytes] = []
    with _unzipping(where, "the entry is damaged"):
        entry = file.open(info)
    with entry:
        while True:
            with _unzipping(where, "the entry is damaged"):
                piece = entry.read(_PIECE_BYTES)
            if not piece:
                with within_memory(where):
                    return b"".join(pieces)
            # What it says of its size in the archive may be a lie.
            unpacked.add(len(piece))
            pieces.append(piece)


@contextlib.contextmanager
def _unzipping(where: str, wrong: str) -> Iterator[None]:
    """Say of whatever the zipfile module complains about in the block which entry it is."""
    try:
        yield
    except Exception as error:  # a damaged or foreign zip file shows as one of many types of exception
        if isinstance(error, MemoryError):
            raise out_of_memory(where, reason=str(error)) from error
        raise refusal(where, f"{wrong} ({in_words(error)})", _SAVE_AGAIN) from error


def _check_names(asked: str, infos: list[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    for info in infos:
        where = f"{asked}, entry {info.filename!r}"
        parts = re.split(r"[/\\]", info.filename)
        outside = ".." in parts or parts[0] == "" or ":" in parts[0]
        if outside or stat.S_ISLNK(info.external_attr >> 16):
            raise refusal(
                where, "it leads out of the archive's folder", "do not use this file: ask whoever made it for another"
            )
        if info.filename in seen:
            raise refusal(where, "two entries have this name", _SAVE_AGAIN)
        seen.add(info.filename)


def archive_image(contents: Mapping[str, bytes]) -> bytes:
    """The bytes of an archive with these entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in contents.items():
            # A fixed time, the earliest that a zip file can hold: equal contents make equal files.
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def parameters_in(asked: str, contents: Mapping[str, bytes]) -> list[Entry]:
    """The parameters of all entries of an archive, in their order."""
    found: list[Entry] = []
    for name, data in contents.items():
        where = f"{asked}, entry {name!r}"
        suffix = os.path.splitext(name)[1].lower()
        if suffix == ".h5":
            found += read_h5(where, io.BytesIO(data))
        else:
            found += entries(where, parse_text(where, data) if suffix in _TEXT else parse_binary(where, data))
    keys = [entry.key for entry in found]
    twice = sorted({key for key in keys if keys.count(key) > 1}) if len(set(keys)) < len(keys) else []
    if twice:
        raise refusal(asked, f"several entries hold the parameter {twice[0]!r}", _SAVE_AGAIN)
    return found


def read_parameters(asked: str, path: str) -> list[Entry]:
    """The parameters in an archive."""
    return parameters_in(asked, read_archive(asked, path))


def parameters_image(asked: str, params: Mapping[str, Variable]) -> NoReturn:
    """Refuses: an archive holds networks, which `save_parameters` does not know."""
    raise ValueError(
        four_parts(
            asked,
            "an .nnp archive holds a network with its parameters, not parameters alone",
            "",
            "use atled.utils.save.save(path, contents), or save the parameters as .h5",
        )
    )
