"""Parameters in HDF5: one float32 dataset each, with the attributes need_grad and index."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Generator, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.files.entry import Entry, as_float32, host_values, reading, refusal
from atled.files.opening import open_regular
from atled.files.unpacking import Unpacked
from atled.limits.sizes import misfit, shown
from atled.variable import Variable
from atled_contexts.signals import handlers_wait

# HDF5 reserves the numbers below 256 for the filters that it brings itself; for others it would look for a shared
# library and run it, but for LZF, which is part of h5py.
_OWN_FILTERS = 256
_LZF = 32000
_LARGEST_ITEM = 8  # bytes; beyond are float128 and the like, which not every machine can read


def h5py_library(asked: str) -> ModuleType:
    """The module h5py; ImportError with the remedy where it is missing."""
    try:
        import h5py  # lazily: most programs save nothing, and it takes longer to import than all of atled
    except ImportError as error:
        raise ImportError(
            four_parts(asked, f"h5py cannot be imported ({error})", "", "pip install 'atled[h5]' (or pip install h5py)")
        ) from error
    return h5py


def h5_image(asked: str, params: dict[str, Variable]) -> bytes:
    """The bytes of an HDF5 file with these parameters."""
    h5py = h5py_library(asked)
    buffer = io.BytesIO()
    with written_h5(h5py, buffer) as file:
        for index, (key, param) in enumerate(params.items()):
            check_h5_name(asked, key)
            with handlers_wait():
                dataset = file.create_dataset(key, data=host_values(param))
                dataset.attrs["need_grad"] = param.need_grad
                dataset.attrs["index"] = index
    # Not getbuffer(): where an error keeps the view in a cycle, Python 3.13 cannot free the buffer under it.
    return buffer.getvalue()


@contextlib.contextmanager
def written_h5(h5py: ModuleType, buffer: io.BytesIO) -> Iterator[Any]:
    """A new HDF5 file in memory, complete behind the block.

    In memory: HDF5 does not recover from a write that fails, and stays behind with a file that it cannot close.

    Here, and where h5py is called with a file, handlers of signals wait. h5py drops objects amid its calls; handlers
    that are due run in the callbacks of weak references to these, and what one raises there, as Ctrl-C does, is printed
    and lost.
    """
    file = None
    try:
        with handlers_wait():
            file = h5py.File(buffer, "w")
        yield file
    finally:
        if file is not None:
            with handlers_wait():
                file.close()


def check_h5_name(asked: str, key: str) -> None:
    """ValueError for a name that HDF5 cannot hold."""
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded or "." in key.split("/"):
        raise ValueError(
            four_parts(
                f"{asked}, key {key!r}",
                "HDF5 cannot hold this name: '.', zero bytes and lone surrogates have no place in it",
                "",
                "give the scope or parameter another name, or save as another format",
            )
        )


def read_h5(asked: str, source: str | io.BytesIO) -> list[Entry]:
    """All of an HDF5 file, at a path or in memory, in its order; refuses what `save_parameters` does not write."""
    h5py = h5py_library(asked)
    unpacked = h5_unpacked(asked, source)
    loaded = []
    with contextlib.closing(h5_datasets(asked, source)) as datasets:
        for group, name, dataset in datasets:
            key = f"{group}/{name}" if group else name
            with handlers_wait():
                loaded.append(_read_dataset(h5py, f"{asked}, key {key!r}", key, dataset, unpacked))
    return sorted(loaded, key=lambda item: (item.order, item.key))


def h5_unpacked(asked: str, source: str | io.BytesIO) -> Unpacked:
    """The count of what is unpacked of a file. OSError: there is none at the path, or no regular one."""
    if isinstance(source, io.BytesIO):
        return Unpacked(asked, source.getbuffer().nbytes)
    with open_regular(asked, source):  # for the system's own errors; HDF5 mixes them with those about the contents
        return Unpacked(asked, os.path.getsize(source))


def h5_datasets(asked: str, source: str | io.BytesIO) -> Generator[tuple[str, str, Any], None, None]:
    """Group, name and identifier of each dataset of a file, group after group; to be closed, which closes the file."""
    h5py = h5py_library(asked)
    with handlers_wait(), reading(asked):
        file = h5py.File(source, "r")
    with file:
        seen: set[int] = set()
        # Identifiers, not h5py's objects over them, which take as long as all that is done here.
        groups = [("", file.id)]
        while groups:
            group, members = groups.pop()
            with handlers_wait(), reading(f"{asked}, group {group!r}"):
                names = [name.decode() for name in members]
            for name in names:
                key = f"{group}/{name}" if group else name
                with handlers_wait():
                    found = _entry(h5py, f"{asked}, key {key!r}", members, name, seen)
                if isinstance(found, h5py.h5g.GroupID):
                    groups.append((key, found))
                else:
                    yield group, name, found


def _entry(h5py: ModuleType, asked: str, group: Any, name: str, seen: set[int]) -> Any:
    """The identifier of the group or dataset of that name in a group, which is given by its identifier, too.

    Refuses links, which could lead out of the file or round in it.
    """
    path = name.encode()
    with reading(asked):
        link = group.links.get_info(path)
    if link.type != h5py.h5l.TYPE_HARD:
        raise refusal(asked, "it is a link, and links are not followed", "copy what it leads to into the file")
    with reading(asked):
        info = h5py.h5o.get_info(group, path)
    if info.type not in (h5py.h5o.TYPE_GROUP, h5py.h5o.TYPE_DATASET):
        raise refusal(asked, "it is neither a group nor a dataset")
    if info.addr in seen:
        raise refusal(asked, "the same group or dataset has another name as well", "give each one name in the file")
    seen.add(info.addr)
    with reading(asked):
        return h5py.h5o.open(group, path)


def _read_dataset(h5py: ModuleType, asked: str, key: str, dataset: Any, unpacked: Unpacked) -> Entry:
    values = dataset_values(h5py, asked, dataset, unpacked)
    need_grad = _attribute(h5py, asked, dataset, "need_grad", "biu", "True or False")
    index = _attribute(h5py, asked, dataset, "index", "iu", "a whole number")
    if need_grad not in (0, 1) or index < 0:
        raise refusal(asked, f"its attributes are need_grad={need_grad} and index={index}")
    return Entry(int(index), key, as_float32(asked, values), bool(need_grad))


def dataset_values(h5py: ModuleType, asked: str, dataset: Any, unpacked: Unpacked) -> np.ndarray:
    """The numbers of a dataset, given by its identifier; refuses what is no array of numbers in this very file."""
    with reading(asked):
        dtype, shape = dataset.dtype, dataset.shape
        is_null = dataset.get_space().get_simple_extent_type() == h5py.h5s.NULL
    # NNabla writes the dtype that a script last assigned: float64 where it came from numpy.random, bool for a mask.
    if dtype.kind not in "fiub" or dtype.itemsize > _LARGEST_ITEM:
        raise refusal(asked, f"its dtype is {dtype}, parameters are numbers", "convert it to float32")
    if is_null:
        raise refusal(asked, "it holds no array")
    wrong = misfit(shape)
    if wrong:
        raise refusal(asked, f"its shape is {shown(shape)}: {wrong}")
    nbytes = math.prod(shape) * dtype.itemsize
    _check_storage(h5py, asked, dataset, nbytes)
    unpacked.add(nbytes)
    with reading(asked):
        values = np.empty(shape, dtype)
        if nbytes:
            dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, values)
    return values


def foreign_storage(h5py: ModuleType, dataset: Any) -> tuple[str, str]:
    """Of a dataset, given by its identifier, what is wrong and what to do where its values are not in the file.

    The same where only a plugin of HDF5 could decode them; empty texts for all others.
    """
    properties = dataset.get_create_plist()
    if properties.get_layout() == h5py.h5d.VIRTUAL or properties.get_external_count():
        return "its values are in another file", "copy them into this file"
    filters = [properties.get_filter(position)[0] for position in range(properties.get_nfilters())]
    if any(number >= _OWN_FILTERS and number != _LZF for number in filters):
        return f"it is packed with a foreign filter ({filters})", "unpack the file by h5repack -f NONE"
    return "", ""


def _check_storage(h5py: ModuleType, asked: str, dataset: Any, size: int) -> None:
    """Refuse values that are not in the file, or that only a plugin of HDF5 could decode."""
    with reading(asked):
        wrong, remedy = foreign_storage(h5py, dataset)
        layout = dataset.get_create_plist().get_layout()
        stored = dataset.get_storage_size()
    if wrong:
        raise refusal(asked, wrong, remedy)
    # HDF5 would make up zeros for what was never written, in any amount.
    if (size and not stored) or (layout == h5py.h5d.CONTIGUOUS and stored != size):
        raise refusal(asked, f"it should hold {size} bytes of values and holds {stored}")


def _attribute(h5py: ModuleType, asked: str, dataset: Any, name: str, kinds: str, wanted: str) -> Any:
    with reading(asked):
        found = h5py.h5a.exists(dataset, name.encode())
    if not found:
        raise refusal(asked, f"the attribute {name} is missing")
    with reading(asked):
        attribute = h5py.h5a.open(dataset, name.encode())
        dtype, shape = attribute.dtype, attribute.shape
    if shape != () or dtype.kind not in kinds:
        raise refusal(asked, f"the attribute {name} is not {wanted} (dtype {dtype}, shape {shape})")
    value = np.empty((), dtype)
    with reading(asked):
        attribute.read(value)
    return value[()]
