"""Copying images into the padded planes of `shared.geometry`: a piece that several convolutions call by address.

COPY_IMAGES is a kernel of its own, called with a block in the caller's workspace. It writes the images' elements
only, and of each row at most a row's pitch: its caller has filled the planes with zeros before.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.geometry import Layout
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of


@layout
class CopyImages:
    """The block of COPY_IMAGES; steps and lengths in elements."""

    x: int  # address of the first image's first channel
    images: int
    channels: int
    image_step: int  # from image to image of x
    height: int
    width: int
    target: int  # address of the planes
    plane_length: int
    channel_length: int  # from channel to channel of the target
    front: int  # zeros before the first image
    image_pitch: int
    row_pitch: int
    stride_h: int
    stride_w: int
    phases: int
    phase_table: int  # address of the phases, of PHASE_WORDS each


@layout
class SourcePhase:
    """A source phase, modulo the stride; see `shared.geometry.Layout`."""

    row: int
    column: int


PHASE_WORDS = size_of(SourcePhase)


def phase_words(planes: Layout) -> list[int]:
    """The words of all phases."""
    return [word for row, column in planes.phases for word in filled(SourcePhase, row=row, column=column)]


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.convolution.every_second import make_copy_every_second
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector = lanes_of(dtype).vector
    half = max(2, vector // 2)
    copy_rows = make_copy_rows(dtype)
    copy_every_second, copy_short_rows = (make_copy_every_second(dtype, lanes) for lanes in (vector, half))

    @kernel
    def copy_images(block, part, parts):
        w = words(block)
        images, channels, image_step = w[CopyImages.images], w[CopyImages.channels], w[CopyImages.image_step]
        height, width = w[CopyImages.height], w[CopyImages.width]
        plane_length, channel_length = w[CopyImages.plane_length], w[CopyImages.channel_length]
        front, image_pitch, row_pitch = w[CopyImages.front], w[CopyImages.image_pitch], w[CopyImages.row_pitch]
        stride_h, stride_w, phases = w[CopyImages.stride_h], w[CopyImages.stride_w], w[CopyImages.phases]
        phase_table = words(w[CopyImages.phase_table])
        for channel in range(channels):
            for phase in range(phases):
                at = PHASE_WORDS * phase
                a, b = phase_table[at + SourcePhase.row], phase_table[at + SourcePhase.column]
                plane = w[CopyImages.target] + element * (channel * channel_length + phase * plane_length + front)
                rows, columns = (height - a + stride_h - 1) // stride_h, (width - b + stride_w - 1) // stride_w
                missing = (stride_w - 1 - b) // stride_w if b < 0 else 0  # left of the image
                columns = min(row_pitch, columns) - missing
                if columns <= 0:
                    continue
                b += missing * stride_w
                plane += element * missing
                for image in range(images):
                    source = w[CopyImages.x] + element * (image * image_step + (channel * height + a) * width + b)
                    target = plane + element * image * image_pitch
                    if stride_w == 1:
                        copy_rows((source, stride_h * width, target, row_pitch, rows, columns))
                        continue
                    if stride_w == 2 and columns > vector:
                        copy_every_second((source, stride_h * width, target, row_pitch, rows, columns))
                        continue
                    if stride_w == 2 and columns > half:
                        copy_short_rows((source, stride_h * width, target, row_pitch, rows, columns))
                        continue
                    for _ in range(rows):
                        x, y = floats(source), floats(target)
                        for j in range(columns):
                            y[j] = x[stride_w * j]
                        source += element * stride_h * width
                        target += element * row_pitch
        return 0

    return copy_images


COPY_IMAGES = kernels_by_dtype("copy_images", _build)
