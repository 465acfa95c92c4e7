"""Files of parameters: saving and loading what is below the current scope."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from atled.arrays.together import written_together
from atled.errors import four_parts, listing
from atled.files.entry import Entry
from atled.files.replacing import replacing
from atled.graph.record.value import Value
from atled.named_tuple import NamedTuple
from atled.parameter import LOCK, get_parameter, get_parameters, set_parameter
from atled.variable import Variable, check_by_name
from atled_contexts.signals import handlers_wait

_DEFAULT = ".npz"  # the one that needs no further library


class Format(NamedTuple):
    """A format of parameters.

    module: the one that knows it; imported when first needed, for it may need a library that most programs do not.
    image, read: its functions, `image(asked, params) -> bytes` and `read(asked, path) -> list[Entry]`: the bytes of a
        file, and what is in one. `asked` begins their messages.
    note: what a file is, for the page about files.
    """

    module: str
    image: str
    read: str
    note: str


FORMATS = {
    ".npz": Format(
        "atled.files.npz",
        "npz_image",
        "read_npz",
        'a zip file with one array per parameter, `hidden/affine/W.npy`: `numpy.load(path)["hidden/affine/W"]`. '
        "Stored, not compressed; `need_grad` is in the comment of the entry. A name without suffix means this one",
    ),
    ".h5": Format(
        "atled.files.hdf5",
        "h5_image",
        "read_h5",
        "HDF5, one dataset per parameter with the attributes `need_grad` and `index`",
    ),
    ".protobuf": Format("atled.files.protobuf", "binary_image", "read_binary", "NNabla's binary format; at most 2 GiB"),
    ".nntxt": Format("atled.files.protobuf", "text_image", "read_text", "the same as text"),
    ".prototxt": Format("atled.files.protobuf", "text_image", "read_text", "the same as `.nntxt`"),
    ".nnp": Format(
        "atled.files.nnp.archive",
        "parameters_image",
        "read_parameters",
        "an archive with a network: loading takes its parameters, saving is `atled.utils.save.save` (below)",
    ),
}
"""The formats by suffix."""

_TEMPORARY = re.compile(r"\.atled-[0-9a-f]{16}\.tmp")
_ABANDONED_S = 3600.0  # no save takes an hour


def save_parameters(path: str | os.PathLike[str], params: Mapping[str, Variable] | None = None) -> None:
    """Write all parameters below the current scope to a file, those with need_grad False included.

    `.npz`, or a name without suffix: a zip file with one float32 array per parameter, as `numpy.load` reads it; no
    library is needed.
    `.h5`: HDF5 with one float32 dataset per parameter, named as the parameter is relative to the scope, with the
    attributes `need_grad` (bool) and `index` (place in the order of `get_parameters`).
    `.protobuf`: NNabla's binary format, one message per parameter in that order.
    `.nntxt`, `.prototxt`: the same as text, which is large but can be read.

    The file is written beside and renamed: whatever goes wrong, a file of that name that was there before stays.

    Args:
        path: of the file; its suffix says the format.
        params: Variables by name, to be written in the place of those of the current scope.

    Raises:
        TypeError: params are no Variables by name.
        ValueError: unknown suffix, or a name that the format cannot hold.
        OSError: the folder or disk does not take the file.
        ImportError: h5py or protobuf is missing.
    """
    asked = f"save_parameters({os.fspath(path)!r})"
    save, _ = _format(asked, path)
    if params is None:
        params = get_parameters(grad_only=False)
    else:
        check_by_name(asked, params)
    image = save(asked, dict(params))
    write_beside(asked, os.fspath(path), image)


def load_parameters(path: str | os.PathLike[str]) -> None:
    """Read parameters from a file into the current scope.

    A parameter that is there gets the values of the file (graphs that use it see them) and keeps its dtype and
    need_grad; one that is not there is made. Others stay. Everything is checked before anything is changed, and nothing
    in the file is run or leads to another file. An inference that another thread calls meanwhile sees all the new
    values or none.

    Args:
        path: of a file written by `save_parameters` or `atled.utils.save`, or by NNabla; its suffix says the format:
            those of `save_parameters`, and `.nnp`, of which only the parameters are read.

    Raises:
        ValueError: unknown suffix; the file is corrupt, truncated, or not one of parameters; a parameter that is
            there has another shape.
        OSError: the file is missing or cannot be read.
        ImportError: h5py or protobuf is missing.
    """
    asked = f"load_parameters({os.fspath(path)!r})"
    _, load = _format(asked, path)
    take(asked, load(asked, os.fspath(path)))


def _format(asked: str, path: str | os.PathLike[str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = os.path.basename(os.fspath(path))
    # A name such as ".h5" is nothing but a suffix.
    suffix = os.path.splitext(name)[1] or (name if name.startswith(".") else _DEFAULT)
    if suffix.lower() not in FORMATS or suffix == name:
        raise ValueError(
            four_parts(
                asked,
                "there is no name before the suffix" if suffix.lower() in FORMATS else f"unknown suffix {suffix!r}",
                f"known: {listing(FORMATS)}",
                "use a name that ends in .npz or .h5, or one without suffix, which means .npz",
            )
        )
    found = FORMATS[suffix.lower()]
    module = importlib.import_module(found.module)
    return getattr(module, found.image), getattr(module, found.read)


def take(asked: str, loaded: list[Entry]) -> None:
    """Put what was read into the current scope: all of it, or nothing. The list is empty then."""
    with LOCK:
        found = [(item, _stored(asked, item)) for item in loaded]
        known = [(item, param) for item, param in found if param is not None]
        new = deque(item for item, param in found if param is None)
        del found
        loaded.clear()
        # Made before the first value changes: from there on nothing is refused any more. What was read of each is free
        # once it is made, so that all are never there twice, and the memory of one serves the next.
        made = {}
        while new:
            made[new[0].key] = _variable(new[0])
            new.popleft()
        with handlers_wait():  # what one raises, as Ctrl-C does, would come amid the changes
            with written_together([param.data.cell for _, param in known]):
                for item, param in known:
                    param.d = item.values
            for key, param in made.items():
                set_parameter(key, param)


def _stored(asked: str, item: Entry) -> Variable | None:
    """The parameter that an item is for, None if it is not there; refuses one that does not fit."""
    try:
        param = get_parameter(item.key)
    except ValueError as error:
        raise ValueError(
            four_parts(
                f"{asked}, key {item.key!r}",
                "the name is in the way of others in the current scope",
                str(error).splitlines(),
                "load into another scope: with parameter_scope(name): load_parameters(path)",
            )
        ) from error
    if param is not None and param.shape != item.values.shape:
        raise ValueError(
            four_parts(
                f"{asked}, key {item.key!r}",
                f"the file has shape {item.values.shape}, the parameter has shape {param.shape}",
                "",
                "load the file that belongs to this network, or clear_parameters() first",
            )
        )
    return param


def _variable(item: Entry) -> Variable:
    if item.array is not None:
        return Variable.on_new(Value(item.array.shape, item.need_grad, data=item.array))
    variable = Variable(item.values.shape, need_grad=item.need_grad)
    variable.d = item.values
    return variable


def write_beside(asked: str, path: str, image: bytes) -> None:
    """Put a file in place that is complete or not there at all."""
    target = os.path.realpath(path)  # a link stays a link
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".atled-{os.urandom(8).hex()}.tmp")
    try:
        _sweep(folder)
        with replacing(target, temporary) as beside, open(beside, "xb") as file:
            file.write(image)
            file.flush()
            os.fsync(file.fileno())  # else a crash soon after the rename could leave an empty file
    except OSError as error:
        # Of the class that the number stands for: FileNotFoundError, PermissionError ...
        raise OSError(
            error.errno,
            four_parts(
                asked,
                f"the file could not be written ({error.strerror})",
                f"a file written beside it in {folder!r}; what was at the path before is unchanged",
                "check that the folder exists, takes new files and has room, or save elsewhere",
            ),
        ) from error


def _sweep(folder: str) -> None:
    """Remove temporary files of killed saves from a folder: own ones, too old to be still written."""
    try:
        found = os.scandir(folder)
    except PermissionError:  # a folder that takes files and lists none
        return
    with found:
        for entry in found:
            if not _TEMPORARY.fullmatch(entry.name):
                continue
            with contextlib.suppress(FileNotFoundError, PermissionError):  # swept by another one; a folder of others
                status = entry.stat(follow_symlinks=False)
                is_own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
                if stat.S_ISREG(status.st_mode) and is_own and time.time() - status.st_mtime > _ABANDONED_S:
                    os.remove(entry.path)
