"""Entry points read from the folders that installers write beside packages, without `importlib.metadata`.

That module takes 15 ms to import, and reads forms that metadata had over the years. Only the usual one is read here: a
folder NAME-VERSION.dist-info, or NAME.egg-info, in a folder of `sys.path`. Where anything else might have entry points
(an archive on the path, an egg, a finder of its own), nothing is said, and `importlib.metadata` is to be asked.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from functools import reduce
from importlib.machinery import PathFinder
from typing import NamedTuple

_SUFFIXES = (".dist-info", ".egg-info")
_HEADERS = ("METADATA", "PKG-INFO")  # of the two kinds of folders


class _OtherForm(Exception):
    """There is something that is not read here."""


class EntryPoint(NamedTuple):
    """One line of a group: its name and what it stands for, with name and version of its distribution."""

    name: str
    module: str
    attribute: str  # with dots; "" for the module itself
    distribution: str
    version: str

    def load(self) -> object:
        """Import what it stands for."""
        module: object = importlib.import_module(self.module)
        return reduce(getattr, filter(None, self.attribute.split(".")), module)


def entry_points(group: str) -> list[EntryPoint] | None:
    """All of a group; None where only `importlib.metadata` knows all of them. Imports none."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return None
    try:
        return [point for folder in _folders() for point in _of(folder, group)]
    except (_OtherForm, OSError, UnicodeDecodeError):  # which importlib.metadata skips, or tells of
        return None


def _folders() -> Iterator[str]:
    """The folders of metadata, of each distribution the first one on the path: that is imported."""
    seen: set[str] = set()
    for path in sys.path:
        if not isinstance(path, str) or path.endswith(".egg") or os.path.isfile(path):
            raise _OtherForm
        try:
            names = os.listdir(path or ".")
        except FileNotFoundError:
            continue
        for name in names:
            stem, suffix = os.path.splitext(name)
            distribution = re.sub(r"[-_.]+", "-", stem.partition("-")[0]).lower()
            if suffix in _SUFFIXES and distribution not in seen:
                seen.add(distribution)
                yield os.path.join(path, name)


def _of(folder: str, group: str) -> Iterator[EntryPoint]:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):  # the second: metadata in one file
        return
    if group not in text:
        return
    headers = _headers(folder)
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == group and line and not line.startswith("#"):
            match = re.fullmatch(r"([^=]+?)\s*=\s*([\w.]+)\s*(?::\s*([\w.]+))?", line)
            if match is None:
                raise _OtherForm
            yield EntryPoint(match[1], match[2], match[3] or "", headers["Name"], headers["Version"])


def _headers(folder: str) -> dict[str, str]:
    """The name and the version that a distribution has."""
    for name in _HEADERS:
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                lines = file.read().partition("\n\n")[0].splitlines()
        except FileNotFoundError:
            continue
        pairs = (line.partition(":") for line in lines)
        found = {key: value.strip() for key, _, value in pairs if key in ("Name", "Version")}
        if len(found) == 2:
            return found
    raise _OtherForm
