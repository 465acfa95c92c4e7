"""ImageAugmentation: what each image draws in one launch, its pixels in a second one."""

from __future__ import annotations

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import random
from atled_cuda_cupy.kernels.broadcasting import MOST_NARROW
from atled_cuda_cupy.launching import Launch, queued

_THREADS = 128
_GEOMETRY = 10  # numbers of an image, in front of two for each channel
_FLAGS = "flip_lr", "flip_ud", "brightness_each", "contrast_each"


def register(registrar: Registrar) -> None:
    """Hand over the op."""
    registrar.implementation("ImageAugmentation", "cuda", prepare, accepts=accepts, note="Philox, interpolated")


def accepts(call: Call) -> bool | str:
    """True where rows and columns are counted in 31 bits."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    if max(*x.shape[-2:], *y.shape[-2:]) >= 2**30:
        return "an image has 2^30 rows or columns, or more"
    return random.accepts(call)


def prepare(call: Call) -> Prepared:
    """Two launches; images and their numbers are in the workspace between them."""
    where, x, y = device(call.device_id), call.inputs[0], call.outputs[0]
    assert x is not None
    channels = x.shape[-3] if x.ndim > 2 else 1
    (x_rows, x_columns), (rows, columns) = x.shape[-2:], y.shape[-2:]
    pad_rows, pad_columns = call.attributes["pad"]
    pixels = y.size // max(channels, 1)
    images = pixels // max(rows * columns, 1)
    defines: dict[str, object] = {
        "T": type_names(y.dtype)[0],
        "X_ROWS": x_rows,
        "X_COLUMNS": x_columns,
        "ROWS": rows,
        "COLUMNS": columns,
        "PAD_ROWS": f"{pad_rows}LL",
        "PAD_COLUMNS": f"{pad_columns}LL",
        **{flag.upper(): int(call.attributes[flag]) for flag in _FLAGS},
    }
    source = "".join(map(template, ("elementwise", "philox", "augmentation")))
    floats = call.float_count + random.STATE_WORDS

    def launch(name: str, count: int) -> Launch:
        grid = where.blocks(count, _THREADS) if count else 0
        is_wide = max(x.size, y.size) >= MOST_NARROW
        return Launch(where, source, name, grid, _THREADS, (count, channels), defines, floats=floats, wide=is_wide)

    draws, pixel_launch = launch("draw_images", images), launch("augment", pixels)
    return queued(
        call,
        lambda x, state, y, workspace: [(draws, (workspace,), 0), (pixel_launch, (x, workspace, y), 0)],
        workspace=8 * max(images, 1) * (_GEOMETRY + 2 * channels),
    )
