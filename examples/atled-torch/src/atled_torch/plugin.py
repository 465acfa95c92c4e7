"""The plugin object: who it is, whether it can work here, what it brings. Imports no torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from atled.plugin import (
    BackendInfo,
    Call,
    Context,
    Implementation,
    PluginInfo,
    Prepared,
    Registrar,
    Unusable,
    Usable,
    hookimpl,
    op_spec,
)
from atled_torch.arrays import TorchArrayClass

__version__ = "0.1.0"

ARRAY_CLASS = TorchArrayClass()

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


class TorchPlugin:
    """Backend `torch`: PyTorch on the processor."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        backend = BackendInfo("torch", ("float", "half", "double"), array_classes=("TorchArray",))
        return PluginInfo("torch", "1.0", "atled-torch", __version__, (backend,), extension_names=("torch",))

    @hookimpl
    def atled_probe(self) -> Usable | Unusable:
        """Whether torch is installed; it is not loaded for that."""
        if importlib.util.find_spec("torch") is None:
            return Unusable("PyTorch is not installed", "pip install 'atled-torch[torch]'")
        return Usable()

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """All ops as one family, and the array class."""
        registrar.family("torch", provide)
        registrar.array_class("TorchArray", ARRAY_CLASS, "torch", default=True)

    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("torch")`: what is not here goes to the reference."""
        if name != "torch":
            return None
        return Context([f"torch:{type_config}", f"reference:{type_config}"], "TorchArray", device_id, **options)


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


PLUGIN = TorchPlugin()
