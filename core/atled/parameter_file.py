"""Files of parameters: saving and loading what is below the current scope."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from atled.array import FLOAT32
from atled.errors import four_parts, in_words, listing
from atled.parameter import LOCK, get_parameter, get_parameters, set_parameter
from atled.place import HOST
from atled.storage import HostStorage
from atled.variable import Variable

_SAVE_AGAIN = "save the parameters again with save_parameters, or load another file"
# HDF5 reserves the numbers below 256 for the filters that it brings itself; for others it would look for a shared
# library and run it, but for LZF, which is part of h5py.
_OWN_FILTERS = 256
_LZF = 32000


def save_parameters(path: str | os.PathLike[str]) -> None:
    """Write all parameters below the current scope to a file, those with need_grad False included.

    `.h5`: HDF5 with one float32 dataset per parameter, named as the parameter is relative to the scope, with the
    attributes `need_grad` (bool) and `index` (place in the order of `get_parameters`).

    The file is written beside and renamed: whatever goes wrong, a file of that name that was there before stays.

    Args:
        path: of the file; its suffix says the format.

    Raises:
        ValueError: unknown suffix, or a name that the format cannot hold.
        OSError: the folder or disk does not take the file.
        ImportError: h5py is missing.
    """
    asked = f"save_parameters({os.fspath(path)!r})"
    save, _ = _format(asked, path)
    image = save(asked, get_parameters(grad_only=False))
    _write_beside(asked, os.fspath(path), image)


def load_parameters(path: str | os.PathLike[str]) -> None:
    """Read parameters from a file into the current scope.

    A parameter that is there gets the values of the file (graphs that use it see them) and keeps its dtype and
    need_grad; one that is not there is made. Others stay. Everything is checked before anything is changed, and nothing
    in the file is run or leads to another file.

    Args:
        path: of a file written by `save_parameters`, or by NNabla; its suffix says the format.

    Raises:
        ValueError: unknown suffix; the file is corrupt, truncated, or not one of parameters; a parameter that is
            there has another shape.
        OSError: the file is missing or cannot be read.
        ImportError: h5py is missing.
    """
    asked = f"load_parameters({os.fspath(path)!r})"
    _, load = _format(asked, path)
    _take(asked, load(asked, os.fspath(path)))


class _Loaded(NamedTuple):
    """One parameter as a file has it."""

    order: int
    key: str
    values: np.ndarray
    need_grad: bool


def _format(asked: str, path: str | os.PathLike[str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix.lower() not in _FORMATS:
        raise ValueError(
            four_parts(
                asked,
                f"unknown suffix {suffix!r}" if suffix else "the name has no suffix, which says the format",
                f"known: {listing(_FORMATS)}",
                "use a name that ends in .h5",
            )
        )
    return _FORMATS[suffix.lower()]


def _take(asked: str, loaded: list[_Loaded]) -> None:
    """Put what was read into the current scope: all of it, or nothing."""
    with LOCK:
        stored = [_stored(asked, item) for item in loaded]
        # Made before the first value changes: from there on nothing is refused any more.
        made = {item.key: _variable(item) for item, param in zip(loaded, stored, strict=True) if param is None}
        for item, param in zip(loaded, stored, strict=True):
            if param is not None:
                param.d = item.values
        for key, param in made.items():
            set_parameter(key, param)


def _stored(asked: str, item: _Loaded) -> Variable | None:
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


def _variable(item: _Loaded) -> Variable:
    variable = Variable(item.values.shape, need_grad=item.need_grad)
    variable.d = item.values
    return variable


def _write_beside(asked: str, path: str, image: memoryview) -> None:
    """Put a file in place that is complete or not there at all."""
    target = os.path.realpath(path)  # a link stays a link
    temporary = os.path.join(os.path.dirname(target), f".atled-{os.urandom(8).hex()}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                file.write(image)
                file.flush()
                os.fsync(file.fileno())  # else a crash soon after the rename could leave an empty file
            os.replace(temporary, target)
        except BaseException:
            if os.path.exists(temporary):
                os.remove(temporary)
            raise
    except OSError as error:
        # Of the class that the number stands for: FileNotFoundError, PermissionError ...
        raise OSError(
            error.errno,
            four_parts(
                asked,
                f"the file could not be written ({error.strerror})",
                f"a file written beside it in {os.path.dirname(target)!r}; what was at the path before is unchanged",
                "check that the folder exists, takes new files and has room, or save elsewhere",
            ),
        ) from error


def _h5py(asked: str) -> ModuleType:
    try:
        import h5py  # lazily: most programs save nothing, and it takes longer to import than all of atled
    except ImportError as error:
        raise ImportError(
            four_parts(asked, f"h5py cannot be imported ({error})", "", "pip install 'atled[h5]' (or pip install h5py)")
        ) from error
    return h5py


def _h5_image(asked: str, params: dict[str, Variable]) -> memoryview:
    """The bytes of an HDF5 file with these parameters."""
    h5py = _h5py(asked)
    # In memory first: HDF5 does not recover from a write that fails, and stays behind with a file it cannot close.
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for index, (key, param) in enumerate(params.items()):
            _check_h5_name(asked, key)
            dataset = file.create_dataset(key, data=_values(param))
            dataset.attrs["need_grad"] = param.need_grad
            dataset.attrs["index"] = index
    return buffer.getbuffer()


def _check_h5_name(asked: str, key: str) -> None:
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


def _values(param: Variable) -> np.ndarray:
    """The values in host memory as float32; the array stays where it is."""
    storage = param.data.cell.copy_at(HOST, FLOAT32)
    assert isinstance(storage, HostStorage)
    return storage.array(param.shape, FLOAT32)


@contextlib.contextmanager
def _reading(asked: str) -> Iterator[None]:
    """Say of whatever HDF5 complains about in the block which file and key it is."""
    try:
        yield
    except Exception as error:  # a damaged file shows as one of many types of exception
        raise ValueError(
            four_parts(asked, f"the file is damaged or not one of parameters ({in_words(error)})", "", _SAVE_AGAIN)
        ) from error


def _refusal(asked: str, wrong: str, remedy: str = _SAVE_AGAIN) -> ValueError:
    return ValueError(four_parts(asked, wrong, "", remedy))


def _read_h5(asked: str, path: str) -> list[_Loaded]:
    """Everything in an HDF5 file, in its order; refuses what `save_parameters` would not have written."""
    h5py = _h5py(asked)
    try:
        with open(path, "rb"):
            pass  # for the system's own errors; HDF5 mixes them with those about the contents
    except OSError as error:
        raise OSError(
            error.errno, four_parts(asked, f"the file could not be read ({error.strerror})", "", "check the path")
        ) from error
    with _reading(asked):
        file = h5py.File(path, "r")
    loaded = []
    with file:
        seen: set[int] = set()
        groups = [("", file)]
        while groups:
            prefix, group = groups.pop()
            with _reading(f"{asked}, group {prefix!r}"):
                names = list(group)
            for name in names:
                key = prefix + name
                entry = _h5_entry(h5py, f"{asked}, key {key!r}", group, name, seen)
                if isinstance(entry, h5py.Group):
                    groups.append((f"{key}/", entry))
                else:
                    loaded.append(_read_dataset(h5py, f"{asked}, key {key!r}", key, entry))
    return sorted(loaded, key=lambda item: (item.order, item.key))


def _h5_entry(h5py: ModuleType, asked: str, group: Any, name: str, seen: set[int]) -> Any:
    """The group or dataset of that name in a group; refuses links, which could lead out of the file or round in it."""
    with _reading(asked):
        link = group.id.links.get_info(name.encode())
    if link.type != h5py.h5l.TYPE_HARD:
        raise _refusal(asked, "it is a link, and links are not followed", "copy what it leads to into the file")
    with _reading(asked):
        info = h5py.h5o.get_info(group.id, name.encode())
    if info.type not in (h5py.h5o.TYPE_GROUP, h5py.h5o.TYPE_DATASET):
        raise _refusal(asked, "it is neither a group nor a dataset")
    if info.addr in seen:
        raise _refusal(asked, "the same group or dataset has another name as well", "give each one name in the file")
    seen.add(info.addr)
    with _reading(asked):
        return group[name]


def _read_dataset(h5py: ModuleType, asked: str, key: str, dataset: Any) -> _Loaded:
    with _reading(asked):
        dtype, shape = dataset.dtype, dataset.shape
    if dtype.kind != "f" or dtype.itemsize != FLOAT32.itemsize:
        raise _refusal(asked, f"its dtype is {dtype}, parameters are float32", "convert it to float32")
    if shape is None:
        raise _refusal(asked, "it holds no array")
    _check_storage(h5py, asked, dataset)
    need_grad = _attribute(asked, dataset, "need_grad", "biu", "True or False")
    index = _attribute(asked, dataset, "index", "iu", "a whole number")
    if need_grad not in (0, 1) or index < 0:
        raise _refusal(asked, f"its attributes are need_grad={need_grad} and index={index}")
    with _reading(asked):
        values = dataset[()]
    return _Loaded(int(index), key, np.asarray(values, FLOAT32), bool(need_grad))


def _check_storage(h5py: ModuleType, asked: str, dataset: Any) -> None:
    """Refuse values that are not in the file, or that only a plugin of HDF5 could decode."""
    with _reading(asked):
        properties = dataset.id.get_create_plist()
        layout = properties.get_layout()
        external = properties.get_external_count()
        filters = [properties.get_filter(position)[0] for position in range(properties.get_nfilters())]
        stored = dataset.id.get_storage_size()
        size = dataset.nbytes
    if layout == h5py.h5d.VIRTUAL or external:
        raise _refusal(asked, "its values are in another file", "copy them into this file")
    if any(number >= _OWN_FILTERS and number != _LZF for number in filters):
        raise _refusal(asked, f"it is packed with a foreign filter ({filters})", "unpack the file by h5repack -f NONE")
    # HDF5 would make up zeros for what was never written, in any amount.
    if (size and not stored) or (layout == h5py.h5d.CONTIGUOUS and stored != size):
        raise _refusal(asked, f"it should hold {size} bytes of values and holds {stored}")


def _attribute(asked: str, dataset: Any, name: str, kinds: str, wanted: str) -> Any:
    with _reading(asked):
        found = name in dataset.attrs
    if not found:
        raise _refusal(asked, f"the attribute {name} is missing")
    with _reading(asked):
        attribute = dataset.attrs.get_id(name)
        dtype, shape = attribute.dtype, attribute.shape
    if shape != () or dtype.kind not in kinds:
        raise _refusal(asked, f"the attribute {name} is not {wanted} (dtype {dtype}, shape {shape})")
    with _reading(asked):
        return dataset.attrs[name]


_FORMATS = {".h5": (_h5_image, _read_h5)}
