"""Files of dictionaries, lists, numbers, texts and arrays, and how files are replaced: a face for front ends."""

from __future__ import annotations

from atled.files.hdf5 import h5py_library
from atled.files.pickled import load_pickled
from atled.files.replacing import replacing
from atled.files.structures import is_structure, load_structure, save_structure

__all__ = ["h5py_library", "is_structure", "load_pickled", "load_structure", "replacing", "save_structure"]
