"""All layer calls on images."""

from __future__ import annotations

from atled.neon.calls.convolution import ConvolutionCalls
from atled.neon.calls.convolution_layers import ConvolutionLayers
from atled.neon.calls.local_response import LocalResponseCalls
from atled.neon.calls.pooling import PoolingCalls
from atled.neon.calls.pooling_layers import PoolingLayers
from atled.neon.calls.regions import RegionCalls


class ImageCalls(ConvolutionLayers, ConvolutionCalls, PoolingLayers, PoolingCalls, LocalResponseCalls, RegionCalls):
    """Computes with images, (C, D, H, W, N), and makes the parameter objects for it."""
