"""Reading the files that describe networks: their message, and the parameters that they hold."""

from __future__ import annotations

import os
from collections.abc import Sequence

from atled.errors import four_parts, listing
from atled.files.entry import Entry, read_bytes, refusal
from atled.files.hdf5 import read_h5
from atled.files.messages import Message, new_message
from atled.files.nnp.archive import parameters_in, read_archive
from atled.files.protobuf import entries, parse_binary, parse_text

_TEXT = (".nntxt", ".prototxt")
_SUFFIXES = (".nnp", *_TEXT, ".protobuf", ".h5")
_SAVE_AGAIN = "save it again with atled.utils.save.save, or load another file"


def read_files(asked: str, paths: Sequence[str | os.PathLike[str]]) -> tuple[Message, list[Entry]]:
    """What all of the files describe together, and the parameters in them; nothing of atled is changed."""
    root = new_message(asked, "NNablaProtoBuf")
    found: dict[str, Entry] = {}
    for path in paths:
        text = os.fspath(path)
        where = f"{asked}, file {text!r}" if text not in asked else asked
        for name, entry_entries in _read_file(where, text, root):
            for entry in entry_entries:
                if entry.key in found:
                    raise refusal(name, f"another file or entry holds the parameter {entry.key!r}, too", _SAVE_AGAIN)
                found[entry.key] = entry
    for network in root.network:
        if [other.name for other in root.network].count(network.name) > 1:
            raise refusal(asked, f"two networks have the name {network.name!r}", _SAVE_AGAIN)
    return root, list(found.values())


def _read_file(where: str, path: str, root: Message) -> list[tuple[str, list[Entry]]]:
    """Merge a file's description into `root`; the parameters per entry of the file."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        raise ValueError(
            four_parts(where, f"unknown suffix {suffix!r}", f"known: {listing(_SUFFIXES)}", "give an .nnp file")
        )
    if suffix == ".h5":
        return [(where, read_h5(where, path))]
    if suffix != ".nnp":
        return [(where, _merge(where, suffix, read_bytes(where, path), root))]
    made = []
    for name, data in read_archive(where, path).items():
        entry_suffix = os.path.splitext(name)[1].lower()
        entry_where = f"{where}, entry {name!r}"
        if entry_suffix == ".h5":
            made.append((entry_where, parameters_in(where, {name: data})))
        else:
            made.append((entry_where, _merge(entry_where, entry_suffix, data, root)))
    return made


def _merge(where: str, suffix: str, data: bytes, root: Message) -> list[Entry]:
    parse = parse_text if suffix in _TEXT else parse_binary
    message = parse(where, data, _SAVE_AGAIN)
    found = entries(where, message)
    del message.parameter[:]
    root.MergeFrom(message)
    return found
