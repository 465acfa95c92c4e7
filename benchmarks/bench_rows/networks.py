"""The networks that are trained, each written once in terms of layers; `layers` of the libraries are in training.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

BATCH_COUNT = 8


class Layers(Protocol):
    """What networks are made of; h is what the library computes with. Parameters are named as NNabla names them."""

    def convolution(self, h: Any, maps: int, kernel: int, name: str, pad: int = 0, stride: int = 1) -> Any:
        """With bias: `name`/conv/W (maps, channels, kernel, kernel) and b."""

    def batch_normalization(self, h: Any, name: str) -> Any:
        """By the batch's statistics, keeping running ones: `name`/bn/gamma, beta, mean and var."""

    def affine(self, h: Any, size: int, name: str) -> Any:
        """Of all axes but the first: `name`/affine/W (inputs, size) and b."""

    def max_pooling(self, h: Any, size: int) -> Any:
        """Windows of size x size beside each other."""

    def average_pooling(self, h: Any, size: int) -> Any:
        """Windows of size x size beside each other."""

    def relu(self, h: Any) -> Any:
        """The greater of 0 and h."""

    def tanh(self, h: Any) -> Any:
        """The hyperbolic tangent."""


@dataclass(frozen=True)
class Network:
    """A network and how it is trained.

    batch: images per batch.  shape: of an image.  classes: count.
    scores: (layers, images) -> scores.  solver: "adam" or "momentum".
    """

    batch: int
    shape: tuple[int, ...]
    classes: int
    scores: Callable[[Layers, Any], Any]
    solver: str = "adam"


def _digits(layers: Layers, h: Any) -> Any:
    h = layers.convolution(h, 16, 3, "conv1", pad=1, stride=2)
    h = layers.tanh(layers.batch_normalization(h, "bn1"))
    h = layers.convolution(h, 32, 3, "conv2", pad=1)
    h = layers.tanh(layers.batch_normalization(h, "bn2"))
    h = layers.average_pooling(h, 2)
    return layers.affine(layers.tanh(layers.affine(h, 64, "affine1")), 10, "affine2")


def _mlp(layers: Layers, h: Any) -> Any:
    for name in ("affine1", "affine2"):
        h = layers.relu(layers.affine(h, 512, name))
    return layers.affine(h, 10, "affine3")


def _lenet(layers: Layers, h: Any) -> Any:
    h = h / 255
    for name in ("conv1", "conv2"):
        h = layers.relu(layers.max_pooling(layers.convolution(h, 16, 5, name), 2))
    return layers.affine(layers.relu(layers.affine(h, 50, "affine1")), 10, "affine2")


def _resnet(layers: Layers, h: Any) -> Any:
    """Three stages of three residual blocks of two convolutions; the shortcut is a 1x1 one where the size changes."""

    def normalized(h: Any, maps: int, kernel: int, name: str, stride: int = 1) -> Any:
        h = layers.convolution(h, maps, kernel, name, pad=kernel // 2, stride=stride)
        return layers.batch_normalization(h, name)

    h = layers.relu(normalized(h, 16, 3, "first"))
    for stage, maps in enumerate((16, 32, 64)):
        for block in range(3):
            name = f"stage{stage}block{block}"
            changes = stage > 0 and block == 0
            stride = 2 if changes else 1
            inner = layers.relu(normalized(h, maps, 3, name + "a", stride))
            inner = normalized(inner, maps, 3, name + "b")
            shortcut = normalized(h, maps, 1, name + "shortcut", stride) if changes else h
            h = layers.relu(inner + shortcut)
    return layers.affine(layers.average_pooling(h, 8), 10, "last")


def _deep_cnn(layers: Layers, h: Any) -> Any:
    for number, maps in enumerate((64, *[128] * 10, 512)):
        h = layers.convolution(h, maps, 3, f"conv{number}", pad=1)
        h = layers.tanh(layers.batch_normalization(h, f"conv{number}"))
    h = layers.average_pooling(h, 2)
    return layers.affine(layers.tanh(layers.affine(h, 1024, "affine1")), 10, "affine2")


NETWORKS = {
    "digits": Network(64, (1, 8, 8), 10, _digits),  # the demo's
    "mlp": Network(128, (784,), 10, _mlp),
    "lenet": Network(64, (1, 28, 28), 10, _lenet),
    "resnet": Network(32, (3, 32, 32), 10, _resnet, solver="momentum"),
    "deep cnn": Network(16, (1, 8, 8), 10, _deep_cnn),
}


@dataclass
class Shapes:
    """Layers that compute nothing but shapes, and note the parameters; h is a `Shape`."""

    parameters: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def convolution(self, h: Shape, maps: int, kernel: int, name: str, pad: int = 0, stride: int = 1) -> Shape:
        channels, *size = h.shape
        self.parameters |= {f"{name}/conv/W": (maps, channels, kernel, kernel), f"{name}/conv/b": (maps,)}
        return Shape((maps, *((n + 2 * pad - kernel) // stride + 1 for n in size)))

    def batch_normalization(self, h: Shape, name: str) -> Shape:
        self.parameters |= {f"{name}/bn/{kind}": (1, h.shape[0], 1, 1) for kind in ("beta", "gamma", "mean", "var")}
        return h

    def affine(self, h: Shape, size: int, name: str) -> Shape:
        self.parameters |= {f"{name}/affine/W": (math.prod(h.shape), size), f"{name}/affine/b": (size,)}
        return Shape((size,))

    def max_pooling(self, h: Shape, size: int) -> Shape:
        return Shape((h.shape[0], *(n // size for n in h.shape[1:])))

    average_pooling = max_pooling

    def relu(self, h: Shape) -> Shape:
        return h

    tanh = relu


@dataclass(frozen=True)
class Shape:
    """The shape of one image's values, under the arithmetic that networks use."""

    shape: tuple[int, ...]

    def __add__(self, other: Shape) -> Shape:
        return self

    def __mul__(self, other: Shape) -> Shape:
        return self

    def __truediv__(self, other: float) -> Shape:
        return self


def initial_parameters(network: Network) -> dict[str, np.ndarray]:
    """The same parameters for every library, running statistics among them, in NNabla's layout and by its names."""
    shapes = Shapes()
    network.scores(shapes, Shape(network.shape))
    rng = np.random.default_rng(5)
    return {name: _initial(name.rpartition("/")[2], shape, rng) for name, shape in shapes.parameters.items()}


def _initial(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if kind != "W":
        return np.full(shape, kind in ("gamma", "var"), np.float32)
    fan_in = shape[0] if len(shape) == 2 else math.prod(shape[1:])
    return rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(fan_in))


def is_statistic(name: str) -> bool:
    """Whether a parameter is a running statistic, which no solver changes."""
    return name.endswith(("/mean", "/var"))


def batches(network: Network) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Some batches of (images, labels), in turn and without end: (batch, *shape) float32, (batch, 1) int32."""
    rng = np.random.default_rng(6)
    made = []
    for _ in range(BATCH_COUNT):
        images = rng.standard_normal((network.batch, *network.shape), dtype=np.float32)
        made.append((images, rng.integers(0, network.classes, (network.batch, 1)).astype(np.int32)))
        yield made[-1]
    while True:
        yield from made
