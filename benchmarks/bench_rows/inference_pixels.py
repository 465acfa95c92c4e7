"""Further networks that are only inferred, from images to something for each pixel: segmentation, super-resolution."""

from __future__ import annotations

from typing import Any

from bench_rows.inference_layers import Layers, Network


def _convolved(layers: Layers, h: Any, channels: int, maps: int, kernel: int, name: str, **window: Any) -> Any:
    return layers.relu(layers.convolution_nd(h, channels, maps, (kernel, kernel), name, **window))


def _unet(layers: Layers, h: Any) -> Any:
    """Ronneberger et al., U-Net, 2015, figure 1: three levels of its four, a quarter as wide, padded."""
    channels, skipped = 3, []
    for level, maps in enumerate((16, 32, 64, 128)):
        if level > 0:
            skipped.append((h, channels))
            h = layers.max_pooling(h, 2, 2)
        h = _convolved(layers, h, channels, maps, 3, f"down{level}a")
        h = _convolved(layers, h, maps, maps, 3, f"down{level}b")
        channels = maps
    for level, (skip, maps) in enumerate(reversed(skipped)):
        h = layers.concatenate(skip, layers.deconvolution(h, channels, maps, 2, f"up{level}"))
        h = _convolved(layers, h, 2 * maps, maps, 3, f"up{level}a")
        h = _convolved(layers, h, maps, maps, 3, f"up{level}b")
        channels = maps
    return layers.convolution_nd(h, channels, 2, (1, 1), "last")


def _deeplab_head(layers: Layers, h: Any) -> Any:
    """Chen et al., Rethinking Atrous Convolution, 2017, section 3.3: parallel convolutions, after two plain ones."""
    h = _convolved(layers, h, 3, 32, 3, "first", stride=(2, 2))
    h = _convolved(layers, h, 32, 64, 3, "second", stride=(2, 2))
    branches = [_convolved(layers, h, 64, 64, 1, "branch0")]
    branches += [_convolved(layers, h, 64, 64, 3, f"branch{rate}", dilation=rate) for rate in (3, 6, 12)]
    h = _convolved(layers, layers.concatenate(*branches), 256, 64, 1, "joined")
    return layers.convolution_nd(h, 64, 21, (1, 1), "last")


def _espcn(layers: Layers, h: Any) -> Any:
    """Shi et al., Real-Time Super-Resolution by a Sub-Pixel Convolutional Network, 2016, figure 1: thrice the size."""
    h = _convolved(layers, h, 1, 64, 5, "first")
    h = _convolved(layers, h, 64, 32, 3, "second")
    return layers.pixel_shuffle(layers.convolution_nd(h, 32, 9, (3, 3), "last"), 3, 1)


PIXEL_NETWORKS = {
    "U-Net": Network((3, 128, 128), _unet),
    "DeepLab head": Network((3, 128, 128), _deeplab_head),
    "ESPCN": Network((1, 128, 128), _espcn),
}
