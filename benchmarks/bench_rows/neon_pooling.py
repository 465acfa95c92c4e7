"""Pooling of 64 images of 32 maps, 16x16, both ways: ours with the images innermost, as neon's layer calls have it."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

IMAGES, MAPS, SIDE = 64, 32, 16


def pooling(library: str, op: str, size: int, stride: int) -> Case:
    """Windows of size x size, and the gradient of the images for one of the result; op: "max" or "average"."""
    count = (SIDE - size) // stride + 1
    random = np.random.default_rng(0)
    x = random.normal(size=(MAPS, 1, SIDE, SIDE, IMAGES)).astype(np.float32)
    error = random.normal(size=(MAPS, 1, count, count, IMAGES)).astype(np.float32)
    if library in TORCH:
        return _torch(TorchVariant(library), op, size, stride, x, error)
    nn, keyed = importlib.import_module("atled"), importlib.import_module("atled.keyed")
    images, errors = (nn.NdArray.from_numpy_array(array) for array in (x, error))
    y, gx = (nn.NdArray.from_numpy_array(np.zeros_like(array)) for array in (error, x))
    place = nn.NdArray.from_numpy_array(np.zeros(error.shape, np.uint8))
    windows = {"kernel": (1, 1, size, size), "stride": (1, 1, stride, stride), "channel_last": True}
    forward, backward = keyed.Description(), keyed.Description()
    if op == "max":
        made = forward.call("WindowMax", forward.leaf(images), **windows)
        forward.assign(place, forward.output(made, 1))
        given = backward.leaf(errors), backward.leaf(place)
        gradient = backward.call("WindowMaxGrad", *given, shape=x.shape[:-1], **windows)
    else:
        made = forward.call("WindowSum", forward.leaf(images), average=True, **windows)
        gradient = backward.call("WindowSumGrad", backward.leaf(errors), average=True, shape=x.shape[:-1], **windows)
    forward.assign(y, made)
    backward.assign(gx, gradient)

    def run() -> None:
        forward.run()
        backward.run()

    return Case(run, lambda: [run(), y.data.copy(), gx.data.copy()][1:])


def _torch(variant: TorchVariant, op: str, size: int, stride: int, x: np.ndarray, error: np.ndarray) -> Case:
    """The same in torch's order, (N, C, H, W), or with the channels last."""
    torch = variant.torch
    images, errors = (variant.tensor(np.moveaxis(array[:, 0], -1, 0)) for array in (x, error))
    images.requires_grad_(True)
    call = {"max": torch.nn.functional.max_pool2d, "average": torch.nn.functional.avg_pool2d}[op]
    function = variant.built(lambda given: call(given, size, stride))

    def run() -> Any:
        images.grad = None
        y = function(images)
        y.backward(errors)
        return y

    def results() -> list[np.ndarray]:
        y = run().detach().cpu().numpy()
        return [np.moveaxis(each, 0, -1)[:, None] for each in (y, images.grad.cpu().numpy())]

    return Case(run, results)
