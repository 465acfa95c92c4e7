"""The three ways to use torch, on the processor or on a GPU: eager, eager with channels last, compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_rows import precision

TORCH = ("torch", "torch-nhwc", "torch-compile", "torch-gpu", "torch-gpu-nhwc", "torch-gpu-compile")


class TorchVariant:
    """torch, and how the variant `library` treats tensors and functions."""

    def __init__(self, library: str) -> None:
        self.torch = importlib.import_module("torch")
        self._library = library
        self.is_gpu = library.startswith("torch-gpu")
        if self.is_gpu:
            self.torch.set_default_device("cuda")
            is_tf32 = precision.chosen == "tf32"
            self.torch.backends.cuda.matmul.allow_tf32 = self.torch.backends.cudnn.allow_tf32 = is_tf32

    def tensor(self, values: np.ndarray) -> Any:
        """A tensor of its own with these values, of four axes with the channels last where the variant says so."""
        made = self.torch.from_numpy(np.array(values))
        if self.is_gpu:
            made = made.cuda()
        if self._library.endswith("-nhwc") and made.ndim == 4:
            made = made.contiguous(memory_format=self.torch.channels_last)
        return made

    def built(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled where the variant says so; on a GPU in the precision that was chosen."""
        if self.is_gpu and precision.chosen in ("half", "bf16"):
            dtype = {"half": self.torch.float16, "bf16": self.torch.bfloat16}[precision.chosen]
            function = self.torch.autocast("cuda", dtype)(function)
        if not self._library.endswith("-compile"):
            return function
        # What was compiled for earlier rows would be looked through at each call, and counts against a limit.
        importlib.import_module("torch._dynamo").reset()
        return self.torch.compile(function, dynamic=False)
