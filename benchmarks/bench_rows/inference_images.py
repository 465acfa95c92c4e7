"""Further networks that are only inferred, of images: what is in them, by convolutions or by products of patches."""

from __future__ import annotations

from typing import Any

from bench_rows.inference_layers import Layers, Network, normalized


def _convolved(layers: Layers, h: Any, channels: int, maps: int, kernel: int, name: str, stride: int = 1) -> Any:
    h = layers.convolution(h, channels, maps, kernel, name, stride=stride)
    return layers.relu(layers.bias(h, maps, name))


# Maps that are squeezed, and expanded by each of two convolutions; 0: max pooling.
_FIRES = ((16, 64), (16, 64), 0, (32, 128), (32, 128), 0, (48, 192), (48, 192), (64, 256), (64, 256))


def _squeezenet(layers: Layers, h: Any) -> Any:
    """Iandola et al., SqueezeNet, 2016, table 1, with the smaller first layer and earlier pooling of version 1.1."""
    h = layers.max_pooling(_convolved(layers, h, 3, 64, 3, "first", 2), 3, 2)
    channels = 64
    for number, maps in enumerate(_FIRES):
        if maps == 0:
            h = layers.max_pooling(h, 3, 2)
            continue
        name, (few, many) = f"fire{number}", maps
        squeezed = _convolved(layers, h, channels, few, 1, name + "squeeze")
        expanded = (_convolved(layers, squeezed, few, many, kernel, f"{name}expand{kernel}") for kernel in (1, 3))
        h = layers.concatenate(*expanded)
        channels = 2 * many
    return layers.mean_of_positions(_convolved(layers, h, channels, 1000, 1, "last"))


_VGG_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))


def _vgg11(layers: Layers, h: Any) -> Any:
    """Simonyan and Zisserman, Very Deep Convolutional Networks, 2015, table 1, A; affine layers of 1024 for 4096."""
    channels = 3
    for stage, convolutions in enumerate(_VGG_STAGES):
        for number, maps in enumerate(convolutions):
            h = _convolved(layers, h, channels, maps, 3, f"stage{stage}conv{number}")
            channels = maps
        h = layers.max_pooling(h, 2, 2)
    inputs = 512 * 7 * 7
    h = layers.relu(layers.affine(layers.flatten(h, inputs), inputs, 1024, "affine1"))
    h = layers.relu(layers.affine(h, 1024, 1024, "affine2"))
    return layers.affine(h, 1024, 1000, "affine3")


def _resnext50(layers: Layers, h: Any) -> Any:
    """Xie et al., Aggregated Residual Transformations, 2017, table 1: ResNeXt-50 (32x4d)."""
    h = layers.max_pooling(layers.relu(normalized(layers, h, 3, 64, 7, "first", 2)), 3, 2, 1)
    channels = 64
    for stage, (maps, count) in enumerate(((256, 3), (512, 4), (1024, 6), (2048, 3))):
        inside = maps // 2
        for block in range(count):
            name, stride = f"stage{stage}block{block}", 2 if stage > 0 and block == 0 else 1
            inner = layers.relu(normalized(layers, h, channels, inside, 1, name + "in"))
            inner = layers.relu(normalized(layers, inner, inside, inside, 3, name + "groups", stride, 32))
            inner = normalized(layers, inner, inside, maps, 1, name + "out")
            shortcut = h if channels == maps else normalized(layers, h, channels, maps, 1, name + "shortcut", stride)
            h = layers.relu(inner + shortcut)
            channels = maps
    return layers.affine(layers.mean_of_positions(h), channels, 1000, "last")


def _densenet121(layers: Layers, h: Any) -> Any:
    """Huang et al., Densely Connected Convolutional Networks, 2017, table 1: DenseNet-121."""
    h = layers.max_pooling(layers.relu(normalized(layers, h, 3, 64, 7, "first", 2)), 3, 2, 1)
    channels, growth = 64, 32
    for stage, count in enumerate((6, 12, 24, 16)):
        if stage > 0:
            name = f"transition{stage}"
            h = layers.relu(layers.batch_normalization(h, channels, name))
            h = layers.average_pooling(layers.convolution(h, channels, channels // 2, 1, name), 2, 2)
            channels //= 2
        for block in range(count):
            name = f"stage{stage}block{block}"
            inner = layers.relu(layers.batch_normalization(h, channels, name + "first"))
            inner = layers.relu(normalized(layers, inner, channels, 4 * growth, 1, name + "narrow"))
            h = layers.concatenate(h, layers.convolution(inner, 4 * growth, growth, 3, name + "grow"))
            channels += growth
    h = layers.relu(layers.batch_normalization(h, channels, "last"))
    return layers.affine(layers.mean_of_positions(h), channels, 1000, "last")


# Expansion, maps, count of blocks, stride of the first one, kernel.
_EFFICIENT_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def _swish(layers: Layers, h: Any) -> Any:
    return h * layers.sigmoid(h)


def _efficientnet_b0(layers: Layers, h: Any) -> Any:
    """Tan and Le, EfficientNet, 2019, table 1; channels are weighed as in Hu et al., Squeeze-and-Excitation, 2018."""
    h = _swish(layers, normalized(layers, h, 3, 32, 3, "first", 2))
    channels = 32
    for stage, (expansion, maps, count, first_stride, kernel) in enumerate(_EFFICIENT_STAGES):
        for block in range(count):
            name, stride, wide = f"stage{stage}block{block}", 1 if block else first_stride, channels * expansion
            inner = h
            if expansion > 1:
                inner = _swish(layers, normalized(layers, inner, channels, wide, 1, name + "in"))
            inner = _swish(layers, normalized(layers, inner, wide, wide, kernel, name + "each", stride, wide))
            inner = inner * _excitation(layers, inner, wide, channels // 4, name)
            inner = normalized(layers, inner, wide, maps, 1, name + "out")
            h = h + inner if stride == 1 and channels == maps else inner
            channels = maps
    h = _swish(layers, normalized(layers, h, channels, 1280, 1, "wide"))
    return layers.affine(layers.mean_of_positions(h), 1280, 1000, "last")


def _excitation(layers: Layers, h: Any, channels: int, squeezed: int, name: str) -> Any:
    """The weight of each channel, (N, C, 1, 1)."""
    mean = layers.mean_of_positions(h, keepdims=True)
    inner = layers.convolution(mean, channels, squeezed, 1, name + "squeeze")
    inner = _swish(layers, layers.bias(inner, squeezed, name + "squeeze"))
    outer = layers.convolution(inner, squeezed, channels, 1, name + "excite")
    return layers.sigmoid(layers.bias(outer, channels, name + "excite"))


def _shufflenet_v2(layers: Layers, h: Any) -> Any:
    """Ma et al., ShuffleNet V2, 2018, table 5, 1x; the units are those of figure 3 (c) and (d)."""
    h = layers.max_pooling(layers.relu(normalized(layers, h, 3, 24, 3, "first", 2)), 3, 2, 1)
    channels, size = 24, 56
    for stage, (maps, count) in enumerate(((116, 4), (232, 8), (464, 4))):
        half = maps // 2
        size //= 2
        for unit in range(count):
            name = f"stage{stage}unit{unit}"
            if unit == 0:
                left = normalized(layers, h, channels, channels, 3, name + "left each", 2, channels)
                left = layers.relu(normalized(layers, left, channels, half, 1, name + "left"))
                right, inputs, stride = h, channels, 2
            else:
                left, right = layers.halves(h, maps)
                inputs, stride = half, 1
            right = layers.relu(normalized(layers, right, inputs, half, 1, name + "in"))
            right = normalized(layers, right, half, half, 3, name + "each", stride, half)
            right = layers.relu(normalized(layers, right, half, half, 1, name + "out"))
            h = layers.channel_shuffle(layers.concatenate(left, right), 2, maps, size)
        channels = maps
    h = layers.relu(normalized(layers, h, channels, 1024, 1, "wide"))
    return layers.affine(layers.mean_of_positions(h), 1024, 1000, "last")


# The kernels of each branch between 1x1 convolutions, by rows and columns; the first branch has none.
_INCEPTION_BRANCHES = ((), ((1, 7), (7, 1)), ((7, 1), (1, 7), (7, 1), (1, 7)))


def _inception(layers: Layers, h: Any) -> Any:
    """Szegedy et al., Rethinking the Inception Architecture, 2016, figure 6: two blocks of 768 maps, 128 inside."""
    channels, inside, maps = 768, 128, 192
    for block in range(2):
        branches = []
        for number, kernels in enumerate(_INCEPTION_BRANCHES):
            name = f"block{block}branch{number}"
            widths = [channels, *[inside] * len(kernels), maps]
            branch = h
            for step, kernel in enumerate([(1, 1), *kernels]):
                branch = layers.convolution_nd(branch, widths[step], widths[step + 1], kernel, f"{name}conv{step}")
                branch = layers.relu(branch)
            branches.append(branch)
        pooled = layers.average_pooling(h, 3, 1, 1)
        branches.append(_convolved(layers, pooled, channels, maps, 1, f"block{block}pooled"))
        h = layers.concatenate(*branches)
    return h


def _convnext_tiny(layers: Layers, h: Any) -> Any:
    """Liu et al., A ConvNet for the 2020s, 2022, table 9: ConvNeXt-T; layer scale is in the weights."""
    channels = 3
    for stage, (maps, count) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        kernel = (2, 2)
        if stage == 0:
            kernel = (4, 4)
        else:
            h = _normalized_channels(layers, h, channels, f"stage{stage}norm")
        h = layers.convolution_nd(h, channels, maps, kernel, f"stage{stage}", stride=kernel, is_padded=False)
        channels = maps
        if stage == 0:
            h = _normalized_channels(layers, h, channels, "first norm")
        for block in range(count):
            name = f"stage{stage}block{block}"
            inner = layers.convolution_nd(h, channels, channels, (7, 7), name + "each", groups=channels)
            inner = layers.layer_normalization(layers.transpose(inner, (0, 2, 3, 1)), channels, name + "norm")
            inner = layers.gelu(layers.affine(inner, channels, 4 * channels, name + "in"))
            inner = layers.affine(inner, 4 * channels, channels, name + "out")
            h = h + layers.transpose(inner, (0, 3, 1, 2))
    h = layers.layer_normalization(layers.mean_of_positions(h), channels, "last norm")
    return layers.affine(h, channels, 1000, "last")


def _normalized_channels(layers: Layers, h: Any, channels: int, name: str) -> Any:
    """Layer normalization of each position's channels, of (N, C, H, W)."""
    h = layers.layer_normalization(layers.transpose(h, (0, 2, 3, 1)), channels, name)
    return layers.transpose(h, (0, 3, 1, 2))


def _mixer(layers: Layers, h: Any) -> Any:
    """Tolstikhin et al., MLP-Mixer, 2021, figure 1: four layers on 64 patches, 256 wide, hidden widths as table 1."""
    patches, size = 64, 256
    for number in range(4):
        name = f"layer{number}"
        inner = layers.layer_normalization(h, size, name + "first")
        inner = layers.transpose(inner, (0, 2, 1))
        inner = layers.gelu(layers.affine(inner, patches, size // 2, name + "tokens in"))
        inner = layers.affine(inner, size // 2, patches, name + "tokens out")
        h = h + layers.transpose(inner, (0, 2, 1))
        inner = layers.layer_normalization(h, size, name + "second")
        inner = layers.gelu(layers.affine(inner, size, 4 * size, name + "channels in"))
        h = h + layers.affine(inner, 4 * size, size, name + "channels out")
    return h


IMAGE_NETWORKS = {
    "SqueezeNet 1.1": Network((3, 224, 224), _squeezenet),
    "VGG-11": Network((3, 224, 224), _vgg11),
    "ResNeXt-50": Network((3, 224, 224), _resnext50),
    "DenseNet-121": Network((3, 224, 224), _densenet121),
    "EfficientNet-B0": Network((3, 224, 224), _efficientnet_b0),
    "ShuffleNetV2": Network((3, 224, 224), _shufflenet_v2),
    "Inception blocks": Network((768, 17, 17), _inception),
    "ConvNeXt-T": Network((3, 224, 224), _convnext_tiny),
    "MLP-Mixer": Network((64, 256), _mixer),
}
