"""How tensors are made, and moved to and from host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atled.plugin import ArrayClass, ArrayDesc

if TYPE_CHECKING:
    from torch import Tensor


class TorchArrayClass(ArrayClass):
    """Array class `TorchArray`: contiguous tensors in memory of torch's own."""

    name = "TorchArray"

    def allocate(self, desc: ArrayDesc, device_id: str) -> Tensor:
        """A new tensor; contents undefined."""
        import torch  # as in plugin.py

        return torch.empty(desc.shape, dtype=getattr(torch, desc.dtype.name))

    def upload(self, source: np.ndarray, target: Tensor) -> None:
        """Copy from host memory."""
        target.numpy()[...] = source

    def download(self, source: Tensor, target: np.ndarray) -> None:
        """Copy to host memory."""
        target[...] = source.numpy()

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copy between tensors."""
        target.copy_(source)

    def fill(self, target: Tensor, value: float) -> None:
        """Set every element."""
        target.fill_(value)

    def view(self, array: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The same memory with another shape."""
        return array.view(shape)

    def dlpack_device(self, device_id: str) -> tuple[int, int]:
        """The processor, as DLPack counts devices."""
        return (1, 0)

    def to_dlpack(self, source: Tensor, **options: Any) -> Any:  # Any: options and capsule of DLPack
        """A capsule over the tensor's memory."""
        return source.__dlpack__(**options)

    def from_dlpack(self, source: Any, device_id: str) -> tuple[Tensor, ArrayDesc]:  # Any: what has `__dlpack__`
        """A tensor over the memory of another library's array."""
        import torch  # as in plugin.py

        tensor = torch.from_dlpack(source)
        return tensor, ArrayDesc(tuple(tensor.shape), tensor.numpy().dtype)
