"""Planes of some images, copied by COPY_IMAGES: the words of a block that say how, and pieces that ask for it."""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES, CopyImages
from atled_cpu_numba.kernels.shared.geometry import Layout
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.layout import layout


class CopiedPlanes:
    """The first words of the blocks of such convolutions; lengths in elements."""

    copy_images: int  # address of COPY_IMAGES
    x: int  # address of what is copied
    images: int
    groups: int
    channels: int  # per group
    height: int
    width: int
    plane_length: int
    channel_length: int  # of the planes of all phases
    front: int
    image_pitch: int
    row_pitch: int
    stride_h: int
    stride_w: int
    phases: int
    phases_at: int  # word where they start


_BLOCK = layout(CopiedPlanes)


def copied_words(planes: Layout, plane_length: int, dtype: str) -> dict[str, int]:
    """Those of the words, by name, that follow from how the planes lie; plane_length: of one phase."""
    return {
        "copy_images": COPY_IMAGES[dtype].address(),
        "plane_length": plane_length,
        "channel_length": len(planes.phases) * plane_length,
        "front": planes.front,
        "image_pitch": planes.image_pitch,
        "row_pitch": planes.row_pitch,
        "stride_h": planes.stride[0],
        "stride_w": planes.stride[1],
        "phases": len(planes.phases),
    }


def make_copy_planes(dtype: str) -> Callable[..., None]:
    """copy_planes(block, inner, group, channel, channels, first_image, images, target): of some images, some planes.

    block: address of one that begins with the words of `CopiedPlanes`.  inner: memory for the block of COPY_IMAGES.
    channel: in the group, from which on `channels` are copied.  target: planes, which hold zeros or earlier images.
    """
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import piece

    element = SIZES[dtype]

    @piece
    def copy_planes(block, inner, group, channel, channels, first_image, images, target):
        w, q = words(block), words(inner)
        height, width = w[_BLOCK.height], w[_BLOCK.width]
        image_step = w[_BLOCK.groups] * w[_BLOCK.channels] * height * width
        start = first_image * image_step + (group * w[_BLOCK.channels] + channel) * height * width
        q[CopyImages.x] = w[_BLOCK.x] + element * start
        q[CopyImages.images], q[CopyImages.channels], q[CopyImages.image_step] = images, channels, image_step
        q[CopyImages.height], q[CopyImages.width] = height, width
        q[CopyImages.target], q[CopyImages.plane_length] = target, w[_BLOCK.plane_length]
        q[CopyImages.channel_length], q[CopyImages.front] = w[_BLOCK.channel_length], w[_BLOCK.front]
        q[CopyImages.image_pitch], q[CopyImages.row_pitch] = w[_BLOCK.image_pitch], w[_BLOCK.row_pitch]
        q[CopyImages.stride_h], q[CopyImages.stride_w] = w[_BLOCK.stride_h], w[_BLOCK.stride_w]
        q[CopyImages.phases], q[CopyImages.phase_table] = w[_BLOCK.phases], block + 8 * w[_BLOCK.phases_at]
        call3(w[_BLOCK.copy_images], inner, 0, 1)

    return copy_planes


def make_copy_plane_rows(dtype: str) -> Callable[..., None]:
    """copy_plane_rows(block, inner, group, image, first, end, target): rows from `first` to `end` of an image's planes.

    All planes of the group; `end` may be beyond the last row. The rest as in `make_copy_planes`.
    """
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import piece

    element = SIZES[dtype]

    @piece
    def copy_plane_rows(block, inner, group, image, first, end, target):
        w, q = words(block), words(inner)
        height, width, stride_h = w[_BLOCK.height], w[_BLOCK.width], w[_BLOCK.stride_h]
        channels = w[_BLOCK.channels]
        row_pitch = w[_BLOCK.row_pitch]
        # Each phase has one of so many rows of the source; COPY_IMAGES takes the height for that from plane to plane.
        rows = min(height - first * stride_h, (end - first) * stride_h)
        if rows <= 0:  # all of them are padding
            return
        q[CopyImages.height] = rows
        q[CopyImages.images], q[CopyImages.channels], q[CopyImages.image_step] = 1, 1, 0
        q[CopyImages.width], q[CopyImages.row_pitch], q[CopyImages.image_pitch] = width, row_pitch, 0
        q[CopyImages.plane_length], q[CopyImages.channel_length] = w[_BLOCK.plane_length], w[_BLOCK.channel_length]
        q[CopyImages.front], q[CopyImages.stride_h], q[CopyImages.stride_w] = (
            w[_BLOCK.front],
            stride_h,
            w[_BLOCK.stride_w],
        )
        q[CopyImages.phases], q[CopyImages.phase_table] = w[_BLOCK.phases], block + 8 * w[_BLOCK.phases_at]
        x = w[_BLOCK.x] + element * ((image * w[_BLOCK.groups] + group) * channels * height + first * stride_h) * width
        for channel in range(channels):
            q[CopyImages.x] = x + element * channel * height * width
            q[CopyImages.target] = target + element * (channel * w[_BLOCK.channel_length] + first * row_pitch)
            call3(w[_BLOCK.copy_images], inner, 0, 1)

    return copy_plane_rows
