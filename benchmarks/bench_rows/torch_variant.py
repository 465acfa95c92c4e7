"""The three ways to use torch: eager, eager with channels last, compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

TORCH = ("torch", "torch-nhwc", "torch-compile")


class TorchVariant:
    """torch, and how the variant `library` treats tensors and functions."""

    def __init__(self, library: str) -> None:
        self.torch = importlib.import_module("torch")
        self._library = library

    def tensor(self, values: np.ndarray) -> Any:
        """A tensor of its own with these values, of four axes with the channels last where the variant says so."""
        made = self.torch.from_numpy(np.array(values))
        if self._library == "torch-nhwc" and made.ndim == 4:
            made = made.contiguous(memory_format=self.torch.channels_last)
        return made

    def built(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled where the variant says so."""
        if self._library != "torch-compile":
            return function
        # What was compiled for earlier rows would be looked through at each call, and counts against a limit.
        importlib.import_module("torch._dynamo").reset()
        return self.torch.compile(function, dynamic=False)
