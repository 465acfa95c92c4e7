"""A convolution and both its gradients on images with the batch innermost, as neon has them: (C, H, W, N)."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

IMAGES, CHANNELS, MAPS, SIDE, KERNEL = 64, 32, 32, 16, 3
_BATCH_LAST, _BATCH_FIRST = (1, 2, 3, 0), (3, 0, 1, 2)


def convolution(library: str, kind: str, order: str = "neon") -> Case:
    """64 images of 32 maps, 16 x 16, to 32 maps, 3 x 3, padding 1; kind: "fprop", "bprop" or "update".

    order: "neon", or "planes", in which ours is given (N, C, H, W); torch has its own orders.
    """
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((IMAGES, count, SIDE, SIDE), np.float32) for count in (CHANNELS, MAPS))
    w = random.standard_normal((MAPS, CHANNELS, KERNEL, KERNEL), np.float32) / np.float32(17)
    if library in TORCH:
        return _in_torch(TorchVariant(library), kind, x, w, y)
    nn = importlib.import_module("atled")
    keyed, views = importlib.import_module("atled.keyed"), importlib.import_module("atled.arrays.views")

    memory = []

    def view(values: np.ndarray) -> Any:
        kept = values if order == "planes" else np.ascontiguousarray(values.transpose(_BATCH_LAST))
        memory.append(nn.NdArray.from_numpy_array(kept))
        made = views.View(memory[-1])
        return made if order == "planes" else made.transpose(_BATCH_FIRST)

    geometry: dict[str, Any] = {"base_axis": 1, "pad": (1, 1), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    program = keyed.Description()
    x_in, w_in, y_in = (program.leaf(view(values)) for values in (x, w, y))
    if kind == "fprop":
        result, value = y, program.call("Convolution", x_in, w_in, None, **geometry)
    elif kind == "bprop":
        result, value = x, program.call("ConvolutionDataGrad", y_in, w_in, shape=(SIDE, SIDE), **geometry)
    else:
        value = program.call("ConvolutionWeightGrad", x_in, y_in, kernel=(KERNEL, KERNEL), **geometry)
        result = w
    program.assign(program.leaf(view(np.zeros_like(result))), value)

    def results() -> list[np.ndarray]:
        program.run()
        values = np.array(memory[-1].data)
        return [values if order == "planes" else values.transpose(_BATCH_FIRST)]

    return Case(program.run, results)


def _in_torch(variant: TorchVariant, kind: str, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> Case:
    torch = variant.torch
    images, weight, gradient = map(variant.tensor, (x, w, y))

    def run() -> Any:
        with torch.no_grad():
            if kind == "fprop":
                return torch.nn.functional.conv2d(images, weight, padding=1)
            wanted = [kind == "bprop", kind == "update", False]
            steps = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
            made = torch.ops.aten.convolution_backward(gradient, images, weight, None, *steps, wanted)
            return made[0 if kind == "bprop" else 1]

    return Case(run, lambda: [run().contiguous().numpy()])
