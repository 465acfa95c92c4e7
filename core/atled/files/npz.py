"""Parameters in NumPy's archive of arrays: a zip file with one float32 array each, stored as it is in memory."""

from __future__ import annotations

import io
import math
import os
import zipfile
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from atled.errors import four_parts
from atled.files.entry import SAVE_AGAIN, Entry, as_float32, host_values, reading, refusal
from atled.files.opening import open_regular
from atled.variable import Variable

_Header = tuple[tuple[int, ...], bool, np.dtype]

_SUFFIX = ".npy"
_LARGEST_ITEM = 8  # bytes; as of the other formats
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that zip can say: equal parameters give equal bytes
# The comment of an entry: whether the parameter is trained. An array among the others would be in the way of np.load.
_FLAGS = {True: b"need_grad=True", False: b"need_grad=False"}


def npz_image(asked: str, params: dict[str, Variable]) -> bytes:
    """The bytes of an archive with these parameters, in their order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for key, param in params.items():
            entry = zipfile.ZipInfo(key + _SUFFIX, _DATE)
            _check_name(asked, key, entry)
            entry.comment = _FLAGS[bool(param.need_grad)]
            image = io.BytesIO()
            npy.write_array(image, host_values(param), allow_pickle=False)
            archive.writestr(entry, image.getbuffer())
    return buffer.getvalue()


def _check_name(asked: str, key: str, entry: zipfile.ZipInfo) -> None:
    try:
        is_fine = entry.filename == key + _SUFFIX and len(entry.filename.encode()) < 1 << 16
    except UnicodeEncodeError:
        is_fine = False
    if not is_fine:
        raise ValueError(
            four_parts(
                f"{asked}, key {key!r}",
                "a zip file cannot hold this name: zero bytes, lone surrogates and more than 65531 bytes have no place",
                "",
                "give the scope or parameter another name, or save as another format",
            )
        )


def read_npz(asked: str, path: str) -> list[Entry]:
    """Everything in an archive, in its order; refuses what `save_parameters` would not have written.

    Nothing is unpacked or unpickled: what an array takes in memory, it takes in the file.
    """
    with open_regular(asked, path) as file:
        return _read_archive(asked, file)


def _read_archive(asked: str, file: BinaryIO) -> list[Entry]:
    with reading(asked):
        archive = zipfile.ZipFile(file)
        size = os.fstat(file.fileno()).st_size
    found: dict[str, Entry] = {}
    with archive:
        listed = archive.infolist()
        for info in listed:
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
                wrong = "it is compressed or encrypted, and parameters are stored as they are"
                raise refusal(f"{asked}, entry {info.filename!r}", wrong)
        # Entries may overlap: then a small file would be a large one many times.
        if sum(info.file_size for info in listed) > size:
            raise refusal(asked, f"its entries claim more than the {size} bytes that the file has")
        headers: dict[bytes, _Header] = {}
        for order, info in enumerate(listed):
            key = info.filename.removesuffix(_SUFFIX)
            where = f"{asked}, key {key!r}"
            if key in found:
                raise refusal(where, "another parameter of the file has the same name")
            found[key] = Entry(order, key, _read_array(where, archive, info, headers), _need_grad(where, info))
    return list(found.values())


def _need_grad(asked: str, info: zipfile.ZipInfo) -> bool:
    for need_grad, comment in _FLAGS.items():
        if info.comment == comment:
            return need_grad
    raise refusal(
        asked,
        "the file does not say whether the parameter is trained: NumPy or another program wrote it",
        f"{SAVE_AGAIN}; set_parameter takes arrays of numpy.load",
    )


def _read_array(
    asked: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, headers: dict[bytes, _Header]
) -> np.ndarray:
    if not info.filename.endswith(_SUFFIX) or info.filename == _SUFFIX:
        raise refusal(asked, f"it is the file {info.filename!r}, not an array")
    with reading(asked):
        image = archive.read(info)
        start = _values_start(image)
        header = headers.get(image[:start])
        if header is None:
            header = headers[image[:start]] = _parsed(image[:start])
    shape, is_fortran, dtype = header
    if dtype.kind not in "fiu" or dtype.itemsize > _LARGEST_ITEM:
        raise refusal(asked, f"its dtype is {dtype}, parameters are numbers", "convert it to float32")
    rest = len(image) - start
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != rest:
        raise refusal(asked, f"its shape is {shape} of {dtype}, and it holds {rest} bytes of values")
    values = np.frombuffer(image, dtype, offset=start)
    return as_float32(asked, values.reshape(shape, order="F" if is_fortran else "C"))


def _values_start(image: bytes) -> int:
    """Bytes of the header, which says in its front how long it is; if that is damaged, it cannot be parsed."""
    front, count = (10, 2) if image[6:7] == b"\x01" else (12, 4)
    return front + int.from_bytes(image[front - count : front], "little")


def _parsed(image: bytes) -> _Header:
    """Shape, order and dtype from a header: a Python literal, which takes longer than to read a small array.

    So equal headers are parsed once; parameters of one shape have equal ones.
    """
    content = io.BytesIO(image)
    version = npy.read_magic(content)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    header: _Header = read_header(content)
    return header
