"""The networks that are trained, written once for NNabla and atled and once for torch, with common initial values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

BATCH_COUNT = 8


class Digits:
    """The demo's network: two convolutions with batch normalization and tanh, average pooling, two affine layers."""

    batch, shape, classes = 64, (1, 8, 8), 10
    weights = {
        "conv1/conv/W": (16, 1, 3, 3),
        "conv2/conv/W": (32, 16, 3, 3),
        "affine1/affine/W": (128, 64),
        "affine2/affine/W": (64, 10),
    }
    biases = {"conv1/conv/b": 16, "conv2/conv/b": 32, "affine1/affine/b": 64, "affine2/affine/b": 10}
    normalized = {"bn1/bn": 16, "bn2/bn": 32}

    @staticmethod
    def recorded(api: SimpleNamespace, x: Any) -> Any:
        """The scores in NNabla's API."""
        F, PF = api.F, api.PF
        h = PF.convolution(x, 16, (3, 3), pad=(1, 1), stride=(2, 2), name="conv1")
        h = F.tanh(PF.batch_normalization(h, name="bn1"))
        h = PF.convolution(h, 32, (3, 3), pad=(1, 1), name="conv2")
        h = F.tanh(PF.batch_normalization(h, name="bn2"))
        h = F.average_pooling(h, (2, 2))
        h = F.tanh(PF.affine(h, 64, name="affine1"))
        return PF.affine(h, 10, name="affine2")

    @staticmethod
    def torch(F: Any, p: Mapping[str, Any], x: Any) -> Any:
        """The scores in torch; p: parameters and running statistics by name."""

        def normalize(h: Any, name: str) -> Any:
            return F.batch_norm(h, p[name + "/mean"], p[name + "/var"], p[name + "/gamma"], p[name + "/beta"], True)

        h = F.conv2d(x, p["conv1/conv/W"], p["conv1/conv/b"], stride=2, padding=1)
        h = normalize(h, "bn1/bn").tanh()
        h = F.conv2d(h, p["conv2/conv/W"], p["conv2/conv/b"], padding=1)
        h = normalize(h, "bn2/bn").tanh()
        h = F.avg_pool2d(h, 2).flatten(1)
        h = F.linear(h, p["affine1/affine/W"], p["affine1/affine/b"]).tanh()
        return F.linear(h, p["affine2/affine/W"], p["affine2/affine/b"])


class Mlp:
    """784-512-512-10 with relu."""

    batch, shape, classes = 128, (784,), 10
    weights = {"affine1/affine/W": (784, 512), "affine2/affine/W": (512, 512), "affine3/affine/W": (512, 10)}
    biases = {"affine1/affine/b": 512, "affine2/affine/b": 512, "affine3/affine/b": 10}
    normalized: Mapping[str, int] = {}

    @staticmethod
    def recorded(api: SimpleNamespace, x: Any) -> Any:
        """The scores in NNabla's API."""
        F, PF = api.F, api.PF
        h = F.relu(PF.affine(x, 512, name="affine1"))
        h = F.relu(PF.affine(h, 512, name="affine2"))
        return PF.affine(h, 10, name="affine3")

    @staticmethod
    def torch(F: Any, p: Mapping[str, Any], x: Any) -> Any:
        """The scores in torch; p: parameters by name."""
        h = F.relu(F.linear(x, p["affine1/affine/W"], p["affine1/affine/b"]))
        h = F.relu(F.linear(h, p["affine2/affine/W"], p["affine2/affine/b"]))
        return F.linear(h, p["affine3/affine/W"], p["affine3/affine/b"])


NETWORKS = {"digits": Digits, "mlp": Mlp}


def initial_weights(network: Any) -> dict[str, np.ndarray]:
    """The same weights for every library, in NNabla's layout; other parameters start as usual (0, and 1 for gamma)."""
    rng = np.random.default_rng(5)
    values = {}
    for name, shape in network.weights.items():
        fan_in = shape[0] if len(shape) == 2 else math.prod(shape[1:])
        values[name] = (rng.standard_normal(shape) / math.sqrt(fan_in)).astype(np.float32)
    return values


def batches(network: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Some batches of (images, labels): (batch, *shape) float32, (batch, 1) int32."""
    rng = np.random.default_rng(6)
    return [
        (
            rng.standard_normal((network.batch, *network.shape)).astype(np.float32),
            rng.integers(0, network.classes, (network.batch, 1)).astype(np.int32),
        )
        for _ in range(BATCH_COUNT)
    ]
