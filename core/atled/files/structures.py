"""Structures of dictionaries, lists, numbers, texts and arrays in HDF5: a description in JSON beside its arrays."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.files.entry import reading, refusal
from atled.files.hdf5 import dataset_values, h5_datasets, h5_unpacked, h5py_library, written_h5
from atled.files.opening import open_regular
from atled.files.replacing import replacing
from atled_contexts.signals import handlers_wait

_FORMAT = "atled structure 1"
_HDF5 = b"\x89HDF"
_REMEDY = "load a file that save_structure wrote"


def save_structure(path: str | os.PathLike[str], value: Any) -> None:
    """Write dictionaries with texts as keys, lists, tuples, numbers, texts, truth values, None and NumPy arrays.

    The file is written beside the one of that name, which it replaces once it is complete.

    TypeError: anything else, with where it is.  OSError: it cannot be written.
    """
    asked = f"save_structure({os.fspath(path)!r})"
    arrays: list[np.ndarray] = []
    text = json.dumps({"format": _FORMAT, "value": _plain(asked, value, "", arrays)})
    h5py = h5py_library(asked)
    buffer = io.BytesIO()
    named = {"description": np.frombuffer(text.encode(), np.uint8)}
    named.update((f"arrays/{number}", array) for number, array in enumerate(arrays))
    with written_h5(h5py, buffer) as file:
        for name, array in named.items():
            with handlers_wait():
                file.create_dataset(name, data=array)
    try:
        with replacing(path) as beside, open(beside, "xb") as out:
            out.write(buffer.getvalue())
    except OSError as error:
        wrong = f"the file could not be written ({error.strerror})"
        remedy = "check that the folder exists, may be written to, and has room"
        raise OSError(error.errno, four_parts(asked, wrong, "", remedy)) from error


def is_structure(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as HDF5 does.  OSError: it is missing or cannot be read."""
    with open_regular(f"reading {os.fspath(path)!r}", path) as file:
        return file.read(len(_HDF5)) == _HDF5


def load_structure(path: str | os.PathLike[str]) -> Any:
    """What `save_structure` wrote. Nothing of a file is executed.

    OSError: it is missing or cannot be read.  ValueError: it is damaged, or another kind of file.
    """
    asked = f"load_structure({os.fspath(path)!r})"
    unpacked = h5_unpacked(asked, os.fspath(path))
    h5py = h5py_library(asked)
    description, arrays = None, {}
    with contextlib.closing(h5_datasets(asked, os.fspath(path))) as datasets:
        for group, name, dataset in datasets:
            with handlers_wait():
                values = dataset_values(h5py, f"{asked}, {group}/{name}", dataset, unpacked)
            if (group, name) == ("", "description"):
                description = values
            elif group == "arrays":
                arrays[name] = values
    if description is None:
        raise refusal(asked, "it has no description", _REMEDY)
    with reading(asked):
        found = json.loads(description.tobytes().decode())
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise refusal(asked, "its description is of another format", _REMEDY)
    with reading(asked):
        return _restored(found.get("value"), arrays)


def _plain(asked: str, value: Any, where: str, arrays: list[np.ndarray]) -> Any:
    """The value as JSON has it; arrays are put into the list."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        arrays.append(value.astype(np.uint8) if value.dtype.kind == "b" else value)
        return {"array": len(arrays) - 1}
    if isinstance(value, list | tuple):
        items = [_plain(asked, each, f"{where}[{number}]", arrays) for number, each in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _plain(asked, each, f"{where}[{key!r}]", arrays) for key, each in value.items()}}
    wrong = f"{where or 'the value'} is of type {type(value).__name__}"
    remedy = "save dictionaries with texts as keys, lists, numbers, texts and arrays"
    raise TypeError(four_parts(asked, wrong, "", remedy))


def _restored(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_restored(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[str(content)]
    if kind == "tuple":
        return tuple(_restored(each, arrays) for each in content)
    if kind == "dict":
        return {key: _restored(each, arrays) for key, each in content.items()}
    raise ValueError(f"a part of kind {kind!r}")
