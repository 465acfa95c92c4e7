"""Parameters in NNabla's protobuf format: binary, or as text."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from atled.arrays.cell import FLOAT32
from atled.errors import four_parts
from atled.files.entry import SAVE_AGAIN, Entry, host_values, read_bytes, refusal
from atled.files.messages import Message, library, new_message
from atled.limits.sizes import in_units
from atled.variable import Variable

_ROOT = "NNablaProtoBuf"
_IN_FILES = np.dtype("<f4")
_LIMIT_BYTES = 2**31 - 64  # protobuf's own, less what is around the values


def binary_image(asked: str, params: Mapping[str, Variable]) -> bytes:
    """The bytes of a binary file with these parameters."""
    return serialized(asked, parameters_message(asked, params))


def text_image(asked: str, params: Mapping[str, Variable]) -> bytes:
    """The bytes of a text file with these parameters."""
    return as_text(asked, parameters_message(asked, params))


def read_binary(asked: str, path: str) -> list[Entry]:
    """Everything in a binary file, in its order."""
    return entries(asked, parse_binary(asked, _not_empty(asked, read_bytes(asked, path))))


def read_text(asked: str, path: str) -> list[Entry]:
    """Everything in a text file, in its order."""
    return entries(asked, parse_text(asked, _not_empty(asked, read_bytes(asked, path))))


def _not_empty(asked: str, image: bytes) -> bytes:
    if not image.strip():
        raise refusal(asked, "the file is empty")
    return image


def parameters_message(asked: str, params: Mapping[str, Variable]) -> Message:
    """The message of a file that holds nothing but parameters."""
    root = new_message(asked, _ROOT)
    if not params:
        # Else the file would have no bytes, which is how a copy that was interrupted looks like.
        root.version = "0.1"
    for key, param in params.items():
        try:
            message = root.parameter.add(variable_name=key, need_grad=param.need_grad)
        except (UnicodeError, ValueError) as error:
            raise ValueError(
                four_parts(
                    f"{asked}, key {key!r}",
                    "protobuf cannot hold this name: lone surrogates have no place in it",
                    "",
                    "give the scope or parameter another name",
                )
            ) from error
        message.shape.dim.extend(param.shape)
        set_floats(asked, message, host_values(param))
    return root


def set_floats(asked: str, message: Message, values: np.ndarray) -> None:
    """Put float32 values into the field `data` of a message, as the bytes that they are in a file.

    Given one by one, as floats of Python, they would take nearly all of the time that saving takes.
    """
    if not values.size:
        return
    if values.nbytes > _LIMIT_BYTES:
        raise _unwritable(asked, f"it takes at most 2 GiB, these values are {in_units(values.nbytes)}")
    probe = type(message)(data=[0.0]).SerializeToString()
    key = probe[: -1 - FLOAT32.itemsize]  # what is before the size, one byte here, and the value
    message.MergeFromString(b"".join((key, _varint(values.nbytes), values.astype(_IN_FILES).tobytes())))


def floats(message: Message) -> np.ndarray:
    """The values of the field `data` of a message: a new array, of one axis."""
    alone = type(message)()
    alone.data.MergeFrom(message.data)
    image = alone.SerializeToString()
    count = len(message.data)
    return np.frombuffer(image, _IN_FILES, count, len(image) - FLOAT32.itemsize * count).astype(FLOAT32)


def _varint(number: int) -> bytes:
    """A whole number as protobuf writes it: seven bits a byte, the lowest first, the eighth says that more follow."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def serialized(asked: str, root: Message) -> bytes:
    """A message as bytes, which protobuf limits to 2 GiB."""
    try:
        image: bytes = root.SerializeToString()
    except (library(asked).message.EncodeError, ValueError) as error:
        raise _unwritable(asked, error) from error
    return image


def _unwritable(asked: str, reason: object) -> ValueError:
    return ValueError(
        four_parts(asked, f"protobuf cannot write this file ({reason})", "", "save as .h5, which has no such limit")
    )


def as_text(asked: str, root: Message) -> bytes:
    """A message as text, in UTF-8."""
    text: str = library(asked).text_format.MessageToString(root)
    return text.encode()


def parse_binary(asked: str, image: bytes, remedy: str = SAVE_AGAIN) -> Message:
    """The message in the bytes of a file; ValueError for bytes that are not one, or not of this description."""
    root = new_message(asked, _ROOT)
    try:
        root.ParseFromString(image)
    except library(asked).message.DecodeError as error:
        raise refusal(asked, f"the file is damaged or not one of NNabla's protobuf format ({error})", remedy) from error
    # Nearly any bytes are some message, so what is not known here is a sign of another format, or of damage.
    from google.protobuf import unknown_fields  # there, since the message is

    # In functions it is the mark of another version of NNabla: each numbers their attributes in its own way.
    functions = [function for network in root.network for function in network.function]
    for message in (root, *root.parameter, *functions):
        unknown = unknown_fields.UnknownFieldSet(message)
        if len(unknown):
            raise refusal(
                asked,
                "the file is damaged or not one of NNabla's protobuf format "
                f"(it has a field {unknown[0].field_number}, which {message.DESCRIPTOR.name} has not)",
                remedy,
            )
    return root


def parse_text(asked: str, image: bytes, remedy: str = SAVE_AGAIN) -> Message:
    """The message in the text of a file; ValueError that names line and column for text that is not one."""
    root = new_message(asked, _ROOT)
    text_format = library(asked).text_format
    try:
        text_format.Parse(image.decode(), root)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise refusal(
            asked, f"the file is damaged or not one of NNabla's text format (line:column : what, {error})", remedy
        ) from error
    return root


def entries(asked: str, root: Message) -> list[Entry]:
    """The parameters of a message, checked."""
    found: dict[str, Entry] = {}
    for order, message in enumerate(root.parameter):
        key = message.variable_name
        where = f"{asked}, parameter {order} ({key!r})"
        shape = tuple(message.shape.dim)
        if not key:
            raise refusal(where, "it has no name")
        if key in found:
            raise refusal(where, "another parameter of the file has the same name")
        if min(shape, default=0) < 0 or math.prod(shape) != len(message.data):
            raise refusal(where, f"its shape is {shape}, and it holds {len(message.data)} values")
        found[key] = Entry(order, key, floats(message).reshape(shape), message.need_grad)
    return list(found.values())
