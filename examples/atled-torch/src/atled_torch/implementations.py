"""Which ops there are. Imports no torch, so that the manifest is made without it."""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Call, Implementation, Prepared, op_spec

_OPS = {
    "affine": "Affine",
    "batch_normalization": "BatchNormalization BatchNormalizationGrad",
    "convolution": "Convolution ConvolutionDataGrad ConvolutionWeightGrad",
    "matmul": "BatchMatmul",
    "pooling": "MaxPooling MaxPoolingGrad MaxPoolingGather AveragePooling AveragePoolingGrad",
    "reduction": "Mean Sum",
    "softmax": "Softmax SoftmaxCrossEntropy SoftmaxCrossEntropyGrad",
}
"""The ops without a formula, by the function in operations.py that computes them."""


def provide(op: str) -> Implementation | None:
    """The implementation of any op that has a formula, copies, or is in the table; None for other ops."""
    spec = op_spec(op)
    if spec.program is not None:
        return Implementation(op, "torch", _prepare("formula"), note="formula", op_version=None, fuses=True)
    if spec.copies or op == "Cast":
        return Implementation(op, "torch", _prepare("copied"), note="copy", op_version=None)
    for name, ops in _OPS.items():
        if op in ops.split():
            return Implementation(op, "torch", _prepare(name), accepts=accepts, note="torch")
    return None


def accepts(call: Call) -> bool | str:
    """True for what torch computes, else the reason."""
    if "Convolution" in call.spec.name and len(call.attributes["pad"]) > 3:
        return "torch convolves over three axes at most"
    return True


def _prepare(name: str) -> Callable[[Call], Prepared]:
    def prepare(call: Call) -> Prepared:
        from atled_torch import operations  # imports torch, which takes seconds: where something is computed by it

        return operations.prepared(call, getattr(operations, name)(call))

    return prepare
