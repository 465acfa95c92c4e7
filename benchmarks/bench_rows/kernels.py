"""Single ops on realistic sizes: the implementation of the cpu backend, or the NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.case import Case

_BACKENDS = {"atled": "cpu", "reference": "reference"}

Make = Callable[[np.random.Generator], np.ndarray]


def _normal(*shape: int) -> Make:
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def _positive(*shape: int) -> Make:
    return lambda rng: rng.uniform(0.5, 1.5, shape).astype(np.float32)


def _labels(count: int, classes: int) -> Make:
    return lambda rng: rng.integers(0, classes, (count, 1))


def _probabilities(count: int, classes: int) -> Make:
    return lambda rng: rng.dirichlet(np.ones(classes), count).astype(np.float32)


def _window_places(*shape: int) -> Make:
    """Where max pooling 2x2 found its maxima: (N, C, height/2, width/2), places of the windows."""

    def make(rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, 4, shape).astype(np.uint8)

    return make


@dataclass(frozen=True)
class Kernel:
    """One op call: the op's name, its inputs and attributes."""

    op: str
    inputs: Sequence[Make]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def _convolutions() -> dict[str, Kernel]:
    """Each geometry in its three roles: (batch, channels, size, maps, kernel size, pad, stride)."""
    geometries = {
        "conv 4x64x56x56, 64 3x3": (4, 64, 56, 64, 3, 1, 1),
        "conv 32x3x32x32, 64 3x3": (32, 3, 32, 64, 3, 1, 1),
        "conv 32x1x28x28, 16 5x5": (32, 1, 28, 16, 5, 0, 1),
        "conv 8x256x14x14, 256 1x1": (8, 256, 14, 256, 1, 0, 1),
        "conv 64x1x8x8, 16 3x3 stride 2": (64, 1, 8, 16, 3, 1, 2),
        "conv 64x16x4x4, 32 3x3": (64, 16, 4, 32, 3, 1, 1),
    }
    found = {}
    for name, (n, c, size, maps, k, pad, stride) in geometries.items():
        out = (size + 2 * pad - k) // stride + 1
        geometry = {"pad": (pad, pad), "stride": (stride, stride)}
        x, w, gy = _normal(n, c, size, size), _normal(maps, c, k, k), _normal(n, maps, out, out)
        found[name] = Kernel("Convolution", (x, w, _normal(maps)), geometry)
        found[name + ", data grad"] = Kernel("ConvolutionDataGrad", (gy, w), {**geometry, "shape": (size, size)})
        found[name + ", weight grad"] = Kernel("ConvolutionWeightGrad", (x, gy), {**geometry, "kernel": (k, k)})
    return found


def _reductions() -> dict[str, Kernel]:
    axes = {"axis 0": (0,), "axis 1": (1,), "all": (0, 1)}
    return {
        f"{op.lower()} 1000x1000, {which}": Kernel(op, (_normal(1000, 1000),), {"axes": chosen})
        for op in ("Sum", "Mean")
        for which, chosen in axes.items()
    }


def _elementwise() -> dict[str, Kernel]:
    ops = {"add": ("Add2", 2), "tanh": ("Tanh", 1), "sigmoid": ("Sigmoid", 1), "exp": ("Exp", 1)}
    return {
        f"{name} {text}": Kernel(op, (_normal(size),) * inputs)
        for name, (op, inputs) in ops.items()
        for text, size in (("1e4", 10_000), ("1e6", 1_000_000))
    }


_POOL = {"kernel": (2, 2)}
_POOLED, _UNPOOLED = (16, 64, 28, 28), (16, 64, 56, 56)
_BN = (32, 64, 28, 28)
_CHANNELS = (1, 64, 1, 1)
_ADAM = {"alpha_t": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}

KERNELS: dict[str, Kernel] = {
    "affine 128x784 to 512": Kernel("Affine", (_normal(128, 784), _normal(784, 512), _normal(512))),
    "affine 64x128 to 64": Kernel("Affine", (_normal(64, 128), _normal(128, 64), _normal(64))),
    "batch matmul 16 x 128x64x128": Kernel("BatchMatmul", (_normal(16, 128, 64), _normal(16, 64, 128))),
    "matmul transposed 784x128x512": Kernel(
        "BatchMatmul", (_normal(128, 784), _normal(128, 512)), {"transpose_a": True}
    ),
    **_convolutions(),
    "max pooling 2x2": Kernel("MaxPooling", (_normal(*_UNPOOLED),), _POOL),
    "max pooling 2x2, grad": Kernel(
        "MaxPoolingGrad", (_normal(*_POOLED), _window_places(*_POOLED)), {**_POOL, "shape": (56, 56)}
    ),
    "average pooling 2x2": Kernel("AveragePooling", (_normal(*_UNPOOLED),), _POOL),
    "average pooling 2x2, grad": Kernel("AveragePoolingGrad", (_normal(*_POOLED),), {**_POOL, "shape": (56, 56)}),
    "batch norm 32x64x28x28": Kernel(
        "BatchNormalization",
        (_normal(*_BN), _normal(*_CHANNELS), _positive(*_CHANNELS), _normal(*_CHANNELS), _positive(*_CHANNELS)),
    ),
    "batch norm 32x64x28x28, grad": Kernel(
        "BatchNormalizationGrad",
        (_normal(*_BN), _normal(*_BN), _positive(*_CHANNELS), _normal(*_CHANNELS), _positive(*_CHANNELS)),
    ),
    "softmax 256x1000": Kernel("Softmax", (_normal(256, 1000),)),
    "softmax cross-entropy 256x1000": Kernel("SoftmaxCrossEntropy", (_normal(256, 1000), _labels(256, 1000))),
    "softmax cross-entropy 256x1000, grad": Kernel(
        "SoftmaxCrossEntropyGrad", (_positive(256, 1), _probabilities(256, 1000), _labels(256, 1000))
    ),
    **_reductions(),
    **_elementwise(),
    "adam 1e6": Kernel("AdamUpdate", (_normal(1_000_000),) * 3 + (_positive(1_000_000),), _ADAM),
}


def kernel(library: str, name: str) -> Case:
    """A plan of one op on the cpu backend ("atled") or on the reference backend ("reference")."""
    # Here and not above: the process that only lists the rows loads no library.
    from atled import Context
    from atled.array_desc import ArrayDesc
    from atled.arrays.cell import ArrayCell
    from atled.arrays.place import HOST
    from atled.graph.compile.lowering import lower
    from atled.graph.nodes.ir import Graph
    from atled.graph.run.binding import Binding

    chosen = KERNELS[name]
    rng = np.random.default_rng(4)
    arrays = [make(rng) for make in chosen.inputs]
    cells = [ArrayCell(array.size) for array in arrays]
    graph = Graph(Context([f"{_BACKENDS[library]}:float"]))
    inputs = []
    for number, (cell, array) in enumerate(zip(cells, arrays, strict=True)):
        cell.output(HOST, array.dtype).array(array.shape, array.dtype)[...] = array
        inputs.append(graph.external(number, ArrayDesc(array.shape, array.dtype)))
    made = graph.op(chosen.op, *inputs, **chosen.attributes)
    outputs = made if isinstance(made, tuple) else (made,)
    plan = lower(graph, outputs)
    made_cells = [ArrayCell(value.size) for value in outputs]
    binding = Binding(plan, cells, made_cells, [source[1] for source in plan.floats])

    def results() -> list[np.ndarray]:
        binding.run()
        found = []
        for value, cell, slot in zip(outputs, made_cells, plan.targets, strict=True):
            kind, *number = plan.slots[slot].source
            # An op that works in place leaves its result in one of its inputs.
            holder = cell if kind == "target" else cells[number[0]]
            found.append(holder.host().array(value.shape, value.dtype).copy())
        return found

    return Case(binding.run, results, ", ".join(step.note for step in plan.steps))
