"""The networks that are trained, written once for NNabla and atled and once for torch, with common initial values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

BATCH_COUNT = 8


@dataclass(frozen=True)
class Network:
    """A network and what it is trained on.

    batch: images per batch.  shape: of an image.  classes: count.
    weights: shapes, in NNabla's layout.  biases: sizes.  normalized: channels of each batch normalization.
    recorded: (modules, x) -> scores, in NNabla's API.
    torch: (torch.nn.functional, parameters and running statistics by name, x) -> scores.
    """

    batch: int
    shape: tuple[int, ...]
    classes: int
    weights: Mapping[str, tuple[int, ...]]
    biases: Mapping[str, int]
    normalized: Mapping[str, int]
    recorded: Callable[[SimpleNamespace, Any], Any]
    torch: Callable[[Any, Mapping[str, Any], Any], Any]


def _digits_recorded(api: SimpleNamespace, x: Any) -> Any:
    F, PF = api.F, api.PF
    h = PF.convolution(x, 16, (3, 3), pad=(1, 1), stride=(2, 2), name="conv1")
    h = F.tanh(PF.batch_normalization(h, name="bn1"))
    h = PF.convolution(h, 32, (3, 3), pad=(1, 1), name="conv2")
    h = F.tanh(PF.batch_normalization(h, name="bn2"))
    h = F.average_pooling(h, (2, 2))
    h = F.tanh(PF.affine(h, 64, name="affine1"))
    return PF.affine(h, 10, name="affine2")


def _digits_torch(F: Any, p: Mapping[str, Any], x: Any) -> Any:
    def normalize(h: Any, name: str) -> Any:
        return F.batch_norm(h, p[name + "/mean"], p[name + "/var"], p[name + "/gamma"], p[name + "/beta"], True)

    h = F.conv2d(x, p["conv1/conv/W"], p["conv1/conv/b"], stride=2, padding=1)
    h = normalize(h, "bn1/bn").tanh()
    h = F.conv2d(h, p["conv2/conv/W"], p["conv2/conv/b"], padding=1)
    h = normalize(h, "bn2/bn").tanh()
    h = F.avg_pool2d(h, 2).flatten(1)
    h = F.linear(h, p["affine1/affine/W"], p["affine1/affine/b"]).tanh()
    return F.linear(h, p["affine2/affine/W"], p["affine2/affine/b"])


def _mlp_recorded(api: SimpleNamespace, x: Any) -> Any:
    F, PF = api.F, api.PF
    h = F.relu(PF.affine(x, 512, name="affine1"))
    h = F.relu(PF.affine(h, 512, name="affine2"))
    return PF.affine(h, 10, name="affine3")


def _mlp_torch(F: Any, p: Mapping[str, Any], x: Any) -> Any:
    h = F.relu(F.linear(x, p["affine1/affine/W"], p["affine1/affine/b"]))
    h = F.relu(F.linear(h, p["affine2/affine/W"], p["affine2/affine/b"]))
    return F.linear(h, p["affine3/affine/W"], p["affine3/affine/b"])


NETWORKS = {
    # The demo's: two convolutions with batch normalization and tanh, average pooling, two affine layers.
    "digits": Network(
        64,
        (1, 8, 8),
        10,
        weights={
            "conv1/conv/W": (16, 1, 3, 3),
            "conv2/conv/W": (32, 16, 3, 3),
            "affine1/affine/W": (128, 64),
            "affine2/affine/W": (64, 10),
        },
        biases={"conv1/conv/b": 16, "conv2/conv/b": 32, "affine1/affine/b": 64, "affine2/affine/b": 10},
        normalized={"bn1/bn": 16, "bn2/bn": 32},
        recorded=_digits_recorded,
        torch=_digits_torch,
    ),
    "mlp": Network(
        128,
        (784,),
        10,
        weights={"affine1/affine/W": (784, 512), "affine2/affine/W": (512, 512), "affine3/affine/W": (512, 10)},
        biases={"affine1/affine/b": 512, "affine2/affine/b": 512, "affine3/affine/b": 10},
        normalized={},
        recorded=_mlp_recorded,
        torch=_mlp_torch,
    ),
}


def initial_weights(network: Network) -> dict[str, np.ndarray]:
    """The same weights for every library, in NNabla's layout; other parameters start as usual (0, and 1 for gamma)."""
    rng = np.random.default_rng(5)
    values = {}
    for name, shape in network.weights.items():
        fan_in = shape[0] if len(shape) == 2 else math.prod(shape[1:])
        values[name] = (rng.standard_normal(shape) / math.sqrt(fan_in)).astype(np.float32)
    return values


def batches(network: Network) -> list[tuple[np.ndarray, np.ndarray]]:
    """Some batches of (images, labels): (batch, *shape) float32, (batch, 1) int32."""
    rng = np.random.default_rng(6)
    return [
        (
            rng.standard_normal((network.batch, *network.shape)).astype(np.float32),
            rng.integers(0, network.classes, (network.batch, 1)).astype(np.int32),
        )
        for _ in range(BATCH_COUNT)
    ]
