"""The files of a cache of samples, one array per variable: `.npy` (arrays one after the other) or `.h5`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts, in_words
from atled.files.hdf5 import foreign_storage, h5py_library
from atled.files.opening import open_regular
from atled.files.replacing import replacing

SUFFIXES = (".npy", ".h5")

_REMEDY = "remove the cache folder, and make the cache again from the original data"


def write_arrays(path: str, columns: Mapping[str, np.ndarray]) -> None:
    """Write one array per variable, samples along the first axis; beside and renamed.

    Raises ValueError for an unknown suffix.
    """
    suffix = os.path.splitext(path)[1]
    if suffix not in SUFFIXES:
        raise ValueError(
            four_parts(
                f"cache file {path!r}",
                f"no such format as {suffix!r}",
                f"known are {', '.join(SUFFIXES)}",
                "set cache_file_format in section [DATA_ITERATOR] of nnabla.conf to one of those",
            )
        )
    with replacing(path) as beside:
        if suffix == ".h5":
            with h5py_library(f"cache file {path!r}").File(beside, "w") as h5:
                for name, values in columns.items():
                    h5.create_dataset(name, data=values)
        else:
            with open(beside, "xb") as file:
                for values in columns.values():
                    np.save(file, values, allow_pickle=False)


def read_arrays(path: str, variables: Sequence[str], count: int) -> list[np.ndarray]:
    """The arrays of these variables, each with `count` samples.

    Raises ValueError, naming the file, the variable and what to do, where the file is damaged or holds something else;
    arrays of Python objects are refused, because reading them would run code from the file. OSError where the file
    cannot be opened.
    """
    read = _read_h5 if os.path.splitext(path)[1].lower() == ".h5" else _read_npy
    columns = read(path, variables)
    for name, values in zip(variables, columns, strict=True):
        if not isinstance(values, np.ndarray) or not values.ndim or len(values) != count:
            found = (
                f"{len(values)} samples" if isinstance(values, np.ndarray) and values.ndim else "no array of samples"
            )
            raise ValueError(
                four_parts(
                    f"cache file {path!r}, variable {name!r}", f"it holds {found} instead of {count}", "", _REMEDY
                )
            )
    return columns


def _read_npy(path: str, variables: Sequence[str]) -> list[np.ndarray]:
    columns = []
    with open_regular(f"cache file {path!r}", path, _REMEDY) as file:
        for name in variables:
            start = file.tell()
            try:
                # Not numpy.load, which takes archives and pickles too.
                columns.append(np.lib.format.read_array(file, allow_pickle=False))
            except Exception as error:  # a damaged file shows as one of many types of exception
                place = f"cache file {path!r}, variable {name!r}, from byte {start} on"
                raise ValueError(four_parts(place, "damaged", in_words(error), _REMEDY)) from error
        if file.read(1):
            raise ValueError(
                four_parts(
                    f"cache file {path!r}",
                    f"there is more in it than {len(variables)} arrays",
                    f"the variables are {', '.join(variables)}",
                    _REMEDY,
                )
            )
    return columns


def _read_h5(path: str, variables: Sequence[str]) -> list[np.ndarray]:
    with _open_h5(path) as h5:
        return [_dataset(h5, path, name) for name in variables]


def _dataset(h5: Any, path: str, name: str) -> np.ndarray:
    place = f"cache file {path!r}, variable {name!r}"
    if name not in h5:
        raise ValueError(four_parts(place, "it is not there", f"there are {', '.join(h5) or 'none'}", _REMEDY))
    if not _is_plain(h5, name):
        raise ValueError(four_parts(place, "not an array in this file: a group, a link, or foreign code", "", _REMEDY))
    try:
        values: np.ndarray = h5[name][()]
    except Exception as error:  # a damaged file shows as one of many types of exception
        raise ValueError(four_parts(place, "damaged", in_words(error), _REMEDY)) from error
    return values


def _is_plain(h5: Any, name: str) -> bool:
    """Whether it is a dataset whose values are in this very file, and readable without plugins of HDF5."""
    h5py = h5py_library(h5.filename)
    if not isinstance(h5.get(name, getlink=True), h5py.HardLink):
        return False
    dataset = h5[name]
    return isinstance(dataset, h5py.Dataset) and not any(foreign_storage(h5py, dataset.id))


def h5_lengths(path: str) -> dict[str, int]:
    """Variables of an `.h5` cache file with their counts of samples."""
    with _open_h5(path) as h5:
        try:
            return {name: len(h5[name]) for name in h5}
        except Exception as error:  # as above
            raise ValueError(four_parts(f"cache file {path!r}", "damaged", in_words(error), _REMEDY)) from error


def _open_h5(path: str) -> Any:
    h5py = h5py_library(f"cache file {path!r}")
    with open_regular(f"cache file {path!r}", path, _REMEDY):
        pass  # for the system's own errors; HDF5 mixes them with those about the contents
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(four_parts(f"cache file {path!r}", "damaged", in_words(error), _REMEDY)) from error
