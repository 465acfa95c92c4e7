"""ImageAugmentation: each row of the result from four pixels per element, whose places are shared by the channels.

What an image draws is worked out in float64, once per share of it; the places of a row's elements in tables, one entry
per column; then every channel interpolates through the tables in its own dtype.

Workspace of a share (64-bit entries): brightness and contrast per channel, then per column: the place of the upper left
of the four pixels, the steps to the right and down from it, the shares of the right and of the lower ones, the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.random.random_state import RandomState
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    fitting_shares,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    random_state: int  # address
    y: int  # address
    workspace: int  # address
    images: int
    channels: int
    x_rows: int
    x_columns: int
    rows: int  # of y
    columns: int  # of y
    pad_rows: int  # above, and below
    pad_columns: int  # on the left, and on the right
    flip_lr: int  # attributes, from here on: flags,
    flip_ud: int
    brightness_each: int
    contrast_each: int
    min_scale: int  # and bits of float64
    max_scale: int
    angle: int
    aspect_ratio: int
    distortion: int
    brightness: int
    contrast: int
    contrast_center: int
    noise: int


_FLAGS = ("flip_lr", "flip_ud", "brightness_each", "contrast_each")
_FLOATS = (
    *("min_scale", "max_scale", "angle", "aspect_ratio", "distortion"),
    *("brightness", "contrast", "contrast_center", "noise"),
)
_TABLES = 6  # entries per column
_NOT_FINITE = 1
_ELEMENTS_PER_US = 200.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from numba import float64, int32, njit, uint64

    from atled_cpu_numba.codegen import JIT, float64_of_bits, floats64, ints64, words
    from atled_cpu_numba.kernels.random.random_state import philox
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    real, draw, top, unit = Real(dtype), philox(), uint64(8), 2.0**-24
    number, floats, size = real.kind, real.pointer, real.size

    @njit(**JIT)
    def uniform(place, call, key):
        w0, w1, w2, w3 = draw(uint64(place // 4), call, key)
        lane = place % 4
        word = w0 if lane == 0 else w1 if lane == 1 else w2 if lane == 2 else w3
        return float64(int32(word >> top)) * unit

    @piece
    def draw_tones(w, first, call, key, tones):
        brightness, contrast = float64_of_bits(w[Block.brightness]), float64_of_bits(w[Block.contrast])
        for channel in range(w[Block.channels]):
            u = uniform(first + 8 + 2 * (channel if w[Block.brightness_each] != 0 else 0), call, key)
            tones[2 * channel] = brightness * (2.0 * u - 1.0)
            u = uniform(first + 9 + 2 * (channel if w[Block.contrast_each] != 0 else 0), call, key)
            tones[2 * channel + 1] = contrast ** (2.0 * u - 1.0)

    @piece
    def add_noise(begin, count, sigma, call, key, noise):
        """Elements begin to begin + count of the normal numbers; a pair at either end may be drawn for one of them."""
        for pair in range(begin // 2, (begin + count + 1) // 2):
            w0, w1, w2, w3 = draw(uint64(pair // 2), call, key)
            first, second = (w0, w1) if pair % 2 == 0 else (w2, w3)
            radius = sigma * math.sqrt(-2.0 * math.log(1.0 - float64(int32(first >> top)) * unit))
            angle = 2.0 * math.pi * (float64(int32(second >> top)) * unit)
            at = 2 * pair - begin
            if at >= 0:
                noise[at] = radius * math.cos(angle)
            if at + 1 < count:
                noise[at + 1] = radius * math.sin(angle)

    @kernel
    def augmentation(block, part, parts):
        w = words(block)
        random_state = words(w[Block.random_state])
        key, call = uint64(random_state[RandomState.key]), uint64(random_state[RandomState.call])
        # From a call count that no call reaches: no word is used for two numbers.
        noise_call = uint64(random_state[RandomState.call] + (1 << 62))
        channels, x_rows, x_columns = w[Block.channels], w[Block.x_rows], w[Block.x_columns]
        rows, columns = w[Block.rows], w[Block.columns]
        min_scale, max_scale = float64_of_bits(w[Block.min_scale]), float64_of_bits(w[Block.max_scale])
        largest_angle, largest_ratio = float64_of_bits(w[Block.angle]), float64_of_bits(w[Block.aspect_ratio])
        center, largest_noise = number(float64_of_bits(w[Block.contrast_center])), float64_of_bits(w[Block.noise])
        drawn = 9 + 2 * channels
        tones = floats64(w[Block.workspace] + 8 * part * (2 * channels + 6 * columns))
        start = w[Block.workspace] + 8 * (part * (2 * channels + 6 * columns) + 2 * channels)
        places, right, down = ints64(start), ints64(start + 8 * columns), ints64(start + 16 * columns)
        beside, below = floats(start + 24 * columns), floats(start + 32 * columns)
        noise = floats64(start + 40 * columns)
        half_row, half_column = (rows - 1) / 2.0, (columns - 1) / 2.0
        corner = max(math.sqrt(half_row * half_row + half_column * half_column), 1e-9)
        first_line, after = w[Block.images] * rows * part // parts, w[Block.images] * rows * (part + 1) // parts
        image, cosine, sine, bend, sigma = -1, 1.0, 0.0, 0.0, 0.0
        row_scale, column_scale, row_centre, column_centre = 1.0, 1.0, 0.0, 0.0
        row_sign, column_sign = 1.0, 1.0
        for line in range(first_line, after):
            if line // rows != image:
                image = line // rows
                first = image * drawn
                scale = min_scale * (max_scale / min_scale) ** uniform(first, call, key)
                stretch = largest_ratio ** ((2.0 * uniform(first + 1, call, key) - 1.0) / 2.0)
                angle = largest_angle * (2.0 * uniform(first + 2, call, key) - 1.0)
                bend = float64_of_bits(w[Block.distortion]) * (2.0 * uniform(first + 3, call, key) - 1.0)
                column_sign = -1.0 if w[Block.flip_lr] != 0 and uniform(first + 4, call, key) >= 0.5 else 1.0
                row_sign = -1.0 if w[Block.flip_ud] != 0 and uniform(first + 5, call, key) >= 0.5 else 1.0
                cosine, sine = math.cos(angle), math.sin(angle)
                row_scale, column_scale = scale / stretch, scale * stretch
                # The outermost places of the output's centre, so that it just fits into the padded image.
                extent = rows / row_scale
                row_centre = uniform(first + 6, call, key) * (x_rows + 2 * w[Block.pad_rows] - extent)
                row_centre = row_centre - w[Block.pad_rows] + (extent - 1) / 2
                extent = columns / column_scale
                room = x_columns + 2 * w[Block.pad_columns] - extent
                column_centre = uniform(first + 7, call, key) * room - w[Block.pad_columns] + (extent - 1) / 2
                if not math.isfinite(row_centre + column_centre + cosine / row_scale + sine / column_scale + bend):
                    return 1
                sigma = largest_noise * uniform(first + drawn - 1, call, key)
                draw_tones(w, first, call, key, tones)
            row = row_sign * (line % rows - half_row)
            for i in range(columns):
                column = column_sign * (int32(i) - half_column)
                bent = (1.0 + bend * (row * row + column * column) / (corner * corner)) / (1.0 + bend)
                r = bent * (row * cosine - column * sine) / row_scale + row_centre
                c = bent * (column * cosine + row * sine) / column_scale + column_centre
                r = min(max(r, 0.0), x_rows - 1.0)
                c = min(max(c, 0.0), x_columns - 1.0)
                upper, left = int32(r), int32(c)
                places[i] = upper * x_columns + left
                right[i] = 1 if left + 1 < x_columns else 0
                down[i] = x_columns if upper + 1 < x_rows else 0
                beside[i] = number(c - left)
                below[i] = number(r - upper)
            for channel in range(channels):
                source = floats(w[Block.x] + size * (image * channels + channel) * x_rows * x_columns)
                begin = ((image * channels + channel) * rows + line % rows) * columns
                y = floats(w[Block.y] + size * begin)
                added, factor = number(tones[2 * channel]) + center, number(tones[2 * channel + 1])
                for i in range(columns):
                    at, step = places[i], down[i]
                    other = at + right[i]
                    share = beside[i]
                    high = source[at] * (number(1) - share) + source[other] * share
                    low = source[at + step] * (number(1) - share) + source[other + step] * share
                    value = high * (number(1) - below[i]) + low * below[i]
                    y[i] = (value - center) * factor + added
                if sigma != 0.0:
                    add_noise(begin, columns, sigma, noise_call, key, noise)
                    for i in range(columns):
                        y[i] = number(y[i] + noise[i])
        return 0

    return augmentation


_KERNELS = kernels_by_dtype("augmentation", _build)


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64, nothing is empty, and rows and columns are counted in 31 bits."""
    refused = refuse_floats(call, REALS, floats=(0,), empty=False)
    if refused:
        return refused
    assert call.inputs[0] is not None
    if math.prod(call.inputs[0].shape[-2:]) >= 1 << 31 or math.prod(call.outputs[0].shape[-2:]) >= 1 << 31:
        return "an image has 2^31 pixels or more"
    return True


def prepare(call: Call) -> Prepared:
    """ImageAugmentation: x, random_state -> y."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    channels = x.shape[-3] if x.ndim > 2 else 1
    rows, columns = y.shape[-2:]
    images = y.size // (channels * rows * columns)
    pad_rows, pad_columns = call.attributes["pad"]
    words = filled(
        Block,
        images=images,
        channels=channels,
        x_rows=x.shape[-2],
        x_columns=x.shape[-1],
        rows=rows,
        columns=columns,
        pad_rows=pad_rows,
        pad_columns=pad_columns,
        **{flag: int(call.attributes[flag]) for flag in _FLAGS},
    )
    share_bytes = 8 * (2 * channels + _TABLES * columns)
    parts = fitting_shares(share_count(y.size / _ELEMENTS_PER_US, images * rows), share_bytes)
    return launch(
        _KERNELS[x.dtype.name],
        words,
        (Block.x, Block.random_state, Block.y, Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        attributes={name: getattr(Block, name) for name in _FLOATS},
        errors={_NOT_FINITE: "a place in the image is not finite: give finite attributes"},
    )
