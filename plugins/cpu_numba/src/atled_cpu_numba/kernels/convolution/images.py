"""The piece that convolutions share: copying images into the padded planes of `convolution_geometry`.

COPY_IMAGES is a kernel of its own, called by address with a block in the caller's workspace. Its block: x, images,
channels, from image to image of x, height, width, target, plane length, from channel to channel of the target, front,
image pitch, row pitch, stride_h, stride_w, number of phases, address of the phases as pairs of words. It writes the
images' elements only, and of each row at most `row pitch`: whoever calls it has filled the planes with zeros before.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.store import Kernel


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    @kernel
    def copy_images(block, part, parts):
        w = words(block)
        images, channels, image_step, height, width = w[1], w[2], w[3], w[4], w[5]
        plane_length, channel_length, front, image_pitch, row_pitch = w[7], w[8], w[9], w[10], w[11]
        stride_h, stride_w, phases, phase_table = w[12], w[13], w[14], words(w[15])
        for channel in range(channels):
            for phase in range(phases):
                a, b = phase_table[2 * phase], phase_table[2 * phase + 1]
                plane = w[6] + 4 * (channel * channel_length + phase * plane_length + front)
                rows, columns = (height - a + stride_h - 1) // stride_h, (width - b + stride_w - 1) // stride_w
                missing = (stride_w - 1 - b) // stride_w if b < 0 else 0  # left of the image
                columns = min(row_pitch, columns) - missing
                if columns <= 0:
                    continue
                b += missing * stride_w
                plane += 4 * missing
                for image in range(images):
                    source = w[0] + 4 * (image * image_step + (channel * height + a) * width + b)
                    target = plane + 4 * image * image_pitch
                    if stride_w == 1:
                        copy_rows((source, stride_h * width, target, row_pitch, rows, columns))
                        continue
                    for _ in range(rows):
                        if stride_w == 2:
                            x, y = floats32(source), floats32(target)
                            for j in range(columns):
                                y[j] = x[2 * j]
                        else:
                            x, y = floats32(source), floats32(target)
                            for j in range(columns):
                                y[j] = x[stride_w * j]
                        source += 4 * stride_h * width
                        target += 4 * row_pitch
        return 0

    return copy_images


COPY_IMAGES = Kernel("copy_images", _build)
