"""Convolutions of well-known networks, by which rules are judged that choose how to compute one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Shape(NamedTuple):
    """A convolution with padding that keeps sizes, or none.  sizes, kernel: along each axis."""

    network: str
    channels: int
    maps: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    is_padded: bool = True

    @property
    def pad(self) -> tuple[int, ...]:
        """Zeros on each side of each axis."""
        return tuple((k - 1) * self.dilation // 2 if self.is_padded else 0 for k in self.kernel)

    @property
    def name(self) -> str:
        """In words."""
        sizes, kernel = ("x".join(map(str, numbers)) for numbers in (self.sizes, self.kernel))
        text = f"{self.network}: {self.channels}x{sizes} to {self.maps}, {kernel}"
        text += f", stride {self.stride}" if self.stride > 1 else ""
        text += f", dilation {self.dilation}" if self.dilation > 1 else ""
        return text + (f", {self.groups} groups" if self.groups > 1 else "")


def _square(network: str, channels: int, maps: int, size: int, kernel: int = 1, **rest: int | bool) -> Shape:
    return Shape(network, channels, maps, (size, size), (kernel, kernel), **rest)  # type: ignore[arg-type]  # as named


def _residual() -> Iterator[Shape]:
    yield _square("ResNet", 3, 64, 224, 7, stride=2)
    for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        yield _square("ResNet", channels, channels, size, 3)
        yield _square("ResNet", channels, 4 * channels, size)
        yield _square("ResNet", 4 * channels, channels, size)
        if size > 7:
            yield _square("ResNet", channels, 2 * channels, size, 3, stride=2)
            yield _square("ResNet", channels, 2 * channels, size, 1, stride=2)
    for channels, size in ((128, 56), (256, 28), (512, 14)):
        yield _square("ResNeXt", channels, channels, size, 3, groups=32)
        yield _square("ResNeXt", channels, channels, size, 3, groups=32, stride=2)


def _light() -> Iterator[Shape]:
    yield _square("MobileNetV2", 3, 32, 224, 3, stride=2)
    for channels, size, stride in ((32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (384, 14, 1), (960, 7, 1)):
        yield _square("MobileNetV2", channels, channels, size, 3, stride=stride, groups=channels)
    for channels, maps, size in ((32, 16, 112), (16, 96, 112), (96, 24, 56), (24, 144, 56), (144, 32, 28)):
        yield _square("MobileNetV2", channels, maps, size)
    for channels, maps, size in ((32, 192, 28), (64, 384, 14), (384, 96, 14), (576, 160, 7), (320, 1280, 7)):
        yield _square("MobileNetV2", channels, maps, size)
    for channels, size, stride in ((240, 28, 1), (672, 14, 2), (1152, 7, 1)):
        yield _square("EfficientNet", channels, channels, size, 5, stride=stride, groups=channels)
    for channels, size in ((96, 56), (384, 14)):
        yield _square("ConvNeXt", channels, channels, size, 7, groups=channels)
    yield _square("ConvNeXt", 3, 96, 224, 4, stride=4, is_padded=False)


def _wide() -> Iterator[Shape]:
    for channels, size in ((64, 224), (256, 56), (512, 28)):
        yield _square("VGG", channels, channels, size, 3)
    yield _square("Inception", 3, 32, 299, 3, stride=2, is_padded=False)
    yield _square("Inception", 288, 384, 35, 3, stride=2, is_padded=False)
    yield _square("Inception", 48, 64, 35, 5)
    yield _square("Inception", 448, 384, 8, 3)
    for channels, size, kernel in ((192, 17, (1, 7)), (192, 17, (7, 1)), (384, 8, (1, 3)), (384, 8, (3, 1))):
        yield Shape("Inception", channels, channels, (size, size), kernel)
    for dilation in (6, 12, 18):
        yield _square("DeepLab", 320, 256, 33, 3, dilation=dilation)


def _small() -> Iterator[Shape]:
    yield _square("LeNet", 1, 6, 28, 5)
    yield _square("LeNet", 6, 16, 14, 5, is_padded=False)
    yield _square("U-Net", 16, 16, 128, 3)
    yield _square("U-Net", 48, 16, 128, 3)
    yield _square("ESPCN", 1, 64, 64, 5)
    yield _square("ESPCN", 64, 32, 64, 3)
    yield _square("ESPCN", 32, 12, 64, 3)


def _sequences() -> Iterator[Shape]:
    yield Shape("TCN", 64, 64, (512,), (3,))
    yield Shape("TCN", 64, 64, (512,), (3,), dilation=16)
    yield Shape("wav2vec", 1, 64, (16000,), (10,), stride=5, is_padded=False)
    yield Shape("wav2vec", 512, 512, (800,), (3,), stride=2, is_padded=False)
    yield Shape("keyword spotting", 64, 64, (98,), (9,), groups=64)
    yield Shape("TextCNN", 128, 100, (64,), (5,))
    yield Shape("C3D", 64, 128, (8, 28, 28), (3, 3, 3))
    yield Shape("C3D", 3, 64, (16, 56, 56), (3, 3, 3))


SHAPES = (*_residual(), *_light(), *_wide(), *_small(), *_sequences())
