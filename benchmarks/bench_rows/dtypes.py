"""Layers in double, half and bf16 on the processor, beside the same layer in float32 and in torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench_rows.recorded import recorded
from harness.case import Case

_DTYPES = {"double": "float64", "half": "float16", "bf16": "bfloat16"}


class _Layer(NamedTuple):
    """shapes: of the inputs.  atled: (F, *variables) -> result.  torch: (torch.nn.functional, *tensors) -> result."""

    shapes: Sequence[tuple[int, ...]]
    atled: Callable[..., Any]
    torch: Callable[..., Any]


LAYERS = {
    "product 512": _Layer(((512, 512), (512, 512)), lambda F, x, w: F.affine(x, w), lambda f, x, w: x @ w),
    "convolution 3x3": _Layer(
        ((8, 64, 28, 28), (64, 64, 3, 3)),
        lambda F, x, w: F.convolution(x, w, pad=(1, 1)),
        lambda f, x, w: f.conv2d(x, w, padding=1),
    ),
    "convolution 1x1": _Layer(
        ((8, 256, 14, 14), (64, 256, 1, 1)), lambda F, x, w: F.convolution(x, w), lambda f, x, w: f.conv2d(x, w)
    ),
    "depthwise 3x3": _Layer(
        ((8, 96, 28, 28), (96, 1, 3, 3)),
        lambda F, x, w: F.convolution(x, w, pad=(1, 1), group=96),
        lambda f, x, w: f.conv2d(x, w, padding=1, groups=96),
    ),
    "max pooling 2x2": _Layer(
        ((8, 64, 28, 28),), lambda F, x: F.max_pooling(x, (2, 2)), lambda f, x: f.max_pool2d(x, 2)
    ),
    "softmax": _Layer(((64, 1000),), lambda F, x: F.softmax(x), lambda f, x: f.softmax(x, dim=1)),
    "batch normalization": _Layer(
        ((8, 64, 28, 28), *((1, 64, 1, 1),) * 4),
        lambda F, x, beta, gamma, mean, variance: F.batch_normalization(x, beta, gamma, mean, variance),
        lambda f, x, beta, gamma, mean, variance: f.batch_norm(
            x, mean.flatten(), variance.flatten(), gamma.flatten(), beta.flatten(), training=True
        ),
    ),
    "average pooling 2x2": _Layer(
        ((8, 64, 28, 28),), lambda F, x: F.average_pooling(x, (2, 2)), lambda f, x: f.avg_pool2d(x, 2)
    ),
    "sum of rows": _Layer(((512, 1024),), lambda F, x: F.sum(x, axis=1), lambda f, x: x.sum(1)),
    "padding": _Layer(((8, 64, 28, 28),), lambda F, x: F.pad(x, (1, 1, 1, 1)), lambda f, x: f.pad(x, (1, 1, 1, 1))),
}


def layer(library: str, name: str, config: str) -> Case:
    """A layer forward; library: "atled" in the type config, "atled-float" in float32, or "torch"."""
    rng = np.random.default_rng(4)
    found = LAYERS[name]
    arrays = [rng.standard_normal(shape).astype("f") / max(1, len(shape) // 2) for shape in found.shapes]
    if library == "torch":
        return _in_torch(found, arrays, _DTYPES[config])
    api = recorded(library)
    api.nn.set_auto_forward(True)
    api.nn.set_default_context(api.nn.Context([f"cpu:{'float' if library == 'atled-float' else config}"]))
    dtype = "float32" if library == "atled-float" else _DTYPES[config]
    if dtype == "bfloat16":
        dtype = importlib.import_module("ml_dtypes").bfloat16
    # In the dtype of the Context: an array of another one would be cast in each run.
    inputs = [api.nn.NdArray.from_numpy_array(array.astype(dtype)) for array in arrays]

    def run() -> Any:
        return found.atled(api.F, *inputs)

    return Case(run, lambda: [np.asarray(run().data, np.float32)])


def _in_torch(found: _Layer, arrays: Sequence[np.ndarray], dtype: str) -> Case:
    torch = importlib.import_module("torch")
    tensors = [torch.from_numpy(array).to(getattr(torch, dtype)) for array in arrays]

    def run() -> Any:
        with torch.no_grad():
            return found.torch(torch.nn.functional, *tensors)

    return Case(run, lambda: [run().float().numpy()])
