"""Files of dictionaries, lists, numbers, texts and arrays: a face of atled.files for front ends."""

from __future__ import annotations

from atled.files.pickled import load_pickled
from atled.files.structures import is_structure, load_structure, save_structure

__all__ = ["is_structure", "load_pickled", "load_structure", "save_structure"]
