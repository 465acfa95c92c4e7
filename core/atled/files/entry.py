"""One parameter of a file, and the errors about files that hold something else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import FLOAT32
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.errors import OutOfMemoryError, four_parts, in_words
from atled.files.opening import open_regular
from atled.limits.sizes import out_of_memory, within_memory
from atled.named_tuple import NamedTuple
from atled.variable import Variable

SAVE_AGAIN = "save the parameters again with save_parameters, or load another file"


class Entry(NamedTuple):
    """One parameter of a file.

    order: its place among those of the file.  key: its name, relative to the scope.
    values: float32.  need_grad: whether it is trained.
    array: whose values these are, if they were read into a new one, of which nobody else knows.
    """

    order: int
    key: str
    values: np.ndarray
    need_grad: bool
    array: NdArray | None = None


def host_values(param: Variable) -> np.ndarray:
    """The values in host memory as float32; the array stays where it is."""
    storage = param.data.cell.copy_at(HOST, FLOAT32)
    assert isinstance(storage, HostStorage)
    return storage.array(param.shape, FLOAT32)


def as_float32(asked: str, values: np.ndarray) -> np.ndarray:
    """Values of a file as float32; refuses those that are too large for it."""
    if values.dtype == FLOAT32:
        return values
    with np.errstate(over="ignore"):  # told below
        converted = np.asarray(values, FLOAT32)
    if values.dtype.kind == "f" and not np.array_equal(np.isfinite(values), np.isfinite(converted)):
        raise refusal(asked, f"it has values of dtype {values.dtype} that are too large for float32", "scale them down")
    return converted


@contextlib.contextmanager
def reading(asked: str) -> Iterator[None]:
    """Say of whatever a library complains about in the block which file and key it is."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(asked, reason=str(error)) from error
    except OutOfMemoryError:
        raise
    except Exception as error:  # a damaged file shows as one of many types of exception
        raise ValueError(
            four_parts(asked, f"the file is damaged or not one of parameters ({in_words(error)})", "", SAVE_AGAIN)
        ) from error


def refusal(asked: str, wrong: str, remedy: str = SAVE_AGAIN) -> ValueError:
    """The error for a file, or a key in it, that does not hold what it should."""
    return ValueError(four_parts(asked, wrong, "", remedy))


def read_bytes(asked: str, path: str) -> bytes:
    """All bytes of a file; OSError with the remedy where it is missing or cannot be read."""
    with open_regular(asked, path) as file, within_memory(asked):
        return file.read()
