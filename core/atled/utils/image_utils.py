"""Reading, writing and resizing images as NumPy arrays.

PNG files are written with the standard library alone; everything else needs Pillow (`pip install "atled[image]"`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from atled.errors import did_you_mean, four_parts, in_words, listing
from atled.files.opening import open_regular
from atled.files.replacing import replacing

__all__ = ["imload", "imread", "imresize", "imsave", "imwrite"]

INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by count of channels: grey, grey and alpha, RGB, RGBA
_CHANNELS = (-1, 0, 1, 3, 4)


def imread(
    path: str | os.PathLike[str] | IO[bytes],
    grayscale: bool = False,
    size: Sequence[int] | None = None,
    interpolate: str = "bilinear",
    channel_first: bool = False,
    as_uint16: bool = False,
    num_channels: int = -1,
) -> np.ndarray:
    """Read an image: (H, W, C) uint8, or (H, W) for a grey one.

    Of 16 bits per channel the upper 8 are given, unless as_uint16 is set. Pixels of 32 bits (TIFF) are given as they
    are: int32 or float32.

    Args:
        path: of the file, or a binary file.
        grayscale: make it grey.
        size: (width, height) to resize to; None: as it is.
        interpolate: one of `INTERPOLATIONS`, for resizing.
        channel_first: give (C, H, W) instead.
        as_uint16: give uint16. What has 8 bits per channel is multiplied by 256, as in NNabla. Colours of 16 bits are
            refused, because Pillow reads 8 of them.
        num_channels: 3 for RGB, 4 for RGBA, -1 as in the file; with `grayscale`: 0 for (H, W), or so many equal ones.

    Raises:
        ValueError: damaged, not an image, or not to be had as asked for.
        OSError: the file cannot be read.
        ImportError: Pillow is missing.
    """
    asked = f"imread({_name(path)!r})"
    if num_channels not in _CHANNELS or (not grayscale and num_channels in (0, 1)):
        raise ValueError(
            four_parts(
                f"{asked}, num_channels={num_channels}",
                "no such count of channels",
                f"known are {listing(map(str, _CHANNELS))}; 0 and 1 are for grey images",
                "pass grayscale=True for one channel, or num_channels=-1 for those of the file",
            )
        )
    image = _decoded(asked, path, grayscale, num_channels)
    if as_uint16:
        image = _widened(asked, path, image)
    elif image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    if size is not None:
        image = imresize(image, size, interpolate)
    return image.transpose(2, 0, 1) if channel_first and image.ndim == 3 else image


def _decoded(asked: str, path: Any, grayscale: bool, num_channels: int) -> np.ndarray:
    if isinstance(path, str | os.PathLike):
        with open_regular(asked, path) as file:
            return _decoded(asked, file, grayscale, num_channels)
    pillow = _pillow(asked)
    try:
        with pillow.open(path) as image:
            if image.mode == "P":  # numbers of colours in a table
                image = image.convert("RGBA" if "transparency" in image.info else "RGB")
            # Pillow's own conversions would cut off what is above 255. Its older versions give such a PNG mode I.
            is_wide = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")
            if is_wide:
                values = np.asarray(image).astype(np.uint16)
                if not grayscale and num_channels > 0:
                    opaque = [np.full_like(values, 0xFFFF)] * (num_channels - 3)
                    values = np.stack([values, values, values, *opaque], axis=2)
            else:
                if grayscale:
                    image = image.convert("L")
                elif num_channels > 0:
                    image = image.convert("RGB" if num_channels == 3 else "RGBA")
                values = np.asarray(image)
    except Exception as error:  # a damaged file shows as one of many types of exception
        raise ValueError(
            four_parts(
                asked,
                "the image is damaged or of an unknown format",
                in_words(error),
                "replace it, or convert it to PNG",
            )
        ) from error
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    if grayscale and num_channels > 0:
        values = np.repeat(values[..., np.newaxis], num_channels, axis=2)
    return values


def _widened(asked: str, path: Any, image: np.ndarray) -> np.ndarray:
    """The image as uint16."""
    if image.dtype == np.uint16:
        return image
    if image.dtype != np.uint8 or _png_depth(path) == 16:
        wrong = f"its pixels are {image.dtype}" if image.dtype != np.uint8 else "of colours of 16 bits Pillow reads 8"
        raise ValueError(four_parts(f"{asked}, as_uint16=True", wrong, "", "read it without as_uint16"))
    return image.astype(np.uint16) << 8


def _png_depth(path: Any) -> int:
    """Bits per channel that a PNG file says it has; 0 for another file."""
    if isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            head = file.read(25)
    else:
        path.seek(0)
        head = path.read(25)
    return head[24] if len(head) == 25 and head.startswith(_PNG_SIGNATURE) else 0


def imsave(
    path: str | os.PathLike[str],
    img: np.ndarray,
    channel_first: bool = False,
    as_uint16: bool = False,
    auto_scale: bool = True,
) -> None:
    """Write an image; the suffix of the name says the format.

    Args:
        path: of the file. A `.png` is written beside and renamed, by the standard library alone.
        img: (H, W), or (H, W, C) with 1 to 4 channels; uint8, uint16, or numbers from 0 to 1.
        channel_first: img is (C, H, W).
        as_uint16: write 16 bits per channel (PNG only).
        auto_scale: allow numbers from 0 to 1, which become 0 to 255 (or 65535), cut off after the point.

    Raises:
        ValueError: what was given is not an image, or the suffix is unknown.
        OSError: the file cannot be written.
        ImportError: another format than PNG, and Pillow is missing.
    """
    asked = f"imsave({os.fspath(path)!r})"
    pixels = _as_pixels(asked, img, channel_first, as_uint16, auto_scale)
    if os.path.splitext(path)[1].lower() == ".png":
        with replacing(path) as beside, open(beside, "xb") as file:
            file.write(_png(pixels))
        return
    pillow = _pillow(asked)
    if pixels.dtype != np.uint8:
        raise ValueError(four_parts(asked, "16 bits per channel", "", "save it as .png"))
    try:
        pillow.fromarray(pixels).save(path)
    except ValueError as error:
        raise ValueError(four_parts(asked, in_words(error), "", "use a name that ends in .png")) from error


def _as_pixels(asked: str, img: np.ndarray, channel_first: bool, as_uint16: bool, auto_scale: bool) -> np.ndarray:
    """The image as uint8 or uint16, (H, W) or (H, W, C) with more than one channel."""
    values = np.asarray(img)
    if channel_first and values.ndim == 3:
        values = values.transpose(1, 2, 0)
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in _PNG_COLOR_TYPES) or not values.size:
        raise ValueError(
            four_parts(asked, f"shape {values.shape} is not that of an image", "", "give (H, W) or (H, W, C), C 1 to 4")
        )
    full = 65535 if as_uint16 else 255
    if values.dtype == np.uint16 and not as_uint16:
        raise ValueError(four_parts(asked, "the image is uint16", "", "pass as_uint16=True, or cast it to uint8"))
    if values.dtype == np.uint8:
        values = values.astype(np.uint16) * 256 if as_uint16 else values
    elif values.dtype != np.uint16:
        # Not `any(values < 0)`: that would let NaN pass.
        if not auto_scale or not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                four_parts(
                    asked,
                    f"pixels of {values.dtype} from {values.min()} to {values.max()}, auto_scale={auto_scale}",
                    "with auto_scale, other dtypes than uint8 and uint16 must lie between 0 and 1",
                    "scale the image to that range, or cast it to uint8",
                )
            )
        values = (values.astype(np.float32) * full).astype(np.uint16 if as_uint16 else np.uint8)
    return values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values


def _png(pixels: np.ndarray) -> bytes:
    """The bytes of a PNG file (ISO/IEC 15948); every row by filter 0, none."""
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    rows = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")).reshape(height, -1).view(np.uint8)
    filtered = np.zeros((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 1:] = rows
    header = struct.pack(">IIBBBBB", width, height, 8 * pixels.dtype.itemsize, _PNG_COLOR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def imresize(
    img: np.ndarray, size: Sequence[int], interpolate: str = "bilinear", channel_first: bool = False
) -> np.ndarray:
    """Resize an image, of uint8 as such, of other dtypes channel by channel in float32.

    Args:
        img: (H, W) or (H, W, C).
        size: (width, height) of the result.
        interpolate: one of `INTERPOLATIONS`.
        channel_first: img and result are (C, H, W).

    Raises ValueError for another shape or an unknown interpolation; ImportError where Pillow is missing.
    """
    values = np.asarray(img)
    asked = f"imresize of shape {values.shape} to {tuple(size)}"
    if interpolate not in INTERPOLATIONS:
        known = f"known are {listing(INTERPOLATIONS)}"
        remedy = did_you_mean(interpolate, INTERPOLATIONS, "use one of those")
        raise ValueError(four_parts(f"{asked}, interpolate={interpolate!r}", "no such interpolation", known, remedy))
    if values.ndim not in (2, 3) or not values.size:
        raise ValueError(four_parts(asked, "that is not the shape of an image", "", "give (H, W) or (H, W, C)"))
    pillow = _pillow(asked)
    resample = getattr(pillow.Resampling, interpolate.upper())

    def resized(pixels: np.ndarray) -> np.ndarray:
        image = pillow.fromarray(np.ascontiguousarray(pixels))
        return np.asarray(image.resize(tuple(size), resample=resample)).astype(values.dtype)

    if values.ndim == 2:
        return resized(values if values.dtype == np.uint8 else values.astype(np.float32))
    image = values.transpose(1, 2, 0) if channel_first else values
    if values.dtype == np.uint8 and image.shape[2] in (2, 3, 4):
        # At once, not channel by channel: colours are weighted by their opacity then.
        result = resized(image)
    else:
        planes = (image[..., channel] for channel in range(image.shape[2]))
        result = np.stack([resized(p if p.dtype == np.uint8 else p.astype(np.float32)) for p in planes], axis=2)
    return result.transpose(2, 0, 1) if channel_first else result


imwrite = imsave
imload = imread


def _pillow(asked: str) -> Any:
    """Pillow's module of images."""
    try:
        from PIL import Image  # lazily: an optional library
    except ImportError as error:
        raise ImportError(
            four_parts(
                asked, f"Pillow cannot be imported ({error})", "", "pip install 'atled[image]' (or pip install pillow)"
            )
        ) from error
    return Image


def _name(file: object) -> str:
    """What to call a file in a message."""
    return str(file) if isinstance(file, str | os.PathLike) else str(getattr(file, "name", "a binary file"))


def __dir__() -> list[str]:
    return sorted(__all__)
