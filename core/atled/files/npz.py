"""Parameters in NumPy's archive of arrays: a zip file with one float32 array each, stored as it is in memory."""

from __future__ import annotations

import binascii
import io
import math
import os
import re
import struct
import zipfile

import numpy as np
from numpy.lib import format as npy

from atled.arrays.array import NdArray
from atled.arrays.cell import FLOAT32
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.errors import four_parts
from atled.files.entry import SAVE_AGAIN, Entry, as_float32, host_values, reading, refusal
from atled.files.opening import open_regular
from atled.variable import Variable

_Header = tuple[tuple[int, ...], bool, np.dtype]
_Read = tuple[np.ndarray, NdArray | None]

_SUFFIX = ".npy"
_LARGEST_ITEM = 8  # bytes; as of the other formats
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that zip can say: equal parameters give equal bytes
# The comment of an entry: whether the parameter is trained. An array among the others would be in the way of np.load.
_FLAGS = {True: b"need_grad=True", False: b"need_grad=False"}

# Before the values of an entry: 30 bytes, of which these are looked at, its name, and what else there is of it.
_LOCAL = struct.Struct("<4s22xHH")
_LOCAL_SIGNATURE = b"PK\3\4"
_NOT_PLAIN = 0x61  # flags of an entry that is encrypted, or a patch
_IN_UTF8 = 0x800

# What NumPy writes as the header of an array of numbers.
_WRITTEN = re.compile(
    rb"\{'descr': '([<>|][fiu]\d)', 'fortran_order': (True|False), 'shape': \((|\d+,|\d+(?:, \d+)+)\), \} *\n"
)
_VERSION_1 = b"\x93NUMPY\x01\x00"  # begins what has a text of that form, behind two bytes that say how long it is


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


def _read_archive(asked: str, file: io.BufferedReader) -> list[Entry]:
    with reading(asked):
        archive = zipfile.ZipFile(file)
        size = os.fstat(file.fileno()).st_size
    found: dict[str, Entry] = {}
    with archive:
        listed = archive.infolist()
        for info in listed:
            if (
                info.compress_type != zipfile.ZIP_STORED
                or info.compress_size != info.file_size
                or info.flag_bits & _NOT_PLAIN
            ):
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
            values, array = _read_array(where, file, info, headers)
            found[key] = Entry(order, key, values, _need_grad(where, info), array)
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


def _read_array(asked: str, file: io.BufferedReader, info: zipfile.ZipInfo, headers: dict[bytes, _Header]) -> _Read:
    """The values of an entry; and the array that they were read into, where they lie in the file as they do there."""
    if not info.filename.endswith(_SUFFIX) or info.filename == _SUFFIX:
        raise refusal(asked, f"it is the file {info.filename!r}, not an array")
    with reading(asked):
        _seek(file, info)
        image = _header(file, info.file_size)
        header = headers.get(image)
        if header is None:
            header = headers[image] = _parsed(image)
    shape, is_fortran, dtype = header
    if dtype.kind not in "fiu" or dtype.itemsize > _LARGEST_ITEM:
        raise refusal(asked, f"its dtype is {dtype}, parameters are numbers", "convert it to float32")
    rest = info.file_size - len(image)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != rest:
        raise refusal(asked, f"its shape is {shape} of {dtype}, and it holds {rest} bytes of values")
    digest = binascii.crc32(image)
    if dtype == FLOAT32 and not is_fortran:
        with reading(asked):
            array = NdArray(shape)
            storage = array.cell.output(HOST, FLOAT32)
            assert isinstance(storage, HostStorage)
            _fill(file, storage.array((rest,), np.dtype(np.uint8)), digest, info)
        return storage.array(shape, FLOAT32), array
    values = np.empty(rest, np.uint8)
    with reading(asked):
        _fill(file, values, digest, info)
        shaped = values.view(dtype).reshape(shape, order="F" if is_fortran else "C")
    return as_float32(asked, shaped), None


def _seek(file: io.BufferedReader, info: zipfile.ZipInfo) -> None:
    """Go to where an entry begins: a tenth of the time of `ZipFile.open`, which makes a file of each."""
    file.seek(info.header_offset)
    signature, name_bytes, extra_bytes = _LOCAL.unpack(file.read(_LOCAL.size))
    encoding = "utf-8" if info.flag_bits & _IN_UTF8 or info.orig_filename.isascii() else "cp437"
    if signature != _LOCAL_SIGNATURE or file.read(name_bytes) != info.orig_filename.encode(encoding):
        raise zipfile.BadZipFile("the directory and the entry differ")
    file.seek(extra_bytes, os.SEEK_CUR)


def _header(file: io.BufferedReader, size: int) -> bytes:
    """The header of an array that takes so many bytes with it; says in its front how long it is."""
    front = file.read(10)
    front += file.read(0 if front[6:7] == b"\x01" else 2)
    length = int.from_bytes(front[8:], "little")
    if len(front) + length > size:
        raise ValueError(f"a header of {length} bytes in an entry of {size}")
    return front + file.read(length)


def _fill(file: io.BufferedReader, values: np.ndarray, digest: int, info: zipfile.ZipInfo) -> None:
    """Read bytes; digest: CRC-32 of what is in front of them in the entry."""
    if file.readinto(values.data) != values.size or binascii.crc32(values.data, digest) != info.CRC:
        raise zipfile.BadZipFile("the bytes are not those that were written")


def _parsed(image: bytes) -> _Header:
    """Shape, order and dtype from a header: a Python literal, which takes longer to read than a small array.

    So those that NumPy writes are read otherwise; and equal ones once, which parameters of one shape have.
    """
    written = _WRITTEN.fullmatch(image, len(_VERSION_1) + 2) if image.startswith(_VERSION_1) else None
    if written is not None:
        shape = tuple([int(size) for size in written[3].split(b",") if size])
        return shape, written[2] == b"True", np.dtype(written[1].decode())
    content = io.BytesIO(image)
    version = npy.read_magic(content)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    header: _Header = read_header(content)
    return header
