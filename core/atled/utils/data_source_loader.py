"""Reading the files that a data set names: arrays, images, sounds, tables."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import wave
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from atled.errors import did_you_mean, four_parts, in_words, listing
from atled.files.opening import open_regular
from atled.utils.download import download, get_data_home
from atled.utils.image_utils import imread, imresize

__all__ = [
    "FileReader",
    "download",
    "get_data_home",
    "load",
    "load_csv",
    "load_image",
    "load_npy",
    "load_wav",
]

_SAMPLE_DTYPES: dict[int, np.dtype] = {
    1: np.dtype(np.uint8),
    2: np.dtype("<i2"),
    4: np.dtype("<i4"),
}  # by bytes per sample
_REMOTE = ("http://", "https://", "s3://")


class FileReader:
    """Opens files named relative to a base file; only local ones, as atled fetches nothing from a network.

    Args:
        base_uri: path of a file, or of a folder with a trailing separator.

    Raises ValueError for an address of a network.
    """

    def __init__(self, base_uri: str | os.PathLike[str]) -> None:
        self._base = os.fspath(base_uri)
        _check_local(self._base)

    @contextlib.contextmanager
    def open(
        self, filename: str | None = None, textmode: bool = False, encoding: str = "utf-8-sig"
    ) -> Iterator[IO[Any]]:
        """A file for reading: the base itself, or one named relative to its folder.

        Raises OSError where it is missing, must not be read, or is not a regular file: a pipe could block.
        """
        path = self.path(filename)
        with open_regular(f"data file {path!r}", path) as file:
            if textmode:
                with io.TextIOWrapper(file, encoding=encoding) as text:
                    yield text
            else:
                yield file

    def path(self, filename: str | None = None) -> str:
        """The path that a name means."""
        if filename is None:
            return self._base
        _check_local(filename)
        return os.path.abspath(os.path.join(os.path.dirname(self._base), filename.replace("\\", "/")))

    def listdir(self) -> list[str]:
        """Names of the `.h5` files in the base folder, sorted."""
        return [name for name in sorted(os.listdir(self._base)) if os.path.splitext(name)[1].lower() == ".h5"]


def _check_local(path: str) -> None:
    if path.lower().startswith(_REMOTE):
        raise ValueError(
            four_parts(
                f"data at {path!r}", "atled reads local files only", "", "download the data, and name the file here"
            )
        )


def load_image(file: IO[bytes], shape: tuple[int, ...] | None = None, normalize: bool = False) -> np.ndarray:
    """An image as (C, H, W): uint8, or float64 from 0 to 1 with `normalize`.

    shape: (C, H, W) to resize to; ValueError where the channels differ.
    """
    image = imread(file)
    image = image[..., np.newaxis] if image.ndim == 2 else image
    if shape is not None:
        if shape[0] != image.shape[2]:
            raise ValueError(
                four_parts(
                    f"image {_name(file)!r} as shape {shape}",
                    f"it has {image.shape[2]} channels",
                    "",
                    "convert the image",
                )
            )
        if tuple(shape[1:]) != image.shape[:2]:
            image = imresize(image, (shape[2], shape[1]))
    image = image.transpose(2, 0, 1)
    return image * (1.0 / 255.0) if normalize else image


def load_csv(file: IO[bytes], shape: tuple[int, ...] | None = None, normalize: bool = False) -> np.ndarray:
    """A table of numbers as (rows, columns) float64; ValueError, naming the line, where it is none."""
    name = _name(file)
    rows: list[list[float]] = []
    line = 1
    try:
        text = file.read().decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text))
        for row in reader:
            line = reader.line_num
            if row:
                rows.append([float(field) for field in row])
                if len(row) != len(rows[0]):
                    raise ValueError(f"{len(row)} numbers, the first line has {len(rows[0])}")
    except (ValueError, csv.Error) as error:  # ValueError: not UTF-8, too
        raise ValueError(
            four_parts(
                f"table {name!r}, line {line}",
                str(error),
                "",
                "tables hold numbers only, in UTF-8, without a header, and as many in each line",
            )
        ) from error
    return _shaped(np.array(rows), shape, file)


def load_npy(file: IO[bytes], shape: tuple[int, ...] | None = None, normalize: bool = False) -> np.ndarray:
    """The array of a file; one of Python objects is refused, because reading it would run code from the file."""
    try:
        # Not numpy.load, which takes archives and pickles too.
        values = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # a damaged file shows as one of many types of exception
        raise ValueError(
            four_parts(
                f"array {_name(file)!r}",
                "damaged, or not an array of numbers",
                in_words(error),
                "save it again with numpy.save",
            )
        ) from error
    return _shaped(values, shape, file)


def load_wav(file: IO[bytes], shape: tuple[int, ...] | None = None, normalize: bool = False) -> np.ndarray:
    """Sound as (samples, channels): uint8 for 8 bits, int16, and int32 for 24 (in the upper bytes) and 32."""
    try:
        with wave.open(file) as sound:
            width, channels = sound.getsampwidth(), sound.getnchannels()
            expected = sound.getnframes() * width * channels
            raw = np.frombuffer(sound.readframes(sound.getnframes()), np.uint8)
    except Exception as error:  # a damaged file shows as one of many types of exception
        raise ValueError(
            four_parts(f"sound {_name(file)!r}", "damaged, or not plain PCM", in_words(error), "save it as a PCM .wav")
        ) from error
    if raw.size != expected or width not in (1, 2, 3, 4):
        raise ValueError(
            four_parts(
                f"sound {_name(file)!r}",
                f"{raw.size} bytes of samples of {width} bytes, its header says {expected}",
                "",
                "save it again",
            )
        )
    if width == 3:
        wide = np.zeros((raw.size // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        raw, width = wide.reshape(-1), 4
    values = raw.view(_SAMPLE_DTYPES[width])
    return _shaped(values.reshape(-1, channels), shape, file)


def _shaped(values: np.ndarray, shape: tuple[int, ...] | None, file: object) -> np.ndarray:
    if shape is None:
        return values
    try:
        return values.reshape(shape)
    except ValueError as error:
        raise ValueError(
            four_parts(
                f"{_name(file)!r} as shape {shape}", f"it has shape {values.shape}", "", "ask for a fitting shape"
            )
        ) from error


_IMAGES = (".bmp", ".jpg", ".jpeg", ".png", ".gif", ".tif", ".tiff")
_LOADERS: dict[str, Callable[..., np.ndarray]] = {
    **dict.fromkeys(_IMAGES, load_image),
    ".csv": load_csv,
    ".npy": load_npy,
    ".wav": load_wav,
}


def load(ext: str) -> Callable[..., np.ndarray]:
    """The loader for a suffix, called as `loader(file, shape=None, normalize=False)`; ValueError for an unknown one."""
    loader = _LOADERS.get(ext.lower())
    if loader is None:
        raise ValueError(
            four_parts(
                f"a file with suffix {ext!r}",
                "no loader reads it",
                f"known are {listing(_LOADERS)}",
                did_you_mean(ext, _LOADERS, "convert the file"),
            )
        )
    return loader


def _name(file: object) -> str:
    return str(getattr(file, "name", "a binary file"))


def __dir__() -> list[str]:
    return sorted(__all__)
