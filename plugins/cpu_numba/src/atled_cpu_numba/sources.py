"""The files that a kernel's code comes from: the one that builds it, and what that imports of this plugin, and so on.

Imports are read from the text, wherever they stand: those inside functions bring most of the code, and running them
would import numba. What is found may be too much, which costs a compilation, but never too little, which would leave
stale machine code in use.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator

_ROOT = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.basename(_ROOT)

# Modules that decide how kernels are compiled, kept and run, and for what processor, which is in every key itself. No
# code of a kernel comes from them; a test checks that.
NO_CODE = frozenset(
    os.path.join(_ROOT, *name.split("/")) + ".py"
    for name in ("kernels/shared/launch", "machine_code", "pool", "processor", "store")
)

# "from a.b import c, d", "import a.b", "a.b" in a string: the dotted name, and the names imported from it, if any.
_NAMES = rb"[ \t]+import[ \t]+(\((?:[^)#]|#[^\n]*)*\)|[^\n;]*)"
_ABSOLUTE = re.compile(_PACKAGE.encode() + rb"((?:\.\w+)*)(?:" + _NAMES + rb")?")
_RELATIVE = re.compile(rb"from[ \t]+(\.+)[ \t]*([\w.]*)" + _NAMES)


def digests(files: Iterable[str]) -> list[str]:
    """Of `files` and all that they import: hexadecimal digits for each, in an order that does not depend on paths."""
    found: set[str] = set()
    for file in files:
        found |= imported_by(os.path.abspath(file))
    return sorted({_read(path)[0] for path in found})


@functools.cache
def imported_by(path: str) -> frozenset[str]:
    """The file `path` and those of this plugin that it imports, and so on."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(_read(current)[1])
    return frozenset(found)


@functools.cache
def _read(path: str) -> tuple[str, tuple[str, ...]]:
    """Digest of a file, and the files of this plugin that it imports."""
    with open(path, "rb") as file:
        content = file.read()
    return hashlib.sha256(content).hexdigest(), tuple(set(_imports(path, content)) - NO_CODE)


def _imports(path: str, content: bytes) -> Iterator[str]:
    text = content.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    found = [(_ROOT, match[1], match[2]) for match in _ABSOLUTE.finditer(text)]
    for match in _RELATIVE.finditer(text):
        folder = path
        for _ in match[1]:
            folder = os.path.dirname(folder)
        found.append((folder, match[2], match[3]))
    for folder, dotted, names in found:
        files, package = _module(folder, dotted.decode())
        yield from files
        if names and package:
            for name in re.findall(r"\w+", names.decode()):
                yield from _module(package, name)[0]


@functools.cache
def _module(folder: str, dotted: str) -> tuple[tuple[str, ...], str]:
    """The files of a module below a package's folder and of the packages on the way; its own folder if it is one."""
    places = [folder]
    for name in filter(None, dotted.split(".")):
        places.append(os.path.join(places[-1], name))
    found = []
    for place in places:
        above, name = os.path.split(place)
        if name + ".py" in _listed(above)[0]:
            found.append(place + ".py")
        if "__init__.py" in _listed(place)[0]:
            found.append(os.path.join(place, "__init__.py"))
    above, name = os.path.split(places[-1])
    return tuple(found), places[-1] if name in _listed(above)[1] else ""


@functools.cache
def _listed(folder: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the files and of the folders in a folder; none where it is none.

    Listed once, since a look at each file that a module might be in took longer than reading those that there are.
    """
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset(), frozenset()
    files = frozenset(entry.name for entry in entries if entry.is_file())
    return files, frozenset(entry.name for entry in entries if entry.name not in files and entry.is_dir())
