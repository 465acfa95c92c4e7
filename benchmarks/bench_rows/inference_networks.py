"""The networks that are only inferred, each written once in terms of layers."""

from __future__ import annotations

from typing import Any

from bench_rows.inference_layers import Layers, Network, normalized


def _lenet(layers: Layers, h: Any) -> Any:
    for name, channels in (("conv1", 1), ("conv2", 16)):
        h = layers.bias(layers.convolution(h, channels, 16, 5, name), 16, name)
        h = layers.relu(layers.max_pooling(h, 2, 2))
    h = layers.relu(layers.affine(layers.flatten(h, 16 * 7 * 7), 16 * 7 * 7, 50, "affine1"))
    return layers.affine(h, 50, 10, "affine2")


def _resnet18(layers: Layers, h: Any) -> Any:
    """He et al., Deep Residual Learning for Image Recognition, 2016, table 1."""
    h = layers.relu(normalized(layers, h, 3, 64, 7, "first", 2))
    h = layers.max_pooling(h, 3, 2, 1)
    channels = 64
    for stage, maps in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name = f"stage{stage}block{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            inner = layers.relu(normalized(layers, h, channels, maps, 3, name + "a", stride))
            inner = normalized(layers, inner, maps, maps, 3, name + "b")
            shortcut = h if channels == maps else normalized(layers, h, channels, maps, 1, name + "shortcut", stride)
            h = layers.relu(inner + shortcut)
            channels = maps
    return layers.affine(layers.mean_of_positions(h), 512, 1000, "last")


# Expansion, maps, count of blocks, stride of the first one.
_MOBILE_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _mobilenet_v2(layers: Layers, h: Any) -> Any:
    """Sandler et al., MobileNetV2, 2018, table 2."""
    h = layers.relu(normalized(layers, h, 3, 32, 3, "first", 2), 6)
    channels = 32
    for stage, (expansion, maps, count, first_stride) in enumerate(_MOBILE_STAGES):
        for block in range(count):
            name, stride, wide = f"stage{stage}block{block}", 1 if block else first_stride, channels * expansion
            inner = h
            if expansion > 1:
                inner = layers.relu(normalized(layers, inner, channels, wide, 1, name + "in"), 6)
            inner = layers.relu(normalized(layers, inner, wide, wide, 3, name + "each", stride, wide), 6)
            inner = normalized(layers, inner, wide, maps, 1, name + "out")
            h = h + inner if stride == 1 and channels == maps else inner
            channels = maps
    h = layers.relu(normalized(layers, h, channels, 1280, 1, "wide"), 6)
    return layers.affine(layers.mean_of_positions(h), 1280, 1000, "last")


def _encoder(layers: Layers, h: Any) -> Any:
    """Vaswani et al., Attention Is All You Need, 2017, section 3.1: four layers of 4 heads, 256 and 1024 wide."""
    size = 256
    for number in range(4):
        name = f"layer{number}"
        q, k, v = (layers.affine(h, size, size, f"{name}{part}") for part in "qkv")
        attended = layers.affine(layers.attention(q, k, v, 4, size), size, size, f"{name}o")
        h = layers.layer_normalization(h + attended, size, f"{name}first")
        inner = layers.relu(layers.affine(h, size, 4 * size, f"{name}in"))
        h = layers.layer_normalization(h + layers.affine(inner, 4 * size, size, f"{name}out"), size, f"{name}second")
    return h


def _lstm(layers: Layers, h: Any) -> Any:
    return layers.lstm(h, 256, 256, "lstm")


NETWORKS = {
    "LeNet": Network((1, 28, 28), _lenet),
    "ResNet-18": Network((3, 224, 224), _resnet18),
    "MobileNetV2": Network((3, 224, 224), _mobilenet_v2),
    "encoder": Network((64, 256), _encoder),
    "LSTM": Network((50, 256), _lstm),
}
