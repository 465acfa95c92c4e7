"""Saved objects, classes by name, and folders."""

from __future__ import annotations

import importlib
import os
from typing import Any

from atled.errors import four_parts, shortened
from atled.structures import load_pickled, load_structure, save_structure

_CACHE = "~/nervana/data"
_HDF5 = b"\x89HDF"


def ensure_dirs_exist(path: str | os.PathLike[str]) -> str:
    """Make the folders above a path, and give the path with "~" replaced.  A path that ends with a separator is one.

    OSError: they cannot be made.
    """
    whole = os.path.expanduser(path)
    folder = os.path.dirname(whole)
    if folder:
        os.makedirs(folder, exist_ok=True)
    return whole


def get_data_cache_dir(data_dir: str | os.PathLike[str] | None = None, subdir: str | None = None) -> str:
    """The folder in which a program keeps data.  It is not made.

    data_dir: None for what the environment variable NEON_DATA_CACHE_DIR says, else ~/nervana/data.
    subdir: of a folder in it.
    """
    folder = os.path.expanduser(data_dir or os.environ.get("NEON_DATA_CACHE_DIR") or _CACHE)
    return os.path.join(folder, subdir) if subdir else os.fspath(folder)


def load_class(ctype: str) -> Any:
    """The class of a name "module.Class"; neon's own modules are atled's.

    The module is imported: do not pass names out of files of others. ValueError: there is no such class.
    """
    module, _, name = ctype.rpartition(".")
    within = f"atled.{module}" if module.partition(".")[0] == "neon" else module
    try:
        found = getattr(importlib.import_module(within), name, None) if within else None
    except ModuleNotFoundError as error:
        raise ValueError(_no_class(ctype, str(error))) from error
    if not isinstance(found, type):
        raise ValueError(_no_class(ctype, f"module {within!r} has no such class"))
    return found


def _no_class(ctype: str, wrong: str) -> str:
    return four_parts(f"load_class({shortened(ctype)})", wrong, "", 'give "module.Class", as NervanaObject.modulenm')


def save_obj(obj: Any, save_path: str | os.PathLike[str]) -> None:
    """Write dictionaries, lists, numbers, texts and arrays to an HDF5 file; the folders above it are made.

    It is a file as `Model.save_params` writes it, and takes the place of what is there once it is complete.

    TypeError: anything else, with where it is.  OSError: it cannot be written.  ImportError: h5py is missing.
    """
    save_structure(ensure_dirs_exist(save_path), obj)


def load_obj(load_file: str | os.PathLike[str]) -> Any:
    """What `save_obj` or `Model.save_params` wrote, or what a pickle has; nothing of a file is executed.

    Of pickles, dictionaries, lists, numbers, texts and arrays are admitted.

    OSError: it is missing or cannot be read.  ValueError: it is damaged, or has something else in it.
    """
    path = os.path.expanduser(load_file)
    with open(path, "rb") as file:
        is_hdf5 = file.read(len(_HDF5)) == _HDF5
    return load_structure(path) if is_hdf5 else load_pickled(path)
